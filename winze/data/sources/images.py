"""Image files: decode JPEG, PNG and the like, cut to a square, brought to one size."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from winze.data.data_error import DataError
from winze.data.sources.source import RowNumbers
from winze.data.sources.threads import in_threads

if TYPE_CHECKING:
    from PIL.Image import Image

DEFAULT_SIDE = 224
"""Side in pixels of images that come in many sizes, where nothing else was asked for."""


def to_pixels(image: Image, side: int | None) -> UInt8[np.ndarray, "3 height width"]:
    """RGB pixels, channel first; with a side, the centre square resized to it (bilinear, antialiased)."""
    from PIL import Image as Pillow
    from PIL import ImageOps

    picture = image if image.mode == "RGB" else _flat(image)
    if side is not None and picture.size != (side, side):
        picture = ImageOps.fit(picture, (side, side), Pillow.Resampling.BILINEAR)
    return np.asarray(picture).transpose(2, 0, 1)


def _flat(image: Image) -> Image:
    """An image in RGB; a palette with transparency goes through RGBA, as Pillow asks for."""
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert("RGB")


def decode_all(
    one: Callable[[int], UInt8[np.ndarray, "3 height width"]], rows: RowNumbers, shape: tuple[int, ...], what: str
) -> UInt8[Tensor, "row 3 height width"]:
    """Decode the chosen images in threads into one tensor; raises before it starts where memory will not do."""
    check_memory(len(rows), shape, what)
    out = np.empty((len(rows), *shape), dtype=np.uint8)

    def fill(start: int) -> None:
        for position in range(start, min(start + 64, len(rows))):
            pixels = one(int(rows[position]))
            if pixels.shape != shape:
                sizes = f"{pixels.shape[1]} x {pixels.shape[2]}, not {shape[1]} x {shape[2]}"
                raise DataError(f"{what}: image {rows[position]} has {sizes} pixels")
            out[position] = pixels

    in_threads(fill, range(0, len(rows), 64))
    return torch.from_numpy(out)


def check_memory(count: int, shape: tuple[int, ...], what: str) -> None:
    """Raise where so many uint8 images of this shape would not fit into memory."""
    need, room = count * int(np.prod(shape)), _memory()
    if need > 0.8 * room:
        raise DataError(
            f"{what}: {count} images of {shape[1]} x {shape[2]} need {need / 2**30:.1f} GiB of "
            f"{room / 2**30:.1f} GiB memory: set a limit, fewer classes or a smaller size"
        )


def _memory() -> int:
    """Bytes of physical memory; without an answer from the system, no limit to speak of."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**62
