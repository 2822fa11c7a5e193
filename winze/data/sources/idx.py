"""Gzipped idx files, the format of MNIST: magic, big-endian sizes, raw bytes."""

from __future__ import annotations

import gzip
from math import prod
from pathlib import Path
from typing import IO

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from winze.data.data_error import CorruptDataError, DataError, reading
from winze.data.sources.source import Part, RowNumbers


def idx_part(folder: Path, stem: str) -> Part:
    """The images `<stem>-images-idx3-ubyte.gz` with their labels; the images are unpacked when they are read."""
    images, labels = folder / f"{stem}-images-idx3-ubyte.gz", folder / f"{stem}-labels-idx1-ubyte.gz"
    with reading(images, "gzipped idx"), gzip.open(images) as file:
        count, height, width = _header(file, images, axes=3)
    numbers = read_idx(labels, axes=1)
    if count != len(numbers):
        raise DataError(f"{images} has {count} images, {labels.name} {len(numbers)} labels")

    def decode(rows: RowNumbers) -> UInt8[Tensor, "row 1 height width"]:
        return torch.from_numpy(read_idx(images, axes=3)[rows, None])

    return Part(numbers.astype(np.int64), (1, height, width), decode)


def read_idx(path: Path, axes: int) -> UInt8[np.ndarray, " ..."]:
    """All of one idx file."""
    with reading(path, "gzipped idx"), gzip.open(path) as file:
        shape = _header(file, path, axes)
        body = file.read()
        if len(body) != prod(shape):
            raise CorruptDataError(f"{path}: {len(body)} bytes where its header promises {prod(shape)}")
        return np.frombuffer(body, np.uint8).reshape(shape)


def _header(file: gzip.GzipFile | IO[bytes], path: Path, axes: int) -> tuple[int, ...]:
    """The sizes that an idx file starts with."""
    magic = file.read(4)
    if magic != bytes((0, 0, 8, axes)):
        raise CorruptDataError(f"{path} is not an idx file of bytes with {axes} axes: it starts with {magic.hex()}")
    sizes = file.read(4 * axes)
    if len(sizes) != 4 * axes:
        raise CorruptDataError(f"{path} ends within its header")
    return tuple(int.from_bytes(sizes[i : i + 4], "big") for i in range(0, 4 * axes, 4))
