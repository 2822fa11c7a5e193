"""How far features move between places of equal width."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float64
from torch import Tensor

from winze.measure.features import Features, check_finite, detached, flat
from winze.measure.value import Value


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
            raise ValueError(f"want order 1 or 2, got {order}")
        self.places, self.order, self.n = places, order, 0
        self._sum = torch.zeros(places, places, dtype=torch.float64, device="cpu")

    @detached
    def update(self, features: Sequence[Features]) -> Distances:
        """Add a batch: one feature tensor a place, all of the same samples in the same order."""
        rows = [flat(tensor, f"place {index}") for index, tensor in enumerate(features)]
        sizes = {len(tensor) for tensor in rows}
        if len(rows) != self.places or len(sizes) != 1:
            raise ValueError(f"want {self.places} places of one batch, got {len(rows)} with {sorted(sizes)} samples")
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
