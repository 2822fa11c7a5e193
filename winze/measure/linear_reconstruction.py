"""How much of one thing can be had back from another by a linear map."""

from __future__ import annotations

import torch

from winze.measure.features import Features, centred, detached
from winze.measure.value import CONSTANT, Value, missing


@detached
def linear_reconstruction(features: Features, target: Features) -> Value:
    """Give the share of the target's variance that the best linear map of the features gives back, on these samples.

        R² = 1 − min_{W,b} ‖Y − H W − b‖²_F / ‖Y − ȳ‖²_F

    Directions whose singular value is below 1e-10 of the largest count as absent. With as many features as samples it
    is 1 for nothing: have many more samples.
    """
    if len(features) != len(target):
        raise ValueError(f"expected the same samples in both, got {len(features)} and {len(target)}")
    rows, wanted = centred(features), centred(target, name="target")
    whole = wanted.square().sum()
    if not whole > 0:
        return missing(f"target: {CONSTANT}")
    if not rows.any():
        return missing(CONSTANT)
    basis, sizes, _ = torch.linalg.svd(rows, full_matrices=False)
    basis = basis[:, sizes > 1e-10 * sizes[0]]
    return Value(float((basis.T @ wanted).square().sum() / whole))
