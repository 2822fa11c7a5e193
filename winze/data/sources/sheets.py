"""Contact sheets: many small images as tiles of one lossless WebP, in row-major order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from winze.data.data_error import CorruptDataError, DataError, reading
from winze.data.sources.npz import read_npy
from winze.data.sources.source import Part, RowNumbers
from winze.data.sources.threads import in_threads


def sheet_part(sheets: list[Path], labels: Path, side: int) -> Part:
    """Tiles of `side` x `side` pixels on one or more equally long sheets, and the labels of all of them."""
    numbers = read_npy(labels, axes=1).astype(np.int64)
    each, rest = divmod(len(numbers), len(sheets))
    if rest:
        raise DataError(f"{labels}: {len(numbers)} labels cannot be split evenly over {len(sheets)} sheets")
    for sheet in sheets:
        _open_size(sheet, each, side)

    def decode(rows: RowNumbers) -> UInt8[Tensor, "row 3 side side"]:
        out = torch.empty((len(rows), 3, side, side), dtype=torch.uint8)

        def fill(number: int) -> None:
            mine = np.flatnonzero(rows // each == number)
            if len(mine):
                out[torch.from_numpy(mine)] = torch.from_numpy(_tiles(sheets[number], side)[rows[mine] % each])

        in_threads(fill, range(len(sheets)))
        return out

    return Part(numbers, (3, side, side), decode)


def _open_size(path: Path, count: int, side: int) -> None:
    """Read a sheet's size, which needs no decoding, and raise unless it holds that many tiles."""
    from PIL import Image

    with reading(path, "a WebP sheet"), Image.open(path) as image:
        width, height = image.size
    if width % side or height % side or (width // side) * (height // side) < count:
        raise CorruptDataError(f"{path}: {width} x {height} pixels do not hold {count} tiles of {side} x {side}")


def _tiles(path: Path, side: int) -> UInt8[np.ndarray, "tile 3 side side"]:
    """All tiles of a sheet."""
    from PIL import Image

    with reading(path, "a WebP sheet"), Image.open(path) as image:
        pixels = np.asarray(image.convert("RGB"))
    grid = pixels.reshape(pixels.shape[0] // side, side, pixels.shape[1] // side, side, 3)
    return grid.transpose(0, 2, 4, 1, 3).reshape(-1, 3, side, side)
