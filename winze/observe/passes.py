"""The passes of a scan: each batch goes through the network once, and every place is reduced on the spot."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from winze.measure import CKA, Moments, Probe, adam_probes, ridge
from winze.measure.centre import check_finite
from winze.observe.features import Pool, sampled
from winze.observe.feed import Batch, Feed, is_pair
from winze.observe.places import Spot
from winze.observe.record import recording
from winze.observe.shards import Crew, in_shards
from winze.shape.example import Example

EVERY = 10
"""Each tenth sample, by its position in the loader, is held out to choose the ridge penalty."""


@dataclass
class Reader:
    """A network with its places and the way features are taken there."""

    net: nn.Module
    spots: Sequence[Spot]
    pool: Pool = "mean"
    max_features: int = 8000
    track: Callable[[Iterable[Any], str, int], Iterable[Any]] = lambda batches, text, total: batches
    crew: Crew | None = None

    def run(
        self, feed: Feed, take: Callable[[int, Tensor, Batch], None], text: str, whole: bool = False
    ) -> Generator[tuple[Batch, Any], None, None]:
        """Send the feed through the network; `take` gets each place's features inside the hook."""
        now: list[Batch] = []
        read: set[int] = set()

        def hand(index: int, features: Tensor) -> None:
            spot = self.spots[position[index]]
            read.add(index)
            if len(features) != len(now[0]):
                raise ValueError(f"place {spot.place.name!r}: {len(features)} rows for {len(now[0])} samples")
            try:
                take(position[index], features if whole else sampled(features, self.max_features, index), now[0])
            except torch.OutOfMemoryError as error:
                raise MemoryError(
                    f"place {spot.place.name!r}: {features.shape[1]} features do not fit in memory; "
                    "lower batch= or max_features=, or pool more"
                ) from error

        position = {spot.place.index: i for i, spot in enumerate(self.spots)}
        with recording(self.net, self.spots, hand, self.pool):
            for batch in self.track(feed, text, len(feed)):
                now[:] = [batch]
                read.clear()
                output = self.net(*batch.args, **batch.kwargs)
                for spot in self.spots:
                    if spot.place.index not in read:
                        raise ValueError(f"{feed.name}: a batch did not reach place {spot.place.name!r}")
                yield batch, output

    def widths(self, feed: Feed) -> list[int]:
        """How many features each place has."""
        found = [0] * len(self.spots)

        def take(i: int, features: Tensor, batch: Batch) -> None:
            found[i] = features.shape[1]

        batch = next(iter(feed))
        few = Example(batch.kwargs or batch.args).with_batch(2)
        labels = torch.zeros(2, dtype=torch.long)
        for _ in self.run(
            Feed([(few.kwargs or few.args, labels)], feed.name, device=feed.device), take, "", whole=True
        ):
            break
        return found


def ridge_probes(reader: Reader, feed: Feed, classes: int, widths: Sequence[int]) -> list[Probe]:
    """One ridge probe a place from one pass."""
    return fitted(*in_shards(ridge_moments, reader, feed, classes, widths))


def ridge_moments(
    reader: Reader, feed: Feed, classes: int, widths: Sequence[int]
) -> tuple[list[Moments], list[Moments]]:
    """What ridge probes are made of: each place's moments of nine tenths, and of the tenth that chooses the penalty."""
    names = [spot.place.name for spot in reader.spots]
    kept = [Moments(w, classes, f"place {n!r}") for w, n in zip(widths, names, strict=True)]
    held = [Moments(w, classes, f"place {n!r}") for w, n in zip(widths, names, strict=True)]
    splits: dict[int, tuple[Tensor, Tensor, Tensor, Tensor]] = {}

    def take(i: int, features: Tensor, batch: Batch) -> None:
        if batch.offset not in splits:
            splits.clear()
            splits[batch.offset] = _split(batch, features.device)
        inside, outside, labels_in, labels_out = splits[batch.offset]
        kept[i].update(features[inside], labels_in)
        if len(outside):
            held[i].update(features[outside], labels_out)

    for _ in reader.run(feed, take, f"{feed.name}: probes"):
        pass
    return kept, held


def fitted(kept: Sequence[Moments], held: Sequence[Moments]) -> list[Probe]:
    """One ridge probe a place; with no sample held out, at a fixed penalty."""
    single = held[0].n == 0
    return [ridge(k, None, penalties=(1e-3,)) if single else ridge(k, h) for k, h in zip(kept, held, strict=True)]


