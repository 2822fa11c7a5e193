"""Mean, scatter and class means of features, gathered batch by batch in memory that does not grow with samples."""

from __future__ import annotations

from copy import deepcopy

import torch
from jaxtyping import Float64
from torch import Tensor

from winze.measure.centre import Features, Labels, check_labels, detached, eigen, flat, is_constant, rounding

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
            raise ValueError(f"{name}: want at least one feature and one class, got {features} and {classes}")
        self.features, self.classes, self.name = features, classes, name
        self.n = 0
        self.relative = 0.0  # rounding of the widest input type seen
        self._allocate(torch.device("cpu"))

    def _allocate(self, device: torch.device) -> None:
        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.float64, device=device)

        d, c = self.features, self.classes or 0
        self.mean: Float64[Tensor, " feature"] = zeros(d)
        self.scatter: Float64[Tensor, "feature feature"] = zeros(d, d) if self.n else zeros(0, 0)
        self.norm_sum: Float64[Tensor, ""] = zeros()
        self.broken: Float64[Tensor, ""] = zeros()
        self.counts: Float64[Tensor, " class"] = zeros(c)
        self.class_means: Float64[Tensor, "class feature"] = zeros(c, d)
        self.class_scatter: Float64[Tensor, " class"] = zeros(c)

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
            raise ValueError(f"{self.name}: want {self.features} features, got {rows.shape[1]}")
        if (labels is None) != (self.classes is None):
            raise ValueError(f"{self.name}: labels and the number of classes come together or not at all")
        if labels is not None:
            labels = check_labels(labels, len(rows), self.classes or 0, self.name)
        size = max(1, ELEMENTS // self.features)
        for start in range(0, len(rows), size):
            self._add(rows[start : start + size], None if labels is None else labels[start : start + size])
        return self

    def _add(self, rows: Tensor, labels: Tensor | None) -> None:
        n, before = len(rows), self.n
        self.n += n
        self.relative = max(self.relative, rounding(rows.dtype))
        if before == 0:
            self._allocate(rows.device)
        exact = rows.double()
        norms = exact.norm(dim=1)
        self.norm_sum += norms.sum()
        self.broken += (norms - norms != 0).sum()  # NaN and inf, in fewer operations than isfinite
        first = exact[0].clone()
        centred = exact - first  # of the spread's size, so its mean is exact enough; equal samples leave zeros
        centre = centred.mean(0)
        centred -= centre
        mean = first + centre
        delta = mean - self.mean
        joint = torch.cat([centred, (before * n / self.n) ** 0.5 * delta[None]])
        self.scatter.addmm_(joint.T, joint)
        self.mean += delta * (n / self.n)
        if labels is not None:
            counts = torch.bincount(labels, minlength=len(self.counts)).to(self.counts)
            labels = labels.to(rows.device)
            sums = torch.zeros_like(self.class_means).index_add_(0, labels, centred)
            means = sums / counts.clamp(min=1)[:, None]
            spread = (centred - means[labels]).square().sum(1)
            self._join_classes(counts, means + mean, torch.zeros_like(counts).index_add_(0, labels, spread))

    def _join_classes(self, counts: Tensor, means: Tensor, scatter: Tensor) -> None:
        total = (self.counts + counts).clamp(min=1)
        delta = torch.where(counts[:, None] > 0, means - self.class_means, 0.0)
        self.class_scatter += scatter + self.counts * counts / total * delta.square().sum(1)
        self.class_means += delta * (counts / total)[:, None]
        self.counts += counts

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
        before = self.n
        self.n += other.n
        self.relative = max(self.relative, other.relative)
        if before == 0:
            self._allocate(other.mean.device)
        device = self.mean.device
        delta = other.mean.to(device) - self.mean
        self.scatter += other.scatter.to(device)
        self.scatter.addr_(delta, delta, alpha=before * other.n / self.n)
        self.mean += delta * (other.n / self.n)
        self.norm_sum += other.norm_sum.to(device)
        self.broken += other.broken.to(device)
        if self.classes is not None:
            self._join_classes(other.counts.to(device), other.class_means.to(device), other.class_scatter.to(device))
        return self

    def merged(self, other: Moments) -> Moments:
        """Give the joint moments and leave both parts as they are."""
        return deepcopy(self).merge(other)

    def check(self, least: int = 2, classes: int = 0) -> None:
        """Raise where there are too few samples or classes, or where features held NaN or inf."""
        if self.n < least:
            raise ValueError(f"{self.name}: needs at least {least} samples, got {self.n}")
        if int(self.broken):
            raise ValueError(f"{self.name}: {int(self.broken)} of {self.n} samples hold NaN or inf")
        present = int((self.counts > 0).sum())
        if present < classes:
            raise ValueError(f"{self.name}: needs at least {classes} classes, got {present} in {self.n} samples")

    @property
    def constant(self) -> bool:
        """Whether every sample is the same, up to rounding."""
        self.check()
        return bool(is_constant(self.scatter.trace() / self.n, self.mean.square().sum(), self.relative))

    def covariance(self) -> Float64[Tensor, "feature feature"]:
        """Give scatter / n; all zeros where the features are constant."""
        return torch.zeros_like(self.scatter) if self.constant else self.scatter / self.n

    @detached
    def spectrum(self) -> Float64[Tensor, " direction"]:
        """Give the eigenvalues of the covariance, largest first, as `winze.measure.spectrum` does."""
        values = eigen(self.covariance(), self.name, vectors=False)[0].flip(0)
        return values.clamp(min=0)[: min(self.n, self.features)]

    def between(self) -> Float64[Tensor, "class feature"]:
        """Give class means around the mean, each times its count: the moments of features with one-hot labels."""
        return self.counts[:, None] * (self.class_means - self.mean)
