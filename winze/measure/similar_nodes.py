"""Nodes with similar maps: what single features show over the same samples, up to sign, offset and scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from winze.measure.features import Features, centred, detached
from winze.measure.value import CONSTANT, Value, missing

ALIKE, DIFFERENT = 0.95, 0.8


class AlikeNodes(NamedTuple):
    """Pairs of similar nodes, their share of all pairs, and how many groups of similar nodes there are."""

    pairs: Value
    share: Value
    groups: Value


@detached
def alike_nodes(features: Features, above: float = ALIKE) -> AlikeNodes:
    """Count the nodes of one place that show nearly the same map.

        pairs = |{ m < n : |corr(h_m, h_n)| > above }|,   share = pairs / all pairs

    Groups are the connected parts of the graph of these pairs. Constant nodes show nothing and are left out.
    """
    maps = _maps(features)
    count = maps.shape[1]
    if not count:
        return AlikeNodes(*[missing(CONSTANT)] * 3)
    linked = (maps.T @ maps).abs() > above
    pairs = int(linked.triu(1).sum())
    share = Value(2 * pairs / (count * (count - 1))) if count > 1 else missing("one node has no pair")
    return AlikeNodes(Value(pairs), share, Value(_groups(linked | torch.eye(count, dtype=torch.bool))))


@detached
def recurring_maps(places: Sequence[Features], above: float = ALIKE, below: float = DIFFERENT) -> Value:
    """Give the share of node maps that are seen again: a place before shows the like, and one between nothing near it.

        [ ∃ i < k < l :  s_i > above,  s_k < below ],   s_k = max_m |corr(h_l[n], h_k[m])|,   over nodes n of all l ≥ 2

    Between the two bounds a map is neither alike nor different, or one that wavers about a single bound would recur all
    the time. Constant nodes show nothing: they are not counted, and resemble nothing.
    """
    if len(places) < 3:
        raise ValueError(f"expected at least 3 places, got {len(places)}")
    if below > above:
        raise ValueError(f"below, {below}, must not be higher than above, {above}")
    maps = [_maps(features, f"place {index}") for index, features in enumerate(places)]
    seen, total = 0, 0
    for place in range(2, len(maps)):
        if not maps[place].shape[1]:
            continue
        best = torch.stack([_best(maps[place], earlier) for earlier in maps[:place]])
        before = (best > above).cumsum(0) > 0
        seen += int((before[:-1] & (best[1:] < below)).any(0).sum())
        total += maps[place].shape[1]
    return Value(seen / total) if total else missing(CONSTANT)


def _maps(features: Features, name: str = "features") -> Float64[Tensor, "sample node"]:
    """The nodes that are not constant, centred and of length 1."""
    rows = centred(features, name=name)
    length = rows.norm(dim=0)
    live = length > 1e-9 * length.max()
    return rows[:, live] / length[live]


def _best(maps: Float64[Tensor, "sample node"], earlier: Float64[Tensor, "sample other"]) -> Float64[Tensor, " node"]:
    """Of each node, how much the most similar of the others resembles it."""
    if not earlier.shape[1]:
        return maps.new_zeros(maps.shape[1])
    return (maps.T @ earlier).abs().amax(1)


def _groups(linked: Bool[Tensor, "node node"]) -> int:
    """How many connected parts a graph has whose nodes are linked to themselves."""
    reached = linked
    while True:
        further = (reached.double() @ reached.double()) > 0
        if bool((further == reached).all()):
            return len(reached.unique(dim=0))
        reached = further
