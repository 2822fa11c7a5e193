"""JPEG files put end to end in one file, with byte offsets beside it."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from torch import Tensor

from winze.data.data_error import CorruptDataError, DataError, reading
from winze.data.sources.images import decode_all, to_pixels
from winze.data.sources.npz import read_npy
from winze.data.sources.source import Part, RowNumbers


def jpeg_part(folder: Path, stem: str, side: int) -> Part:
    """The images of `<stem>.jpgs`, all `side` x `side`; only the chosen ones are ever decoded."""
    path = folder / f"{stem}.jpgs"
    offsets = read_npy(folder / f"{stem}_offsets.npy", axes=1).astype(np.int64)
    labels = read_npy(folder / f"{stem}_labels.npy", axes=1).astype(np.int64)
    if len(offsets) != len(labels) + 1:
        raise DataError(f"{path}: {len(offsets) - 1} images by its offsets, {len(labels)} labels")
    with reading(path, "JPEG files"):
        size = path.stat().st_size
    if offsets[0] != 0 or offsets[-1] != size or (np.diff(offsets) <= 0).any():
        raise CorruptDataError(f"{path}: {size} bytes do not fit its offsets, which end at {offsets[-1]}")

    def decode(rows: RowNumbers) -> UInt8[Tensor, "row 3 side side"]:
        blob = np.memmap(path, np.uint8, "r")

        def one(row: int) -> UInt8[np.ndarray, "3 side side"]:
            from PIL import Image

            bytes_of_one = BytesIO(blob[offsets[row] : offsets[row + 1]].tobytes())
            with reading(path, f"JPEG (image {row})"), Image.open(bytes_of_one) as image:
                return to_pixels(image, None)

        return decode_all(one, rows, (3, side, side), str(path))

    return Part(labels, (3, side, side), decode)
