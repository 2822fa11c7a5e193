"""How large features and weights are, and how far training has moved the weights."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from winze.measure.features import Features, check_finite, detached, flat
from winze.measure.streaming.moments import Moments
from winze.measure.value import Value


@detached
def sample_norm(features: Features) -> Value:
    """Give the mean length of a sample, 1/n Σ ‖h_s‖₂."""
    return Value(float(_rows(features).norm(dim=1).mean()))


@detached
def frobenius_norm(features: Features) -> Value:
    """Give the length of the whole feature matrix, sqrt(Σ_s ‖h_s‖²)."""
    return Value(float(_rows(features).norm()))


def _rows(features: Features) -> Tensor:
    rows = flat(features)
    if not len(rows):
        raise ValueError("no samples")
    check_finite(rows)
    return rows.double()


@detached
def sample_norm_of(moments: Moments) -> Value:
    """Give `sample_norm` from moments."""
    moments.check(least=1)
    return Value(float(moments.norm_sum / moments.n))


@detached
def frobenius_norm_of(moments: Moments) -> Value:
    """Give `frobenius_norm` from moments."""
    moments.check(least=1)
    return Value(float((moments.scatter.trace() + moments.n * moments.mean.square().sum()).sqrt()))


@detached
def weight_norms(weights: Mapping[str, Tensor]) -> dict[str, Value]:
    """Give the Frobenius norm of each floating tensor of a state dict."""
    return {
        name: Value(float(tensor.double().norm())) for name, tensor in weights.items() if tensor.is_floating_point()
    }


@detached
def weight_change(before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> dict[str, Value]:
    """Give the root mean square change of each floating tensor between two state dicts.

        Δ = ‖θ₁ − θ₂‖₂ / sqrt(number of weights)

    A state dict has buffers too; `dict(net.named_parameters())` has weights only.
    Masarczyk et al., 2023, arXiv 2305.19753.
    """
    if before.keys() != after.keys():
        raise ValueError(f"not in both state dicts: {sorted(before.keys() ^ after.keys())}")
    change = {}
    for name, old in before.items():
        new = after[name]
        if old.shape != new.shape:
            raise ValueError(f"{name}: shape {tuple(old.shape)} before, {tuple(new.shape)} after")
        if old.is_floating_point() and old.numel():
            step = new.double() - old.double().to(new.device)
            change[name] = Value(float(step.square().mean().sqrt()))
    return change
