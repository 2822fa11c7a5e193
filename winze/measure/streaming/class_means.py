"""Class means of features, gathered batch by batch: what the last signs of neural collapse need, and nothing square."""

from __future__ import annotations

import torch
from jaxtyping import Float64
from torch import Tensor

from winze.measure.features import Features, Labels, detached, flat
from winze.measure.streaming.block import CentredBatch, Classes


class ClassMeans:
    """The mean of each class, and over all samples; NaN and inf are counted and raise when a result is asked for."""

    def __init__(self, features: int, classes: int, name: str = "features") -> None:
        self.features, self.name, self.n = features, name, 0
        self.counts: Float64[Tensor, " class"] = torch.zeros(classes, dtype=torch.float64)
        self.class_means: Float64[Tensor, "class feature"] = torch.zeros(classes, features, dtype=torch.float64)
        self.broken: Float64[Tensor, ""] = torch.zeros((), dtype=torch.float64)

    @detached
    def update(self, features: Features, labels: Labels) -> ClassMeans:
        """Add a batch."""
        block = CentredBatch(flat(features, self.name)[None])
        marks = Classes.of(labels, block.n, len(self.counts), self.name, block.device)
        means = marks.averages @ block.centred[0] + block.mean
        return self._join(marks.counts, means, block.broken[0], block.n)

    @detached
    def merge(self, other: ClassMeans) -> ClassMeans:
        """Take in the means of other samples, as if they had come here."""
        return self._join(other.counts, other.class_means, other.broken, other.n)

    def _join(self, counts: Tensor, means: Tensor, broken: Tensor, n: int) -> ClassMeans:
        if self.class_means.shape != means.shape:
            raise ValueError(f"{self.name}: expected means {tuple(self.class_means.shape)}, got {tuple(means.shape)}")
        mine = (tensor.to(means.device) for tensor in (self.counts, self.class_means, self.broken))
        self.counts, self.class_means, self.broken = mine
        total = self.counts + counts
        delta = torch.where(counts[:, None] > 0, means - self.class_means, 0.0)
        self.class_means = self.class_means + delta * (counts / total.clamp(min=1))[:, None]
        self.counts, self.broken = total, self.broken + broken
        self.n += n
        return self

    def check(self) -> None:
        """Raise where features held NaN or inf."""
        if int(self.broken):
            raise ValueError(f"{self.name}: {int(self.broken)} of {self.n} samples hold NaN or inf")

    @property
    def mean(self) -> Float64[Tensor, " feature"]:
        """The mean of all samples."""
        return (self.counts / max(self.n, 1)) @ self.class_means
