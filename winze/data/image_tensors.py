"""Images as tensors: channels, sizes, statistics."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import UInt8
from torch import Tensor

from winze.data.data_error import DataError

Fit = Literal["resize", "pad"]

LUMA = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in a grey image (ITU-R BT.601)."""


def channel_statistics(images: UInt8[Tensor, "n c h w"]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of every channel on the scale 0-1, exact; a constant channel gets std 1.

    A histogram of the 256 levels holds all there is to know.
    """
    if images.dtype != torch.uint8 or images.ndim != 4 or not len(images):
        raise DataError(f"channel statistics need uint8 images [n, c, h, w], not {images.dtype} {list(images.shape)}")
    levels = torch.arange(256, dtype=torch.float64) / 255
    means, stds = [], []
    for channel in range(images.shape[1]):
        chunks = [torch.bincount(chunk[:, channel].flatten(), minlength=256) for chunk in _chunks(images)]
        counts = torch.stack(chunks).sum(0).double().cpu()
        share = counts / counts.sum()
        mean = float(share @ levels)
        variance = float(share @ (levels - mean) ** 2)
        means.append(mean)
        stds.append(variance**0.5 if variance > 1e-12 else 1.0)
    return tuple(means), tuple(stds)


def resize_square(images: UInt8[Tensor, "n c h w"], size: int) -> UInt8[Tensor, "n c size size"]:
    """The centre square of every image at another size, rounded back to bytes."""
    side = min(images.shape[2:])
    top, left = (images.shape[2] - side) // 2, (images.shape[3] - side) // 2
    square = images[:, :, top : top + side, left : left + side]
    chunks = [fitted(chunk.float(), (size, size), "resize").round().clamp(0, 255).byte() for chunk in _chunks(square)]
    return torch.cat(chunks)


def to_channels(x: Tensor, channels: int) -> Tensor:
    """Grey to RGB by repetition, RGB to grey by luma."""
    if x.shape[1] == channels:
        return x
    if x.shape[1] == 1:
        return x.expand(-1, channels, -1, -1)
    if x.shape[1] == 3 and channels == 1:
        return grey(x)
    raise DataError(f"preprocess: images have {x.shape[1]} channels, expected {channels}")


def grey(x: Tensor) -> Tensor:
    """Grey levels of colour images by luma; grey ones as they are."""
    if x.shape[1] == 1:
        return x
    red, green, blue = (weight * x[:, i : i + 1] for i, weight in enumerate(LUMA))
    return red + green + blue


def unit(images: Tensor) -> Tensor:
    """Bytes as floats on the scale 0-1; floats as they are."""
    return images if images.is_floating_point() else images.float() / 255


def grey_bytes(images: UInt8[Tensor, "n 3 h w"]) -> UInt8[Tensor, "n 1 h w"]:
    """Grey levels of colour images, rounded to bytes."""
    return torch.cat([to_channels(chunk.float(), 1).round().byte() for chunk in _chunks(images)])


def fitted(x: Tensor, size: tuple[int, int] | None, fit: Fit) -> Tensor:
    """Bring images to (height, width): bilinear with antialiasing, or black around them, half on each side."""
    if size is None or tuple(x.shape[2:]) == size:
        return x
    if fit == "resize":
        return F.interpolate(x, size=size, mode="bilinear", antialias=True, align_corners=False)
    tall, wide = size[0] - x.shape[2], size[1] - x.shape[3]
    if tall < 0 or wide < 0:
        raise DataError(f"preprocess: images of {x.shape[2]} x {x.shape[3]} cannot be padded to {size[0]} x {size[1]}")
    return F.pad(x, (wide // 2, wide - wide // 2, tall // 2, tall - tall // 2))


def _chunks(images: Tensor, size: int = 2048) -> list[Tensor]:
    """Views of a few images each, so that float copies stay small."""
    return [images[start : start + size] for start in range(0, len(images), size)]
