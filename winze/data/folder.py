"""Image folders: one sub-folder a class, inside train/ and test/ (or val/), or directly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from torch import Tensor

from winze.data.errors import DataError, reading
from winze.data.parts import Part, Rows, Source
from winze.data.pictures import DEFAULT_SIDE, decode_all, to_pixels

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".ppm", ".pgm", ".tif", ".tiff", ".gif"})
TEST_NAMES = ("test", "val", "valid", "validation")


def folder_source(name: str, root: Path, size: int | None) -> Source:
    """The pictures under a folder; their one size is kept, pictures of several sizes become squares of `size`."""
    splits = _splits(root)
    names = sorted({child.name for split in splits for child in _folders(split)})
    if not names:
        raise DataError(f"{root} has no class folders: it wants train/CLASS/*.png and test/CLASS/*.png, or CLASS/*.png")
    files = [_files(split, names) for split in splits]
    if not any(files):
        raise DataError(f"{root} has class folders but not one image ({', '.join(sorted(SUFFIXES))})")
    shape, notes = _common_shape([path for split in files for path, _ in split], size)
    parts = [_part(split, shape, root) for split in files]
    return Source(name, tuple(names), parts[0], parts[1] if len(parts) == 2 else None, str(root), notes)


def _splits(root: Path) -> list[Path]:
    """The folders that hold class folders: train and test, or the one there is."""
    train = root / "train"
    if not train.is_dir():
        return [root]
    test = next((root / name for name in TEST_NAMES if (root / name).is_dir()), None)
    return [train] if test is None else [train, test]


def _folders(folder: Path) -> list[Path]:
    return sorted(child for child in folder.iterdir() if child.is_dir() and not child.name.startswith("."))


def _files(split: Path, names: list[str]) -> list[tuple[Path, int]]:
    """Every picture with its label, by class and then by path."""
    return [
        (path, label)
        for label, name in enumerate(names)
        for path in sorted((split / name).rglob("*"))
        if path.suffix.lower() in SUFFIXES and path.is_file()
    ]


def _common_shape(paths: list[Path], size: int | None) -> tuple[tuple[int, int, int], tuple[str, ...]]:
    """The shape that all pictures get; finding out reads the headers until two sizes differ."""
    from PIL import Image

    if size is not None:
        return (3, size, size), ()
    seen: set[tuple[int, int]] = set()
    for path in paths:
        with reading(path, "an image"), Image.open(path) as image:
            seen.add(image.size)
        if len(seen) > 1:
            note = f"pictures of several sizes: centre squares resized to {DEFAULT_SIDE} x {DEFAULT_SIDE}"
            return (3, DEFAULT_SIDE, DEFAULT_SIDE), (note,)
    width, height = seen.pop()
    return (3, height, width), ()


def _part(files: list[tuple[Path, int]], shape: tuple[int, int, int], root: Path) -> Part:
    square = shape[1] if shape[1] == shape[2] else None

    def one(row: int) -> UInt8[np.ndarray, "3 height width"]:
        from PIL import Image

        path = files[row][0]
        with reading(path, "an image"), Image.open(path) as image:
            return to_pixels(image, square)

    def decode(rows: Rows) -> UInt8[Tensor, "row 3 height width"]:
        return decode_all(one, rows, shape, str(root))

    return Part(np.array([label for _, label in files], dtype=np.int64), shape, decode)
