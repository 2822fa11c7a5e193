"""Moments of several places that are alike, side by side, so that one operation serves them all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from itertools import groupby

import torch
from jaxtyping import Float64
from torch import Tensor

from winze.measure.features import detached
from winze.measure.streaming.moments import Moments
from winze.measure.streaming.sums import Sums

AT_ONCE = 1 << 22
"""Elements of the square matrices, or of the weights, that are worked on at once: 32 MB in float64."""


def stacked(moments: Sequence[Moments], least: int = 2, classes: int = 0, rest: Sequence[Moments] = ()) -> Sums:
    """The sums of places, after seeing that each has enough samples and classes and no NaN or inf.

    These are counted over the `rest` of a place's samples too, where moments of these are given.
    """
    sums = Sums.beside([each.sums for each in moments])
    broken, present = torch.stack([sums.broken, (sums.counts > 0).sum(1).double()]).tolist()
    for i, (each, bad, seen) in enumerate(zip(moments, broken, present, strict=True)):
        if bad or seen < classes or each.n < least:
            (each.merged(rest[i]) if bad and rest else each).check(least, classes)
    return sums


@detached
def spectra(moments: Sequence[Moments]) -> list[Float64[Tensor, " direction"]]:
    """Give `Moments.spectrum` at many places; those beside each other that are alike are solved at once."""
    found: list[Tensor] = []
    for part in alike(moments):
        found += stacked(moments[part]).spectrum([each.name for each in moments[part]]).unbind()
    return found


@detached
def on_cpu(moments: Sequence[Moments]) -> list[Moments]:
    """Give the same moments on the CPU, where many small operations take no launch and no wait."""
    found: list[Moments] = []
    for part in alike(moments):
        home = stacked(moments[part], least=0).each(Tensor.cpu)
        for i, each in enumerate(moments[part]):
            found.append(copy(each))
            found[-1].sums = home.part(i, i + 1)
    return found


def alike(moments: Sequence[Moments], others: Sequence[Moments | None] | None = None) -> Iterator[slice]:
    """Give stretches of places that may be stacked, none so long that its matrices would be large."""
    beside = [None] * len(moments) if others is None else list(others)
    kinds = [(_kind(one), other and _kind(other)) for one, other in zip(moments, beside, strict=True)]
    for _, group in groupby(range(len(kinds)), lambda i: kinds[i]):
        stretch = list(group)
        most = max(1, AT_ONCE // moments[stretch[0]].features ** 2)
        yield from (
            slice(start, min(start + most, stretch[-1] + 1)) for start in range(stretch[0], stretch[-1] + 1, most)
        )


def _kind(moments: Moments) -> tuple[object, ...]:
    return moments.features, moments.classes, moments.n, moments.sums.relative, moments.mean.device
