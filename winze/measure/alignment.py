"""Whether a layer reads the directions in which its input is large."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from winze.measure.features import Features, check_finite, detached, flat
from winze.measure.streaming.moments import Moments
from winze.measure.value import Value, missing


class Alignment(NamedTuple):
    """Absolute cosines of leading singular vectors, the mean of their diagonal, and the overlap of the subspaces."""

    matrix: Float64[Tensor, "weight_direction feature_direction"]
    diagonal: Value
    subspace: Value


@detached
def alignment(
    weight: Float[Tensor, "out feature"], features: Features, top: int = 15, centre: bool = False
) -> Alignment:
    """Compare what a weight reads first with what its input holds most of.

        S = |V_W[:, :k]ᵀ U_A[:, :k]|,   diagonal = mean S_ii,   subspace = ‖S‖²_F / k

    W = U_W Σ_W V_Wᵀ, and U_A are the right singular vectors of samples x features. k is `top`, or less where either
    matrix has fewer directions; 1 on the diagonal is full alignment.
    """
    rows = flat(features)
    check_finite(rows)
    return alignment_of(weight, Moments.of(rows), top, centre)


@detached
def alignment_of(
    weight: Float[Tensor, "out feature"], moments: Moments, top: int = 15, centre: bool = False
) -> Alignment:
    """Give `alignment` from the moments of the features."""
    if weight.dim() != 2 or weight.shape[1] != moments.features or top < 1:
        raise ValueError(f"expected a weight of out x {moments.features}, got {tuple(weight.shape)}, and top >= 1")
    check_finite(weight, "weight")
    moments.check(least=1)
    second = moments.scatter if centre else moments.scatter + moments.n * torch.outer(moments.mean, moments.mean)
    energy, directions = torch.linalg.eigh(second)
    _, strength, readers = torch.linalg.svd(weight.detach().to(second), full_matrices=False)
    # directions of no energy are any basis of what is left, so they cannot be compared
    k = min(top, _count(strength.square()), _count(energy.flip(0)))
    if k == 0:
        why = missing("the weight or the features are all 0")
        return Alignment(second.new_empty(0, 0), why, why)
    cosines = (readers[:k] @ directions.flip(1)[:, :k]).abs().clamp(max=1)
    note = f"top {k} of {top} asked for" if k < top else ""
    return Alignment(
        cosines.cpu(),
        Value(float(cosines.diagonal().mean()), note),
        Value(float(cosines.square().sum() / k), note),
    )


def _count(energy: Float64[Tensor, " direction"]) -> int:
    return int((energy > 1e-12 * energy.max()).sum()) if bool(energy.max() > 0) else 0


def stored_layers(last: int) -> list[int]:
    """Those of layers 0 to `last` whose matrix is stored: four, spread from the second on."""
    return sorted({round(1 + (last - 1) * part / 3) for part in range(4)})
