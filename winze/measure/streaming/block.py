"""Features of several places for the same samples, in the form that every accumulator starts from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from winze.measure.features import Labels, check_labels, rounding, sent


class CentredBatch:
    """One batch at places of one width, in float64: as it is, and centred on its own mean.

        exact = mean + centred

    The first sample goes off first: what is left has the size of the spread, so that its mean loses no digits, and
    equal samples leave exactly nothing. Each part is worked out once, for all who ask; on a GPU, where the number of
    operations is the cost, many places then cost what one does.
    """

    def __init__(self, features: Float[Tensor, "place sample feature"]) -> None:
        self.features = features.detach()
        self.rounding = rounding(features.dtype)

    def __len__(self) -> int:
        return len(self.features)

    @property
    def n(self) -> int:
        """The number of samples."""
        return self.features.shape[1]

    @property
    def width(self) -> int:
        """The number of features."""
        return self.features.shape[2]

    @property
    def device(self) -> torch.device:
        """Where it lies."""
        return self.features.device

    def to(self, device: torch.device) -> CentredBatch:
        """The same elsewhere, or itself."""
        return self if device == self.device else CentredBatch(self.features.to(device))

    def part(self, start: int, end: int) -> CentredBatch:
        """Some of the samples."""
        return self if (start, end) == (0, self.n) else CentredBatch(self.features[:, start:end])

    @cached_property
    def exact(self) -> Float64[Tensor, "place sample feature"]:
        """The features."""
        return self.features.double()

    @cached_property
    def centred(self) -> Float64[Tensor, "place sample feature"]:
        """The features without their mean."""
        return self._centred[0]

    @cached_property
    def mean(self) -> Float64[Tensor, "place feature"]:
        """The mean of each feature."""
        return self.exact[:, 0] + self._centred[1]

    @cached_property
    def _centred(self) -> tuple[Tensor, Tensor]:
        spread = self.exact - self.exact[:, :1]
        centre = spread.mean(1)
        return spread.sub_(centre[:, None]), centre

    @cached_property
    def norms(self) -> Float64[Tensor, "place sample"]:
        """The length of each sample."""
        return torch.linalg.vector_norm(self.exact, dim=2)

    @cached_property
    def broken(self) -> Float64[Tensor, " place"]:
        """How many samples hold NaN or inf."""
        return (self.norms - self.norms != 0).sum(1, dtype=torch.float64)  # fewer operations than isfinite


@dataclass(frozen=True)
class Classes:
    """The labels of one batch, checked once for all places, with who belongs to which class."""

    labels: Int64[Tensor, " sample"]
    members: Float64[Tensor, "class sample"]
    counts: Float64[Tensor, " class"]

    @classmethod
    def of(
        cls, labels: Labels, samples: int, classes: int, name: str = "features", device: torch.device | None = None
    ) -> Classes:
        """Lay out labels on a device; those on the CPU spare a GPU the wait."""
        here = sent(check_labels(labels, samples, classes, name), device)
        members = torch.zeros(classes, samples, dtype=torch.float64, device=here.device)
        members.scatter_(0, here[None], 1.0)
        return cls(here, members, members.sum(1))

    @classmethod
    def joined(cls, parts: Sequence[Classes]) -> Classes:
        """Several batches as one."""
        if len(parts) == 1:
            return parts[0]
        labels, members = (torch.cat([getattr(part, name) for part in parts], -1) for name in ("labels", "members"))
        return cls(labels, members, members.sum(1))

    @cached_property
    def averages(self) -> Float64[Tensor, "class sample"]:
        """The matrix that takes samples to class means; classes without samples get zeros."""
        return self.members / self.counts.clamp(min=1)[:, None]

    @cached_property
    def present(self) -> Float64[Tensor, "class 1"]:
        """1 for each class that has samples."""
        return (self.counts[:, None] > 0).double()

    def to(self, device: torch.device) -> Classes:
        """The same elsewhere, or itself."""
        if device == self.labels.device:
            return self
        return Classes(self.labels.to(device), self.members.to(device), self.counts.to(device))

    def part(self, start: int, end: int) -> Classes:
        """Some of the samples."""
        if (start, end) == (0, len(self.labels)):
            return self
        members = self.members[:, start:end]
        return Classes(self.labels[start:end], members, members.sum(1))
