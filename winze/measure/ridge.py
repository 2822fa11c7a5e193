"""The ridge probe: a linear reader in closed form, from moments alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor

from winze.measure.centre import Features, Labels, detached, eigen, flat
from winze.measure.moments import Moments
from winze.measure.probe import Probe
from winze.measure.value import CONSTANT

PENALTIES = tuple(10.0 ** (power / 2) for power in range(-12, 5))  # per sample: sklearn's alpha is n times as large


@dataclass(frozen=True)
class Ridge(Probe):
    """A ridge probe with its penalty, the squared errors by which that was chosen, and a note where it is odd."""

    penalty: float
    errors: tuple[float, ...] = ()
    note: str = ""


@detached
def ridge(moments: Moments, held_out: Moments | None = None, penalties: Sequence[float] = PENALTIES) -> Ridge:
    """Fit one-hot labels by standardised features, with the penalty that serves held-out samples best.

        min_W  1/n Σ ‖y − ȳ − Wᵀz‖² + penalty ‖W‖²_F,   z = (h − mean) / std

    One eigendecomposition of the correlations solves all penalties; `held_out` enters by its own moments only. The
    probe is then fitted again on both parts together. A feature that is constant gets weight 0; a class without
    samples is never predicted.
    """
    if not penalties or min(penalties) <= 0:
        raise ValueError(f"want penalties above 0, got {list(penalties)}")
    moments.check(classes=2)
    errors: tuple[float, ...] = ()
    penalty, whole = penalties[0], moments
    if held_out is not None and held_out.n:
        held_out.check(least=1)
        errors = _errors(moments, held_out, penalties)
        penalty = penalties[errors.index(min(errors))]
        whole = moments.merged(held_out)
    elif len(penalties) > 1:
        raise ValueError(f"{moments.name}: no held-out samples to choose one of {len(penalties)} penalties by")
    scale, correlation, target = _standard(whole)
    correlation.diagonal().add_(penalty)
    weight = torch.cholesky_solve(target, torch.linalg.cholesky(correlation)).T * scale
    bias = whole.counts / whole.n - weight @ whole.mean
    note = "" if bool(scale.any()) else f"{CONSTANT}; the commonest class is all a probe can say"
    return Ridge(weight, bias, float(penalty), errors, note)


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


def _standard(moments: Moments) -> tuple[Tensor, Tensor, Float64[Tensor, "feature class"]]:
    """Give 1/std (0 for constant features), correlations, and correlations with one-hot labels times their std."""
    deviation = (moments.scatter.diagonal() / moments.n).sqrt()
    live = deviation > moments.relative * moments.mean.abs()
    scale = torch.where(live, 1 / deviation, 0.0)
    return (
        scale,
        scale[:, None] * (moments.scatter / moments.n) * scale,
        scale[:, None] * moments.between().T / moments.n,
    )


def _errors(train: Moments, held: Moments, penalties: Sequence[float]) -> tuple[float, ...]:
    """Give the mean squared error on held-out samples for each penalty, in the eigenbasis of the correlations."""
    scale, correlation, target = _standard(train)
    energy, basis = eigen(correlation, train.name)
    target = basis.T @ target
    basis = scale[:, None] * basis  # from features to standardised, rotated features
    shift = (held.mean - train.mean) @ basis
    scatter = basis.T @ (held.scatter / held.n) @ basis
    cross = basis.T @ held.between().T / held.n
    shares, seen = train.counts / train.n, held.counts / held.n
    errors = []
    for penalty in penalties:
        weight = target / (energy.clamp(min=0) + penalty)[:, None]
        offset = shift @ weight + shares - seen
        spread = (weight * (scatter @ weight)).sum() - 2 * (weight * cross).sum() + 1 - seen.square().sum()
        errors.append(float(spread + offset.square().sum()))
    return tuple(errors)
