"""Whether depth comes back to where it was: two numbers of the distances between all places of a network."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from winze.measure.features import detached
from winze.measure.value import Value, missing

PlaceDistances = Float[Tensor, "place place"]


@detached
def feature_reuse(distances: PlaceDistances, gap: int = 2) -> Value:
    """Give how often a place is closer to one at least `gap` places before it than to all those between.

        R = 1/(L − gap) Σ_{j ≥ gap} [ argmin_{k < j} D_kj ≤ j − gap ]

    The nearest of all earlier places decides, since it is nearer than those between, and of equals the latest counts.
    A stream that only moves on has R = 0, one that goes to and fro between two points R = 1; places in no order at all
    have 1 − 1/j for place j on average, which is .68 for 6 places and .90 for 32.
    """
    if gap < 2:
        raise ValueError(f"gap must be at least 2, or no place lies between; got {gap}")
    table, why = _checked(distances, gap + 1)
    if why:
        return missing(why)
    back = 0
    for place in range(gap, len(table)):
        earlier = table[:place, place]
        nearest = int((earlier == earlier.min()).nonzero().max())
        back += nearest <= place - gap
    return Value(back / (len(table) - gap))


@detached
def non_monotonicity(distances: PlaceDistances) -> Value:
    """Give how much of the change in distance, walking away from a place, is towards it again.

        Σ max(0, −Δ) / Σ |Δ|,   Δ = D_{i,k+1} − D_ik for k = i + 1, i + 2, ... and the same towards earlier places

    It is 0 where distances only grow with the depth between, and about a half where they fall as often as they rise.
    """
    table, why = _checked(distances, 3)
    if why:
        return missing(why)
    onwards = [table[i, i + 1 :] for i in range(len(table))]
    backwards = [table[i, :i].flip(0) for i in range(len(table))]
    changes = torch.cat([walk.diff() for walk in (*onwards, *backwards)])
    moved = changes.abs().sum()
    if not moved > 0:
        return missing("all places are equally far apart")
    return Value(float((-changes).clamp(min=0).sum() / moved))


def _checked(distances: PlaceDistances, least: int) -> tuple[Tensor, str]:
    """The distances in float64, and why nothing can be said of them."""
    if len(distances) < least:
        raise ValueError(f"want at least {least} places, got {len(distances)}")
    broken = not bool(torch.isfinite(distances).all())
    return distances.double(), "some places have no distance, such as those of different width" if broken else ""
