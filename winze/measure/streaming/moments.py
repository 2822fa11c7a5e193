"""Mean, scatter and class means of features, gathered batch by batch in memory that does not grow with samples."""

from __future__ import annotations

import torch
from jaxtyping import Float64
from torch import Tensor

from winze.measure.features import Features, Labels, check_labels, detached, flat, is_constant
from winze.measure.streaming.block import CentredBatch, Classes
from winze.measure.streaming.sums import Sums

ELEMENTS = 1 << 24  # a larger batch is taken in pieces, so that its float64 copy stays at 128 MB


class Moments:
    """The first two moments of a place's features, over all samples and by class.

        mean = 1/n Σ x,   scatter = Σ (x − mean)(x − mean)ᵀ,   class_means, class_scatter_c = Σ_{i∈c} ‖x_i − μ_c‖²

    Each batch is centred on itself and joined to what is there, as two halves are (Chan, Golub & LeVeque, 1983), so
    that no digits go when the mean is far larger than the spread. Labels on the CPU spare a GPU the wait.
    NaN and inf are counted on the way and raise when a result is asked for.
    """

    def __init__(self, features: int, classes: int | None = None, name: str = "features") -> None:
        if features < 1 or (classes is not None and classes < 1):
            raise ValueError(f"{name}: expected at least one feature and one class, got {features} and {classes}")
        self.features, self.classes, self.name = features, classes, name
        self._checked: tuple[int, int, int] | None = None  # of how many samples; broken ones; classes
        self.sums = Sums.zeros(1, 0, classes or 0, torch.device("cpu"))  # no room yet: a scatter can be large

    @property
    def n(self) -> int:
        """The number of samples."""
        return self.sums.n

    @property
    def mean(self) -> Float64[Tensor, " feature"]:
        """The mean of each feature."""
        return self.sums.mean[0]

    @property
    def scatter(self) -> Float64[Tensor, "feature feature"]:
        """Σ (x − mean)(x − mean)ᵀ."""
        return self.sums.scatter[0]

    @property
    def norm_sum(self) -> Float64[Tensor, ""]:
        """The sum of the lengths of the samples."""
        return self.sums.norm_sum[0]

    @property
    def broken(self) -> Float64[Tensor, ""]:
        """How many samples hold NaN or inf."""
        return self.sums.broken[0]

    @property
    def counts(self) -> Float64[Tensor, " class"]:
        """How many samples each class has."""
        return self.sums.counts[0]

    @property
    def class_means(self) -> Float64[Tensor, "class feature"]:
        """The mean of each class."""
        return self.sums.class_means[0]

    @property
    def class_scatter(self) -> Float64[Tensor, " class"]:
        """Σ ‖x_i − μ_c‖² of each class."""
        return self.sums.class_scatter[0]

    @classmethod
    def of(
        cls,
        features: Features,
        labels: Labels | None = None,
        classes: int | None = None,
        name: str = "features",
    ) -> Moments:
        """Gather one feature matrix; the number of classes is read from the labels where it is not given."""
        if labels is not None and classes is None:
            if not len(labels):
                raise ValueError(f"{name}: no samples")
            classes = int(labels.max()) + 1
        return cls(flat(features, name).shape[1], classes, name).update(features, labels)

    @detached
    def update(self, features: Features, labels: Tensor | None = None) -> Moments:
        """Add a batch."""
        rows = flat(features, self.name)
        if rows.shape[1] != self.features:
            raise ValueError(f"{self.name}: expected {self.features} features, got {rows.shape[1]}")
        if (labels is None) != (self.classes is None):
            raise ValueError(f"{self.name}: labels and the number of classes come together or not at all")
        if labels is not None:
            labels = check_labels(labels, len(rows), self.classes or 0, self.name)
        size = max(1, ELEMENTS // max(self.features, self.classes or 0))
        for start in range(0, len(rows), size):
            block, marks = CentredBatch(rows[None, start : start + size]), None
            if labels is not None:
                part = labels[start : start + size]
                marks = Classes.of(part, block.n, self.classes or 0, self.name, rows.device)
            self._add(block, marks)
        return self

    def _add(self, block: CentredBatch, classes: Classes | None) -> None:
        if self.n == 0:
            self.sums = Sums.zeros(1, self.features, self.classes or 0, block.device)
        self.sums.add(block, classes)

    @detached
    def merge(self, other: Moments) -> Moments:
        """Take in the moments of other samples, as if they had come here."""
        if (self.features, self.classes) != (other.features, other.classes):
            raise ValueError(
                f"{self.name}: cannot merge {other.features} features and {other.classes} classes"
                f" into {self.features} and {self.classes}"
            )
        if other.n == 0:
            return self
        if self.n == 0:
            self.sums = Sums.zeros(1, self.features, self.classes or 0, other.mean.device)
        self.sums.join(other.sums.each(lambda tensor: tensor.to(self.mean.device)))
        return self

    def merged(self, other: Moments) -> Moments:
        """Give the joint moments and leave both parts as they are."""
        return Moments(self.features, self.classes, self.name).merge(self).merge(other)

    def check(self, least: int = 2, classes: int = 0) -> None:
        """Raise where there are too few samples or classes, or where features held NaN or inf."""
        if self.n < least:
            raise ValueError(f"{self.name}: needs at least {least} samples, got {self.n}")
        if self._checked is None or self._checked[0] != self.n:  # every measure asks, and a GPU would wait each time
            broken, present = torch.stack([self.broken, (self.counts > 0).sum().double()]).tolist()
            self._checked = self.n, int(broken), int(present)
        _, broken, present = self._checked
        if broken:
            raise ValueError(f"{self.name}: {broken} of {self.n} samples hold NaN or inf")
        if present < classes:
            raise ValueError(f"{self.name}: needs at least {classes} classes, got {present} in {self.n} samples")

    @property
    def constant(self) -> bool:
        """Whether every sample is the same, up to rounding."""
        self.check()
        return bool(is_constant(self.scatter.trace() / self.n, self.mean.square().sum(), self.sums.relative))

    def covariance(self) -> Float64[Tensor, "feature feature"]:
        """Give scatter / n; all zeros where the features are constant."""
        return torch.zeros_like(self.scatter) if self.constant else self.scatter / self.n

    @detached
    def spectrum(self) -> Float64[Tensor, " direction"]:
        """Give the eigenvalues of the covariance, largest first, as `winze.measure.spectrum` does."""
        self.check()
        return self.sums.spectrum([self.name])[0]
