"""Image folders: one sub-folder per class, inside train/ and test/ (or val/), or directly."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from torch import Tensor

from winze.data.data_error import DataError, reading
from winze.data.sources.images import DEFAULT_SIDE, decode_all, to_pixels
from winze.data.sources.source import Part, RowNumbers, Source

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".ppm", ".pgm", ".tif", ".tiff", ".gif"})
TRAIN, TEST, VALIDATION = ("train", "training"), ("test", "testing"), ("val", "valid", "validation")


def folder_source(name: str, root: Path, size: int | None) -> Source:
    """The images under a folder; their one size is kept, images of several sizes become squares of `size`."""
    train, test, left_out = split_folders(root)
    splits = [split for split in (train, test) if split is not None] or [root]
    names = sorted({child.name for split in splits for child in _folders(split)})
    if not names:
        raise DataError(f"{root} has no class folders: expected train/CLASS/*.png and test/CLASS/*.png, or CLASS/*.png")
    files = [_files(split, names) for split in splits]
    if not any(files):
        raise DataError(f"{root} has class folders but no images ({', '.join(sorted(SUFFIXES))})")
    shape, notes = _common_shape([path for split in files for path, _ in split], size)
    parts = [_part(split, shape, root) for split in files]
    return Source(name, tuple(names), parts[0], parts[1] if len(parts) == 2 else None, str(root), (*left_out, *notes))


def split_folders(root: Path) -> tuple[Path | None, Path | None, tuple[str, ...]]:
    """The folders with the train and the test images, and notes on folders that are left out.

    Capitals do not matter; validation images are the test images where there are no others. A folder of such a name
    without class folders in it is no split: a class may be called so.
    """
    found = [child for child in _folders(root) if child.name.lower() in (*TRAIN, *TEST, *VALIDATION)]
    splits = [child for child in found if _folders(child)]
    train, test, validation = ([s for s in splits if s.name.lower() in names] for names in (TRAIN, TEST, VALIDATION))
    doubled = next((same for same in (train, test, validation) if len(same) > 1), None)
    if doubled is not None:
        raise DataError(f"{root} has {_named(doubled)}: rename the one that is not meant")
    others = [child for child in _folders(root) if child not in splits]
    if not splits:
        if len(found) > 1:
            raise DataError(f"{root}: {_named(found)} hold no class folders; images belong in train/CLASS/*.png")
        return None, None, ()
    if not train and (others or len(splits) > 1):
        raise DataError(f"{root} has {_named([*splits, *others])}, but no train/ with class folders in it")
    if not train:
        return splits[0], None, ()
    left_out = (f"{validation[0].name}/ is left out",) if test and validation else ()
    return train[0], next(iter(test or validation), None), left_out


def _named(folders: Sequence[Path]) -> str:
    shown = [f"{folder.name}/" for folder in folders[:4]] + (["more"] if len(folders) > 4 else [])
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _folders(folder: Path) -> list[Path]:
    return sorted(child for child in folder.iterdir() if child.is_dir() and not child.name.startswith("."))


def _files(split: Path, names: list[str]) -> list[tuple[Path, int]]:
    """Every image with its label, by class and then by path."""
    return [
        (path, label)
        for label, name in enumerate(names)
        for path in sorted((split / name).rglob("*"))
        if path.suffix.lower() in SUFFIXES and path.is_file()
    ]


def _common_shape(paths: list[Path], size: int | None) -> tuple[tuple[int, int, int], tuple[str, ...]]:
    """The shape that all images get; finding out reads the headers until two sizes differ."""
    from PIL import Image

    if size is not None:
        return (3, size, size), ()
    seen: set[tuple[int, int]] = set()
    for path in paths:
        with reading(path, "an image"), Image.open(path) as image:
            seen.add(image.size)
        if len(seen) > 1:
            note = f"images of several sizes are loaded as centre squares of {DEFAULT_SIDE} x {DEFAULT_SIDE} pixels"
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

    def decode(rows: RowNumbers) -> UInt8[Tensor, "row 3 height width"]:
        return decode_all(one, rows, shape, str(root))

    return Part(np.array([label for _, label in files], dtype=np.int64), shape, decode)
