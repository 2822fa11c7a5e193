"""Sizes that make sense, and how weights start."""

from __future__ import annotations

from typing import Literal, TypeVar

from torch import Tensor, nn

from winze.networks.network_error import NetworkError

LayerT = TypeVar("LayerT", nn.Linear, nn.Conv2d)


def started(layer: LayerT, keep: Literal["fan_in", "fan_out"] = "fan_in") -> LayerT:
    """A layer with Kaiming's weights for ReLU and no bias yet; "fan_in" keeps the stream's scale, "fan_out" gradients'.

    Where norms set the stream's scale, "fan_out" is what ResNets start with.
    """
    nn.init.kaiming_normal_(layer.weight, mode=keep, nonlinearity="relu")
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


def widened(channels: int, width: float) -> int:
    """So many channels times a width factor, at least one."""
    return max(1, round(channels * width))


def check_sizes(**sizes: int) -> None:
    """Raise where a size is below one."""
    for name, size in sizes.items():
        if size < 1:
            raise NetworkError(f"{name} must be at least 1, got {size}")


def check_images(images: Tensor, shape: tuple[int, int, int], of: str) -> None:
    """Raise unless a batch of images has the shape (channel, height, width) that a network was built for."""
    if tuple(images.shape[1:]) != shape:
        wanted, found = (" x ".join(map(str, one)) for one in (shape, images.shape[1:]))
        raise ValueError(f"this {of} takes images of {wanted}, not {found}")


def check_width(width: float) -> None:
    """Raise where a width factor is not positive."""
    if not width > 0:
        raise NetworkError(f"width is a positive factor on all channels, not {width}")
