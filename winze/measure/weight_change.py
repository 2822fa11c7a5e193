"""How far training has moved the weights."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from winze.measure.features import detached
from winze.measure.value import Value


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
