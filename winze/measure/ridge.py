"""The ridge probe: a linear reader in closed form, from moments alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor

from winze.measure.features import Features, Labels, detached, eigen, few_threads, flat
from winze.measure.probe import Probe
from winze.measure.streaming.moments import Moments
from winze.measure.streaming.stack import AT_ONCE, Stack, alike
from winze.measure.value import CONSTANT

PENALTIES = tuple(10.0 ** (power / 2) for power in range(-12, 5))  # per sample: sklearn's alpha is n times as large


@dataclass(frozen=True)
class Ridge(Probe):
    """A ridge probe with its penalty, the squared errors by which that was chosen, and a note where it is odd."""

    penalty: float
    errors: tuple[float, ...] = ()
    note: str = ""


def ridge(moments: Moments, held_out: Moments | None = None, penalties: Sequence[float] = PENALTIES) -> Ridge:
    """Fit one-hot labels by standardised features, with the penalty that serves held-out samples best.

        min_W  1/n Σ ‖y − ȳ − Wᵀz‖² + penalty ‖W‖²_F,   z = (h − mean) / std

    One eigendecomposition of the correlations solves all penalties; `held_out` enters by its own moments only. The
    probe is then fitted again on both parts together. A feature that is constant gets weight 0; a class without
    samples is never predicted.
    """
    return ridges([moments], None if held_out is None else [held_out], penalties)[0]


@detached
def ridges(
    moments: Sequence[Moments], held_out: Sequence[Moments] | None = None, penalties: Sequence[float] = PENALTIES
) -> list[Ridge]:
    """Fit `ridge` at many places; those beside each other that are alike are solved at once."""
    if not penalties or min(penalties) <= 0:
        raise ValueError(f"want penalties above 0, got {list(penalties)}")
    held = [other if other.n else None for other in held_out] if held_out is not None else [None] * len(moments)
    if len(penalties) > 1 and None in held:
        where = moments[held.index(None)].name
        raise ValueError(f"{where}: no held-out samples to choose one of {len(penalties)} penalties by")
    found: list[Ridge] = []
    for part in alike(moments, held):
        others = [other for other in held[part] if other is not None]
        train = Stack.of(moments[part], classes=2, rest=others)
        found += _fitted(train, Stack.of(others, least=1, rest=moments[part]) if others else None, penalties)
    return found


def _fitted(train: Stack, held: Stack | None, penalties: Sequence[float]) -> list[Ridge]:
    places = len(train.sums.mean)
    errors: list[tuple[float, ...]] = [()] * places
    chosen, whole = [penalties[0]] * places, train
    if held is not None:
        errors = [tuple(row) for row in _errors(train, held, penalties).tolist()]
        chosen = [penalties[row.index(min(row))] for row in errors]
        whole = train.joined(held)
    scale, correlation, target = _standard(whole)
    correlation.diagonal(dim1=1, dim2=2).add_(correlation.new_tensor(chosen)[:, None])
    with few_threads(correlation):
        weight = torch.cholesky_solve(target, torch.linalg.cholesky(correlation)).mT * scale[:, None]
    bias = whole.sums.counts / whole.n - (weight @ whole.sums.mean[:, :, None])[..., 0]
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


def _standard(stack: Stack) -> tuple[Tensor, Tensor, Float64[Tensor, "place feature class"]]:
    """Give 1/std (0 for constant features), correlations, and correlations with one-hot labels times their std."""
    scatter, mean = stack.sums.scatter, stack.sums.mean
    deviation = (scatter.diagonal(dim1=1, dim2=2) / stack.n).sqrt()
    live = deviation > stack.relative * mean.abs()
    scale = torch.where(live, 1 / deviation, 0.0)
    return (
        scale,
        scale[:, :, None] * (scatter / stack.n) * scale[:, None],
        scale[:, :, None] * stack.between().mT / stack.n,
    )


def _errors(train: Stack, held: Stack, penalties: Sequence[float]) -> Float64[Tensor, "place penalty"]:
    """Give the mean squared error on held-out samples for each penalty, in the eigenbasis of the correlations."""
    scale, correlation, target = _standard(train)
    energy, basis = eigen(correlation, train.names)
    energy, target = energy.clamp(min=0), basis.mT @ target
    basis = scale[:, :, None] * basis  # from features to standardised, rotated features
    shift = (held.sums.mean - train.sums.mean)[:, None] @ basis
    scatter = basis.mT @ (held.sums.scatter / held.n) @ basis
    cross = basis.mT @ held.between().mT / held.n
    shares, seen = train.sums.counts / train.n, held.sums.counts / held.n
    places, features, classes = target.shape
    errors = []
    # as many penalties at once as leave the weights small
    for some in energy.new_tensor(penalties).split(max(1, AT_ONCE // target.numel())):
        weights = target[:, :, None] / (energy[:, :, None] + some)[..., None]
        columns = weights.view(places, features, -1)
        inner = (columns * (scatter @ columns)).sum(1).view(places, -1, classes).sum(2)
        mixed = (weights * cross[:, :, None]).sum((1, 3))
        offset = (shift @ columns).view(places, -1, classes) + (shares - seen)[:, None]
        errors.append(inner - 2 * mixed + offset.square().sum(2))
    return torch.cat(errors, 1) + (1 - seen.square().sum(1))[:, None]
