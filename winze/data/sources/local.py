"""The sets as small lossless files: idx, npz, WebP sheets, JPEG files end to end. One function a layout."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from winze.data.data_error import CorruptDataError, reading
from winze.data.sources.idx import idx_part
from winze.data.sources.jpegs import jpeg_part
from winze.data.sources.npz import npz_source, read_npy
from winze.data.sources.sheets import sheet_part
from winze.data.sources.source import Source, joined

DIGITS = tuple("0123456789")
FASHION = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def read_mnist(folder: Path) -> Source:
    """MNIST from four gzipped idx files."""
    return Source("mnist", DIGITS, idx_part(folder, "train"), idx_part(folder, "t10k"), str(folder))


def read_fashion(folder: Path) -> Source:
    """Fashion-MNIST, in the same files as MNIST."""
    return Source("fashion_mnist", FASHION, idx_part(folder, "train"), idx_part(folder, "t10k"), str(folder))


def read_usps(folder: Path) -> Source:
    """USPS digits from one npz archive."""
    return replace(npz_source("usps", folder / "usps.npz"), found=str(folder))


def read_cifar10(folder: Path) -> Source:
    """CIFAR-10 from six sheets, one for each of the official batches."""
    train = sheet_part([folder / f"train_{batch}.webp" for batch in range(1, 6)], folder / "train_labels.npy", 32)
    return Source(
        "cifar10", CIFAR10, train, sheet_part([folder / "test.webp"], folder / "test_labels.npy", 32), str(folder)
    )


def read_tinyimagenet(folder: Path) -> Source:
    """Tiny-ImageNet: 200 test classes, of which ten have train images (or none, where `train10` was left away)."""
    train = jpeg_part(folder, "train10", 64) if (folder / "train10.jpgs").exists() else None
    return Source("tinyimagenet", _words(folder / "classes.txt"), train, jpeg_part(folder, "val", 64), str(folder))


def read_tinyimagenet100(folder: Path) -> Source:
    """A hundred classes of Tiny-ImageNet; their test images are those of the `tinyimagenet` folder beside it."""
    beside = folder.parent / "tinyimagenet"
    kept = [int(number) for number in read_npy(folder / "class_ids.npy", axes=1)]
    words = _words(beside / "classes.txt")
    if not kept or max(kept) >= len(words):
        raise CorruptDataError(f"{folder / 'class_ids.npy'} does not fit the {len(words)} classes in {beside}")
    train = joined([jpeg_part(folder, stem, 64) for stem in ("train_1", "train_2")])
    test = jpeg_part(beside, "val", 64)
    foreign = np.setdiff1d(train.labels, kept)
    if len(foreign):
        raise CorruptDataError(f"{folder}: train label {foreign[0]} is not in class_ids.npy")
    names = tuple(words[number] for number in kept)
    return Source("tinyimagenet100", names, train.relabel(kept), test.relabel(kept), str(folder))


def read_small(name: str, note: str, folder: Path) -> Source:
    """A test-only sheet of 32 x 32 tiles with its class names, as the texture, Caltech and pet sets are kept."""
    names = tuple(_lines(folder / "classes.txt"))
    test = sheet_part([folder / "test.webp"], folder / "test_labels.npy", 32)
    return Source(name, names, None, test, str(folder), (note,))


def _lines(path: Path) -> list[str]:
    with reading(path, "text"):
        return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _words(path: Path) -> tuple[str, ...]:
    """The first word of each class from lines of number, WordNet id, words."""
    with reading(path, "a list of classes"):
        return tuple(line.split("\t")[2].split(",")[0] for line in _lines(path))
