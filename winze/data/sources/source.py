"""Labels first, pixels last: a split whose images are decoded only once their rows are chosen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from winze.data.data_error import DataError

RowNumbers = Int64[np.ndarray, " _"]
SplitLabels = Int64[np.ndarray, " _"]


@dataclass(frozen=True, eq=False)
class Part:
    """One split before its pixels are read: every label, the shape of one sample, and how to decode chosen rows.

    `decode(rows)` gives a uint8 tensor [row, channel, height, width], or float32 [row, feature] for points.
    """

    labels: SplitLabels
    shape: tuple[int, ...]
    decode: Callable[[RowNumbers], Tensor]

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: RowNumbers) -> Part:
        """The part that has only these rows, in this order."""
        return Part(self.labels[rows], self.shape, lambda inner: self.decode(rows[inner]))

    def relabel(self, kept: list[int]) -> Part:
        """The samples of the kept classes, in file order; class `kept[k]` gets the label k."""
        new = np.full(max([*kept, int(self.labels.max(initial=-1))]) + 1, -1, dtype=np.int64)
        new[kept] = np.arange(len(kept))
        rows = np.flatnonzero(new[self.labels] >= 0)
        part = self.take(rows)
        return replace(part, labels=new[part.labels])

    def read(self) -> tuple[Tensor, Tensor]:
        """Decode: the samples and their labels."""
        samples = self.decode(np.arange(len(self)))
        return samples, torch.from_numpy(self.labels)


@dataclass(frozen=True, eq=False)
class Source:
    """A set as its files have it: one or two parts, its class names, and where it was found."""

    name: str
    classes: tuple[str, ...]
    train: Part | None
    test: Part | None
    found: str
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        parts = [part for part in (self.train, self.test) if part is not None]
        if not parts or not any(len(part) for part in parts):
            raise DataError(f"{self.name}: there are no samples in {self.found}")
        for part in parts:
            check_labels(part.labels, len(self.classes), f"{self.name} in {self.found}")


def check_labels(labels: SplitLabels, classes: int, what: str) -> None:
    """Raise where a label names no class."""
    outside = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(outside):
        row = int(outside[0])
        raise DataError(f"{what}: label {labels[row]} of sample {row} does not fit {classes} classes (0-{classes - 1})")


def held(images: Tensor, labels: SplitLabels, what: str) -> Part:
    """A part whose samples are already in memory."""
    if len(images) != len(labels):
        raise DataError(f"{what}: {len(images)} images but {len(labels)} labels")
    return Part(labels, tuple(images.shape[1:]), lambda rows: images[torch.from_numpy(rows)])


def joined(parts: list[Part]) -> Part:
    """Several parts as one, in order."""
    starts = np.cumsum([0, *(len(part) for part in parts)])

    def decode(rows: RowNumbers) -> Tensor:
        out = torch.empty((len(rows), *parts[0].shape), dtype=torch.uint8)
        for part, start in zip(parts, starts[:-1], strict=True):
            mine = np.flatnonzero((rows >= start) & (rows < start + len(part)))
            if len(mine):
                out[torch.from_numpy(mine)] = part.decode(rows[mine] - start)
        return out

    return Part(np.concatenate([part.labels for part in parts]), parts[0].shape, decode)