def _split(batch: Batch, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    position = (batch.offset + torch.arange(len(batch))) % EVERY
    inside, outside = (position != EVERY - 1).nonzero().flatten(), (position == EVERY - 1).nonzero().flatten()
    return inside.to(device), outside.to(device), batch.labels[inside], batch.labels[outside]


def trained_probes(reader: Reader, feed: Feed, classes: int, memory: int, seed: int = 0) -> list[Probe]:
    """The thesis's protocol: Adam 1e-3, no decay, 30 epochs of batches of 512, all places at once.

    Features are kept where they fit in `memory` bytes; else the network runs anew each epoch.
    """
    widths = reader.widths(feed)
    samples = sum(len(batch) for batch in feed)
    if sum(widths) * samples * 4 > memory:
        return _streamed(reader, feed, classes, widths, seed)
    rows, labels = in_shards(features_of, reader, feed)
    return adam_probes(rows, labels, classes, seed=seed)


def features_of(reader: Reader, feed: Feed) -> tuple[list[Tensor], Tensor]:
    """All features of each place, one row a sample, and the labels."""
    rows: list[list[Tensor]] = [[] for _ in reader.spots]
    labels: list[Tensor] = []

    def take(i: int, features: Tensor, batch: Batch) -> None:
        check_finite(features, f"place {reader.spots[i].place.name!r}")
        rows[i].append(features.float())

    for batch, _ in reader.run(feed, take, f"{feed.name}: features", whole=True):
        labels.append(batch.labels)
    return [torch.cat(r) for r in rows], torch.cat(labels)


def _streamed(reader: Reader, feed: Feed, classes: int, widths: Sequence[int], seed: int) -> list[Probe]:
    device = feed.device or torch.device("cpu")
    weights: list[Tensor] = []
    for width in widths:
        start = torch.Generator().manual_seed(seed)  # for each place anew, as in `adam_probes`
        for shape in ((classes, width), (classes,)):
            value = torch.empty(shape).uniform_(-(width**-0.5), width**-0.5, generator=start)
            weights.append(value.to(device).requires_grad_())
    optimizer = torch.optim.Adam(weights, lr=1e-3)
    losses: list[Tensor] = []

    def take(i: int, features: Tensor, batch: Batch) -> None:
        check_finite(features, f"place {reader.spots[i].place.name!r}")
        with torch.enable_grad():
            scores = F.linear(features.detach().float(), *weights[2 * i : 2 * i + 2])
            losses.append(F.cross_entropy(scores, batch.labels.to(device)))

    order = torch.Generator().manual_seed(seed)
    for epoch in range(30):
        for _ in reader.run(_shuffled(feed, order), take, f"{feed.name}: probes, epoch {epoch + 1}", whole=True):
            optimizer.zero_grad()
            with torch.enable_grad():
                torch.autograd.backward(losses)
            losses.clear()
            optimizer.step()
    detached = [w.detach() for w in weights]
    return [Probe(w, b) for w, b in zip(detached[::2], detached[1::2], strict=True)]


def _shuffled(feed: Feed, order: torch.Generator) -> Feed:
    """A pair of tensors in a new order, by 512; a loader as it comes."""
    if not (is_pair(feed.data) and isinstance(feed.data[0], Tensor)):
        return feed
    index = torch.randperm(len(feed.data[1]), generator=order)
    shuffled = tuple(part[index.to(part.device)] for part in feed.data)
    return Feed(shuffled, feed.name, 512, feed.device, feed.kept)


@dataclass
class Gathered:
    """What one pass over the test split gave."""

    moments: list[Moments]
    cka: CKA | None
    correct: list[Tensor]
    network: Tensor | None
    logits: int
    kept: list[Tensor]
    labels: Tensor


def read_test(
    reader: Reader,
    feed: Feed,
    classes: int,
    widths: Sequence[int],
    probes: Sequence[Probe] | None,
    cka: CKA | None = None,
    moments: bool = True,
    keep: int = 0,
) -> Gathered:
    """Moments, CKA, each probe's and the network's own correctness, and the first `keep` samples' features."""
    names = [spot.place.name for spot in reader.spots]
    gathered = [Moments(w, classes, f"place {n!r}") for w, n in zip(widths, names, strict=True)] if moments else []
    correct: list[list[Tensor]] = [[] for _ in reader.spots]
    rows: list[list[Tensor]] = [[] for _ in reader.spots]
    whole = bool(probes) and any(p.weight.shape[1] > reader.max_features for p in probes or ())

    def take(i: int, features: Tensor, batch: Batch) -> None:
        index = reader.spots[i].place.index
        small = sampled(features, reader.max_features, index) if whole else features
        if moments:
            gathered[i].update(small, batch.labels)
        if cka is not None:
            cka.place(i, small)
        if probes is not None:
            if not moments:  # which would say so
                check_finite(features, f"place {names[i]!r}")
            correct[i].append(probes[i].correct(features, batch.labels).cpu())
        if batch.offset < keep:
            rows[i].append(small[: keep - batch.offset].float().cpu())

    own: list[Tensor] = []
    labels: list[Tensor] = []
    outputs = 0
    for batch, output in reader.run(feed, take, f"{feed.name}: reading", whole=whole):
        labels.append(batch.labels)
        if cka is not None:
            cka.close_batch()
        logits = output if isinstance(output, Tensor) else getattr(output, "logits", None)
        if isinstance(logits, Tensor) and logits.ndim == 2 and len(logits) == len(batch):
            outputs = logits.shape[1]
            own.append(logits.argmax(1).cpu() == batch.labels)
    return Gathered(
        gathered,
        cka,
        [torch.cat(c) for c in correct if c],
        torch.cat(own) if own else None,
        outputs,
        [torch.cat(r) for r in rows if r],
        torch.cat(labels),
    )
