"""A data set in memory: what `load` gives back."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Int64
from torch import Tensor

from winze.data.data_error import DataError


@dataclass(frozen=True, eq=False)
class Dataset:
    """Train and test samples with labels 0 to C-1, and how they came to be.

    Images are uint8 [sample, channel, height, width]; points (the spiral) are float32 [sample, feature].
    """

    name: str
    train_images: Tensor
    train_labels: Int64[Tensor, " train"]
    test_images: Tensor
    test_labels: Int64[Tensor, " test"]
    classes: tuple[str, ...]
    found: str
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.classes) < 2:
            raise DataError(f"{self.name}: {len(self.classes)} class; at least two are needed")
        for split, (images, labels) in (("train", self.train), ("test", self.test)):
            check(images, labels, len(self.classes), f"{self.name}, {split}")
        if self.train_images.shape[1:] != self.test_images.shape[1:]:
            shapes = tuple(self.train_images.shape[1:]), tuple(self.test_images.shape[1:])
            raise DataError(f"{self.name}: train samples have shape {shapes[0]}, test samples {shapes[1]}")

    def __repr__(self) -> str:
        counts = f"{len(self.train_labels)} train, {len(self.test_labels)} test, {len(self.classes)} classes"
        return f"Dataset({self.name!r}, {counts}, {'x'.join(map(str, self.shape))}, found={self.found!r})"

    @property
    def train(self) -> tuple[Tensor, Tensor]:
        """Samples and labels to learn from, as the pair that scans take."""
        return self.train_images, self.train_labels

    @property
    def test(self) -> tuple[Tensor, Tensor]:
        """Samples and labels to be judged on."""
        return self.test_images, self.test_labels

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample: (channel, height, width), or (feature,) for points."""
        return tuple(self.train_images.shape[1:])

    @property
    def holds_images(self) -> bool:
        """Whether samples are images (uint8), which want a `Preprocess`; points go into a network as they are."""
        return self.train_images.dtype == torch.uint8

    def to(self, device: torch.device | str) -> Dataset:
        """The same set with all four tensors on a device."""
        train, test = [part.to(device) for part in self.train], [part.to(device) for part in self.test]
        return replace(self, train_images=train[0], train_labels=train[1], test_images=test[0], test_labels=test[1])


def check(images: Tensor, labels: Tensor, classes: int, what: str) -> None:
    """Raise unless samples and labels are of the promised kind and fit each other."""
    if images.dtype == torch.uint8:
        if images.ndim != 4 or images.shape[1] not in (1, 3):
            raise DataError(f"{what}: images are [sample, 1 or 3, height, width], not {list(images.shape)}")
    elif images.dtype != torch.float32 or images.ndim != 2:
        raise DataError(f"{what}: samples are uint8 images or float32 points, not {images.dtype} {list(images.shape)}")
    if labels.dtype != torch.int64 or labels.ndim != 1:
        raise DataError(f"{what}: labels are int64 [sample], not {labels.dtype} {list(labels.shape)}")
    if len(images) != len(labels):
        raise DataError(f"{what}: {len(images)} samples but {len(labels)} labels")
    if not len(labels):
        raise DataError(f"{what}: no samples")
    if labels.is_meta:  # shapes without values
        return
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        raise DataError(f"{what}: labels run from {low} to {high}, the {classes} classes from 0 to {classes - 1}")
