"""CKA between each place of one network and each place of another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
import torch
from torch import nn

from winze.measure import CKA, CentredBatch
from winze.modes import unchanged
from winze.networks import unwrapped
from winze.observe.passes.feed import Batch, Feed
from winze.observe.passes.inputs import AnyData, generators
from winze.observe.passes.reader import Reader
from winze.observe.places.chosen_calls import PlaceNames
from winze.observe.places.memory_format import spots_and_order
from winze.observe.places.pooling import Pool, check_pool
from winze.place import Place
from winze.progress import tracker


@dataclass(frozen=True, eq=False)
class Between:
    """Unbiased minibatch CKA over `n` samples: one row per `places`, one column per `other_places`.

    NaN where a place has none; `notes` then say why.
    """

    cka: np.ndarray
    places: list[Place]
    other_places: list[Place]
    n: int
    notes: list[str]


@torch.no_grad()
def cka_between(
    net: nn.Module,
    other: nn.Module,
    data: AnyData,
    *,
    other_data: AnyData = None,
    places: PlaceNames = None,
    other_places: PlaceNames = None,
    pool: Pool = "mean",
    batch: int = 256,
    progress: bool | None = None,
) -> Between:
    """Compare every place of a network with every place of another by CKA on the same samples.

    `data` is what a scan takes. `other_data` are the same samples in the same order as the `other` network takes them,
    for example in another size or normalisation; labels that differ raise an error. Places are chosen as for a scan.
    Neither network is changed.
    """
    check_pool(pool)
    net, other = unwrapped(net), unwrapped(other)
    if batch < 1:
        raise ValueError(f"batch must be at least 1, got {batch}")
    device, other_device = (next((p.device for p in each.parameters()), torch.device("cpu")) for each in (net, other))
    if device != other_device:
        raise ValueError(f"net is on {device}, other on {other_device}: move one of them")
    feed = Feed.of(data, "data", batch, device, net)
    own = Feed.of(other_data, "other_data", batch, device, other) if other_data is not None else None
    with unchanged(net, other, training=False, generators=generators(data, other_data)):
        readers = _reader(net, feed, places, pool), _reader(other, feed if own is None else own, other_places, pool)
        batches = tracker(progress)(feed, "scanning both networks", len(feed))
        cka = cka_of(*readers, twice(batches) if own is None else _together(batches, own))
    names = [
        f"{who} ({type(reader.net).__name__}), place {spot.place.name!r}"
        for who, reader in zip(("net", "other"), readers, strict=True)
        for spot in reader.spots
    ]
    cka.check(names)
    notes = [f"{name}: {note}" for name, note in zip(names, cka.notes(), strict=True) if note]
    rows, columns = ([spot.place for spot in reader.spots] for reader in readers)
    return Between(cka.matrix().numpy(), rows, columns, cka.n, notes)


def cka_of(reader: Reader, other: Reader, batches: Iterable[tuple[Batch, Batch]], name: str = "data") -> CKA:
    """CKA between the places of two readers, each of which reads its own batch of every pair.

    The readers alternate batch by batch, so the networks may share modules or be the same one.
    """
    count = len(reader.spots)
    cka = CKA(count, len(other.spots), name=name)
    shift = 0

    def take(first: int, block: CentredBatch, batch: Batch) -> None:
        cka.block(shift + first, block)

    for pair in batches:
        for each, batch, shift in zip((reader, other), pair, (0, count), strict=True):  # noqa: B007
            for _ in each.run(Feed([(batch.kwargs or batch.args, batch.labels)], name), take, ""):
                pass
        cka.close_batch()
    return cka


def _reader(net: nn.Module, feed: Feed, places: PlaceNames, pool: Pool) -> Reader:
    assert feed.device is not None
    spots, turned = spots_and_order(net, feed.example(), feed.device, pool, places)
    check_pool(pool, {spot.place.name: spot.shape for spot in spots})
    return Reader(net, spots, pool, by_pixel=turned)


def twice(batches: Iterable[Batch]) -> Iterator[tuple[Batch, Batch]]:
    """Each batch for both networks: a loader that shuffles would give the second network other samples."""
    return ((batch, batch) for batch in batches)


def _together(batches: Iterable[Batch], others: Iterable[Batch]) -> Iterator[tuple[Batch, Batch]]:
    """Pairs of batches whose labels agree; counted from 1 where they do not."""
    for number, (one, other) in enumerate(zip_longest(batches, others), 1):
        if one is None or other is None:
            ended = "data" if one is None else "other_data"
            raise ValueError(
                f"{ended} ends before batch {number}, which the other has: both must give the same samples"
            )
        if len(one) != len(other):
            raise ValueError(
                f"batch {number}: {len(one)} samples in data, {len(other)} in other_data: both must give the same "
                "samples in batches of one size"
            )
        differ = (one.labels != other.labels).nonzero()
        if len(differ):
            at = int(differ[0])
            raise ValueError(
                f"batch {number}, sample {at + 1}: label {int(one.labels[at])} in data, {int(other.labels[at])} in "
                "other_data: both must give the same samples in the same order; turn shuffling off"
            )
        yield one, other
