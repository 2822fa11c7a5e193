"""The arithmetic of moments, for several places of one width at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import torch
from jaxtyping import Float64
from torch import Tensor

from winze.measure.features import eigen, is_constant, is_slow_in_float64, product
from winze.measure.streaming.block import CentredBatch, Classes


@dataclass
class Sums:
    """What moments are made of, a row for each place; all but `counts` and `broken` as `Moments` says.

    All places have seen the same `n` samples; `relative` is the rounding of the widest type among them. Two sets of
    samples are joined as Chan, Golub & LeVeque (1983) do, so that no digits go when the mean is far larger than the
    spread. Everything happens in place.
    """

    n: int
    relative: float
    mean: Float64[Tensor, "place feature"]
    scatter: Float64[Tensor, "place feature feature"]
    norm_sum: Float64[Tensor, " place"]
    broken: Float64[Tensor, " place"]
    counts: Float64[Tensor, "place class"]
    class_means: Float64[Tensor, "place class feature"]
    class_scatter: Float64[Tensor, "place class"]

    @classmethod
    def zeros(cls, places: int, features: int, classes: int, device: torch.device) -> Sums:
        """Make room on a device."""

        def room(*shape: int) -> Tensor:
            return torch.zeros((places, *shape), dtype=torch.float64, device=device)

        square = room(features, features)
        parts = room(features), square, room(), room(), room(classes), room(classes, features), room(classes)
        return cls(0, 0.0, *parts)

    @classmethod
    def beside(cls, parts: Sequence[Sums]) -> Sums:
        """The places of several, which have seen the same number of samples."""
        if len(parts) == 1:
            return parts[0]
        tensors = (torch.cat(each) for each in zip(*(part.tensors for part in parts), strict=True))
        return cls(parts[0].n, max(part.relative for part in parts), *tensors)

    @property
    def tensors(self) -> list[Tensor]:
        """All of them, in the order of the fields."""
        return [getattr(self, field.name) for field in fields(self)[2:]]

    def each(self, change: Callable[[Tensor], Tensor]) -> Sums:
        """The same with every tensor changed."""
        return Sums(self.n, self.relative, *map(change, self.tensors))

    def part(self, start: int, end: int) -> Sums:
        """Some of the places, in the same memory."""
        return self.each(lambda tensor: tensor[start:end])

    def between(self) -> Float64[Tensor, "place class feature"]:
        """Give class means around the mean, each times its count: the moments of features with one-hot labels."""
        return self.counts[..., None] * (self.class_means - self.mean[:, None])

    def add(self, block: CentredBatch, classes: Classes | None) -> None:
        """Add a batch."""
        before, n = self.n, self.n + block.n
        self.n, self.relative = n, max(self.relative, block.rounding)
        self.norm_sum.add_(block.norms.sum(1))
        self.broken.add_(block.broken)
        delta = block.mean - self.mean
        between = ((before * block.n / n) ** 0.5 * delta)[:, None]
        self.mean.add_(delta, alpha=block.n / n)
        if classes is None:
            self._add_scatter(block.centred, between if before else between[:, :0])
            return
        averages = classes.averages.expand(len(block), -1, -1)
        few = 4 * len(classes.counts) <= block.n  # what takes little of the time stays exact
        means = torch.bmm(averages, block.centred) if few else product(averages, block.centred)
        rest = block.centred - means.index_select(1, classes.labels)
        if few and is_slow_in_float64(block.device):
            self._add_scatter(rest, torch.cat([classes.counts.sqrt()[:, None] * means, between], 1))
        else:
            self._add_scatter(block.centred, between if before else between[:, :0])
        within = rest.square_().sum(2)
        means += block.mean[:, None]
        self._join_classes(classes.counts, classes.present, means, within @ classes.members.T)

    def _add_scatter(self, rows: Tensor, few: Tensor) -> None:
        """Add the products of many rows, which may be float32 products, and of a few rows, which are not."""
        if not is_slow_in_float64(rows.device):
            joint = torch.cat([rows, few], 1) if few.shape[1] else rows
            self.scatter.baddbmm_(joint.mT, joint)
            return
        self.scatter.add_(product(rows.mT, rows)).baddbmm_(few.mT, few)

    def join(self, other: Sums) -> Sums:
        """Add what other samples left."""
        before, others = self.n, other.n
        n = before + others
        self.n, self.relative = n, max(self.relative, other.relative)
        delta = other.mean - self.mean
        self.scatter.add_(other.scatter)
        self.scatter.baddbmm_(delta[:, :, None], delta[:, None], alpha=before * others / n)
        self.mean.add_(delta, alpha=others / n)
        self.norm_sum.add_(other.norm_sum)
        self.broken.add_(other.broken)
        present = (other.counts > 0).double()[..., None]
        self._join_classes(other.counts, present, other.class_means, other.class_scatter)
        return self

    def spectrum(self, names: Sequence[str]) -> Float64[Tensor, "place direction"]:
        """Give the eigenvalues of each covariance, largest first; zeros where features are constant up to rounding."""
        covariance = self.scatter / self.n
        variance = covariance.diagonal(dim1=1, dim2=2).sum(1)
        still = is_constant(variance, self.mean.square().sum(1), self.relative)
        values = eigen(covariance.masked_fill_(still[:, None, None], 0.0), names, vectors=False)[0].flip(1)
        return values.clamp(min=0)[:, : min(self.n, values.shape[1])]

    def _join_classes(self, counts: Tensor, present: Tensor, means: Tensor, scatter: Tensor) -> None:
        share = counts / (self.counts + counts).clamp_(min=1)
        delta = (means - self.class_means).mul_(present)
        self.class_scatter.add_(scatter).add_(delta.square().sum(2).mul_(self.counts).mul_(share))
        self.class_means.add_(delta.mul_(share[..., None]))
        self.counts.add_(counts)
