"""The ridge probe: a linear reader in closed form, from moments alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor

from winze.measure.features import Features, Labels, detached, few_threads, flat
from winze.measure.probes.probe import Probe
from winze.measure.streaming.moments import Moments
from winze.measure.streaming.stack import alike, stacked
from winze.measure.streaming.sums import Sums
from winze.measure.value import CONSTANT

PENALTIES = tuple(10.0 ** (power / 2) for power in range(-12, 5))  # per sample: sklearn's alpha is n times as large
TOGETHER = 7 << 20
"""Elements of the matrices that are solved together for several penalties: 59 MB in float64."""
DEVICES = ("cuda",)
"""Where they are."""


@dataclass(frozen=True)
class Ridge(Probe):
    """A ridge probe with its penalty, the squared errors by which that was chosen, and a note where it is odd."""

    penalty: float
    errors: tuple[float, ...] = ()
    note: str = ""


def ridge(moments: Moments, held_out: Moments | None = None, penalties: Sequence[float] = PENALTIES) -> Ridge:
    """Fit one-hot labels by standardised features, with the penalty that serves held-out samples best.

        min_W  1/n Σ ‖y − ȳ − Wᵀz‖² + penalty ‖W‖²_F,   z = (h − mean) / std

    `held_out` enters by its own moments only. The probe is then fitted again on both parts together. A feature that is
    constant gets weight 0; a class without samples is never predicted.
    """
    return ridges([moments], None if held_out is None else [held_out], penalties)[0]


@detached
def ridges(
    moments: Sequence[Moments], held_out: Sequence[Moments] | None = None, penalties: Sequence[float] = PENALTIES
) -> list[Ridge]:
    """Fit `ridge` at many places; those beside each other that are alike are solved at once."""
    if not penalties or min(penalties) <= 0:
        raise ValueError(f"expected penalties above 0, got {list(penalties)}")
    held = [other if other.n else None for other in held_out] if held_out is not None else [None] * len(moments)
    if len(penalties) > 1 and None in held:
        where = moments[held.index(None)].name
        raise ValueError(f"{where}: no held-out samples to choose one of {len(penalties)} penalties by")
    found: list[Ridge] = []
    for part in alike(moments, held):
        others = [other for other in held[part] if other is not None]
        train = stacked(moments[part], classes=2, rest=others)
        rest = stacked(others, least=1, rest=moments[part]) if others else None
        found += _fitted(train, rest, penalties, [each.name for each in moments[part]])
    return found


def _fitted(train: Sums, held: Sums | None, penalties: Sequence[float], names: Sequence[str]) -> list[Ridge]:
    places = len(train.mean)
    errors: list[tuple[float, ...]] = [()] * places
    chosen, whole = [penalties[0]] * places, train
    if held is not None:
        errors = [tuple(row) for row in _errors(train, held, penalties, names).tolist()]
        chosen = [penalties[row.index(min(row))] for row in errors]
        whole = train.each(torch.clone).join(held)
    scale, correlation, target = _standard(whole)
    correlation.diagonal(dim1=1, dim2=2).add_(correlation.new_tensor(chosen)[:, None])
    with few_threads(correlation):
        weight = torch.cholesky_solve(target, torch.linalg.cholesky(correlation)).mT * scale[:, None]
    bias = whole.counts / whole.n - (weight @ whole.mean[:, :, None])[..., 0]
    live = scale.any(1).tolist()
    notes = ["" if alive else f"{CONSTANT}; the commonest class is all a probe can say" for alive in live]
    rows = zip(weight, bias, chosen, errors, notes, strict=True)
    return [Ridge(w, b, float(penalty), error, note) for w, b, penalty, error, note in rows]


def ridge_probe(
    features: Features,
    labels: Labels,
    classes: int | None = None,
    penalties: Sequence[float] = PENALTIES,
    every: int = 10,
) -> Ridge:
    """Fit a ridge probe to one feature matrix; each `every`-th sample by position is held out for the penalty."""
    rows = flat(features)
    classes = int(labels.max()) + 1 if classes is None and len(labels) else classes
    out = torch.arange(len(rows)) % every == every - 1
    if len(penalties) == 1 or not bool(out.any()):
        return ridge(Moments.of(rows, labels, classes), None, penalties)
    out_rows, out_labels = out.to(rows.device), out.to(labels.device)
    train = Moments.of(rows[~out_rows], labels[~out_labels], classes)
    return ridge(train, Moments.of(rows[out_rows], labels[out_labels], classes), penalties)


def _standard(sums: Sums) -> tuple[Tensor, Tensor, Float64[Tensor, "place feature class"]]:
    """Give 1/std (0 for constant features), correlations, and correlations with one-hot labels times their std."""
    scatter, mean = sums.scatter, sums.mean
    deviation = (scatter.diagonal(dim1=1, dim2=2) / sums.n).sqrt()
    live = deviation > sums.relative * mean.abs()
    scale = torch.where(live, 1 / deviation, 0.0)
    return (
        scale,
        scale[:, :, None] * (scatter / sums.n) * scale[:, None],
        scale[:, :, None] * sums.between().mT / sums.n,
    )


def _errors(
    train: Sums, held: Sums, penalties: Sequence[float], names: Sequence[str]
) -> Float64[Tensor, "place penalty"]:
    """Give the mean squared error on held-out samples for each penalty, by one Cholesky factor per penalty.

    A factor takes a small part of the time of an eigendecomposition, most of all on a GPU.
    """
    scale, correlation, target = _standard(train)
    shift = (held.mean - train.mean)[:, None] * scale[:, None]
    scatter = scale[:, :, None] * (held.scatter / held.n) * scale[:, None]
    cross = scale[:, :, None] * held.between().mT / held.n
    shares, seen = train.counts / train.n, held.counts / held.n
    if not bool(torch.isfinite(correlation).all()):
        finite = torch.isfinite(correlation).flatten(1).all(1).tolist()
        raise ValueError(f"{names[finite.index(False)]}: features are too large for their squares to be numbers")
    count, classes = len(scale), target.shape[2]
    errors = []
    with few_threads(correlation):
        for some in correlation.new_tensor(penalties).split(_at_once(correlation)):
            shifted = correlation[:, None].repeat(1, len(some), 1, 1)
            shifted.diagonal(dim1=2, dim2=3).add_(some[:, None])
            factor, failed = torch.linalg.cholesky_ex(shifted)
            weights = torch.cholesky_solve(target[:, None].expand(-1, len(some), -1, -1), factor).transpose(1, 2)
            side = weights.flatten(2)  # place, feature, classes of all penalties
            inner = (side * (scatter @ side - 2 * cross.repeat(1, 1, len(some)))).sum(1).view(count, -1, classes).sum(2)
            offset = (shift @ side).view(count, -1, classes) + (shares - seen)[:, None]
            error = inner + offset.square().sum(2)
            errors.append(error.masked_fill(failed > 0, torch.inf))  # a penalty below the rounding of the correlations
    return torch.cat(errors, 1) + (1 - seen.square().sum(1))[:, None]


def _at_once(matrices: Tensor) -> int:
    """For how many penalties these matrices are solved together: on a GPU several, where one call takes as long."""
    return max(1, TOGETHER // matrices.numel()) if matrices.device.type in DEVICES else 1
