"""How far apart the places of a network are that are equally wide."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from winze.data import Batches
from winze.measure import Distances
from winze.observe.passes.hooks import recording
from winze.observe.places.find_places import find_spots
from winze.readings import Array


@torch.no_grad()
def layer_distances(net: nn.Module, batches: Batches, names: list[str]) -> Array:
    """The mean L1 distance per feature between every two places, NaN where they are not equally wide."""
    spots = find_spots(net, next(iter(batches))[0][:2], names)
    gathered, rows = Distances(len(spots), order=1), dict[int, Tensor]()
    with recording(net, spots, rows.__setitem__, "flatten"):
        for x, _ in batches:
            net(x)
            gathered.update([rows[spot.place.index] for spot in spots])
    widths = torch.tensor([rows[spot.place.index].shape[1] for spot in spots])
    return (gathered.matrix() / widths).numpy()
