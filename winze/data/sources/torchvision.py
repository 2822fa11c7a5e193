"""torchvision's own data sets, read through torchvision's classes and downloaded by them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from winze.data.data_error import CorruptDataError, reading
from winze.data.sources.images import DEFAULT_SIDE, decode_all, to_pixels
from winze.data.sources.source import Part, RowNumbers, Source, SplitLabels, held


@dataclass(frozen=True)
class Original:
    """One torchvision class: its arguments for each part, and what its folder holds once it is there.

    `sizes` is (train, test, classes) as published; one part only where `test` is None.
    """

    kind: str
    marker: str
    sizes: tuple[int, int, int]
    shape: tuple[int, int, int] = (3, DEFAULT_SIDE, DEFAULT_SIDE)
    train: Mapping[str, Any] = field(default_factory=lambda: {"train": True})
    test: Mapping[str, Any] | None = field(default_factory=lambda: {"train": False})

    def build(self, base: Path, download: bool) -> list[Any]:
        """torchvision's objects for train and, where there is one, test."""
        from torchvision import datasets

        make = getattr(datasets, self.kind)
        parts = [self.train] if self.test is None else [self.train, self.test]
        return [make(str(base), download=download, **arguments) for arguments in parts]


_SPLIT = {"split": "train"}, {"split": "test"}

ORIGINALS = {
    "mnist": Original("MNIST", "MNIST/raw", (60000, 10000, 10), (1, 28, 28)),
    "fashion_mnist": Original("FashionMNIST", "FashionMNIST/raw", (60000, 10000, 10), (1, 28, 28)),
    "usps": Original("USPS", "usps.bz2", (7291, 2007, 10), (1, 16, 16)),
    "cifar10": Original("CIFAR10", "cifar-10-batches-py", (50000, 10000, 10), (3, 32, 32)),
    "cifar100": Original("CIFAR100", "cifar-100-python", (50000, 10000, 100), (3, 32, 32)),
    "svhn": Original("SVHN", "train_32x32.mat", (73257, 26032, 10), (3, 32, 32), *_SPLIT),
    "stl10": Original("STL10", "stl10_binary", (5000, 8000, 10), (3, 96, 96), *_SPLIT),
    "dtd": Original("DTD", "dtd/dtd", (1880, 1880, 47), train=_SPLIT[0], test=_SPLIT[1]),
    "caltech101": Original("Caltech101", "caltech101/101_ObjectCategories", (8677, 0, 101), train={}, test=None),
    "pets": Original(
        "OxfordIIITPet", "oxford-iiit-pet/images", (3680, 3669, 37), train={"split": "trainval"}, test=_SPLIT[1]
    ),
    "food101": Original("Food101", "food-101/meta", (75750, 25250, 101), train=_SPLIT[0], test=_SPLIT[1]),
    "flowers102": Original("Flowers102", "flowers-102/jpg", (1020, 6149, 102), train=_SPLIT[0], test=_SPLIT[1]),
    "places365": Original(
        "Places365",
        "categories_places365.txt",
        (1803460, 36500, 365),
        train={"split": "train-standard", "small": True},
        test={"split": "val", "small": True},
    ),
}


def original_source(name: str, base: Path, size: int | None) -> Source:
    """A set that torchvision already has under `base`; nothing is downloaded."""
    original = ORIGINALS[name]
    with reading(base, f"torchvision's {original.kind}"):
        objects = original.build(base, download=False)
    parts = [_part(each, size, f"torchvision's {original.kind} in {base}") for each in objects]
    known = getattr(objects[0], "classes", None) or getattr(objects[0], "categories", None)
    names = tuple(str(entry) for entry in known or range(original.sizes[2]))
    return Source(name, names, parts[0], parts[1] if len(parts) == 2 else None, str(base))


def _part(dataset: Any, size: int | None, what: str) -> Part:
    labels, pixels = _labels(dataset, what), getattr(dataset, "data", None)
    if pixels is not None:
        return held(_channel_first(pixels, what), labels, what)
    shape = (3, size or DEFAULT_SIDE, size or DEFAULT_SIDE)

    def one(row: int) -> UInt8[np.ndarray, "3 side side"]:
        with reading(Path(what), f"image {row}"):
            return to_pixels(dataset[row][0], shape[1])

    def decode(rows: RowNumbers) -> UInt8[Tensor, "row 3 side side"]:
        return decode_all(one, rows, shape, what)

    if len(dataset) != len(labels):
        raise CorruptDataError(f"{what}: {len(dataset)} images but {len(labels)} labels")
    return Part(labels, shape, decode)


def _labels(dataset: Any, what: str) -> SplitLabels:
    """torchvision has no one name for its labels."""
    for attribute in ("targets", "labels", "_labels", "y"):
        found = getattr(dataset, attribute, None)
        if found is not None:
            return np.asarray(found).astype(np.int64)
    raise CorruptDataError(
        f"{what} has no labels where winze looks for them: this version of torchvision is not supported"
    )


def _channel_first(pixels: Any, what: str) -> UInt8[Tensor, "sample channel height width"]:
    """torchvision keeps arrays as NHW (grey), NHWC or NCHW."""
    array = torch.as_tensor(np.asarray(pixels))
    if array.dtype == torch.uint8 and array.ndim == 3:
        return array[:, None]
    if array.dtype == torch.uint8 and array.ndim == 4 and array.shape[3] == 3:
        return array.permute(0, 3, 1, 2).contiguous()
    if array.dtype == torch.uint8 and array.ndim == 4 and array.shape[1] == 3:
        return array
    raise CorruptDataError(f"{what} holds {array.dtype} {list(array.shape)}, not uint8 images")
