"""How far features move between places of equal width, and whether depth comes back to where it was."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from winze.measure.features import Features, check_finite, detached, flat
from winze.measure.value import Value, missing

PlaceDistances = Float[Tensor, "place place"]


def l1_distance(x: Features, y: Features) -> Value:
    """Give the mean over samples of ‖x − y‖₁."""
    return Value(float(distances([x, y], order=1)[0, 1]))


def euclidean_distance(x: Features, y: Features) -> Value:
    """Give the mean over samples of ‖x − y‖₂."""
    return Value(float(distances([x, y])[0, 1]))


def distances(places: Sequence[Features], order: int = 2) -> Float64[Tensor, "place place"]:
    """Give the mean distance between each pair of places, NaN where their widths differ.

    D_ij = 1/n Σ_s ‖h_i(s) − h_j(s)‖_p
    """
    return Distances(len(places), order).update(places).matrix()


class Distances:
    """Gather `distances` over batches; places of different width have none."""

    def __init__(self, places: int, order: int = 2) -> None:
        if order not in (1, 2):
            raise ValueError(f"expected order 1 or 2, got {order}")
        self.places, self.order, self.n = places, order, 0
        self._sum = torch.zeros(places, places, dtype=torch.float64, device="cpu")

    @detached
    def update(self, features: Sequence[Features]) -> Distances:
        """Add a batch: one feature tensor a place, all of the same samples in the same order."""
        rows = [flat(tensor, f"place {index}") for index, tensor in enumerate(features)]
        sizes = {len(tensor) for tensor in rows}
        if len(rows) != self.places or len(sizes) != 1:
            raise ValueError(
                f"expected {self.places} places of one batch, got {len(rows)} with {sorted(sizes)} samples"
            )
        widths = [tensor.shape[1] for tensor in rows]
        batch = torch.full((self.places, self.places), torch.nan, dtype=torch.float64, device=rows[0].device)
        for width in dict.fromkeys(widths):
            group = [index for index, other in enumerate(widths) if other == width]
            for index in group:
                check_finite(rows[index], f"place {index}")
            for index in group:
                for other in group:
                    if other >= index:
                        apart = rows[index].double() - rows[other].double()
                        batch[index, other] = batch[other, index] = apart.norm(p=self.order, dim=1).sum()
        self._sum = self._sum.to(batch.device) + batch
        self.n += sizes.pop()
        return self

    def merge(self, other: Distances) -> Distances:
        """Take in the batches of another accumulator."""
        if (self.places, self.order) != (other.places, other.order):
            raise ValueError("cannot merge distances over other places or of another order")
        self._sum = self._sum + other._sum.to(self._sum.device)
        self.n += other.n
        return self

    def matrix(self) -> Float64[Tensor, "place place"]:
        """Give the mean distances."""
        if not self.n:
            raise ValueError("no samples")
        return self._sum.cpu() / self.n


@detached
def feature_reuse(distances: PlaceDistances, gap: int = 2) -> Value:
    """Give how often a place is closer to one at least `gap` places before it than to all those between.

        R = 1/(L − gap) Σ_{j ≥ gap} [ argmin_{k < j} D_kj ≤ j − gap ]

    The nearest of all earlier places decides, since it is nearer than those between, and of equals the latest counts.
    A stream that only moves on has R = 0, one that goes to and fro between two points R = 1; places in random order
    have 1 − 1/j for place j on average, which is 0.68 for 6 places and 0.90 for 32.
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
        raise ValueError(f"expected at least {least} places, got {len(distances)}")
    broken = not bool(torch.isfinite(distances).all())
    return distances.double(), "some places have no distance, such as those of different width" if broken else ""
