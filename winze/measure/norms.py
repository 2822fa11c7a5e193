"""How large features and weights are."""

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
