"""Probes at every place: ridge from one pass, or trained by the thesis's protocol."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from winze.measure import CentredBatch, Classes, ClassMeans, Moments, Probe, Ridge, adam_probes, ridges
from winze.measure.features import check_finite, sent
from winze.measure.probes.probe import EPOCHS
from winze.measure.streaming.moments_table import MomentsTable
from winze.observe.passes.feed import Batch, Feed, is_pair
from winze.observe.passes.last_layer import OutputLayer
from winze.observe.passes.reader import OnceABatch, Reader
from winze.observe.passes.shards import in_shards

EVERY = 10
"""Every tenth sample, by its position in the loader, is held out to choose the ridge penalty."""


def ridge_moments(
    reader: Reader, feed: Feed, classes: int, widths: Sequence[int], centres: bool = False
) -> tuple[list[Moments], list[Moments], ClassMeans | None]:
    """The moments that ridge probes need: per place, those of nine tenths, and of the tenth that chooses the penalty.
    With `centres`, also the class means of the input of the network's last layer.
    """
    names = reader.names(feed)
    kept, held = MomentsTable(widths, classes, names), MomentsTable(widths, classes, names)
    split = OnceABatch(lambda batch, device: _split(batch, classes, feed.name, device))

    def take(first: int, block: CentredBatch, batch: Batch) -> None:
        for table, (rows, labels) in zip((kept, held), split(batch, block.device), strict=True):
            if len(rows):
                table.add(first, CentredBatch(block.features.index_select(1, rows)), labels)

    last = OutputLayer(reader.net, classes)
    with last.watching() if centres else nullcontext():
        for batch, seen, _ in reader.run(feed, take, f"{feed.name}: probes", see=last.see):
            last.add(batch, seen)
    return kept.moments(), held.moments(), last.means


def class_centres(reader: Reader, feed: Feed, classes: int) -> ClassMeans | None:
    """The class means of the input of the network's last layer, if that is linear with one output per class."""
    return ridge_moments(replace(reader, spots=[]), feed, classes, [], centres=True)[2]


def fitted(kept: Sequence[Moments], held: Sequence[Moments]) -> list[Ridge]:
    """One ridge probe per place; with no sample held out, at a fixed penalty."""
    return ridges(kept, None, penalties=(1e-3,)) if held[0].n == 0 else ridges(kept, held)


def _split(batch: Batch, classes: int, name: str, device: torch.device) -> list[tuple[Tensor, Classes]]:
    """The samples that fit the probe, and those that choose its penalty: indices and labels."""
    out = (batch.offset + torch.arange(len(batch))) % EVERY == EVERY - 1
    parts = [(~out).nonzero().flatten(), out.nonzero().flatten()]
    return [(sent(rows, device), Classes.of(batch.labels[rows], len(rows), classes, name, device)) for rows in parts]


def trained_probes(reader: Reader, feed: Feed, classes: int, memory: int, seed: int = 0) -> list[Probe]:
    """The thesis's protocol: Adam 1e-3, no decay, 30 epochs of batches of 512, all places at once.

    Features are kept where they fit in `memory` bytes; else the network runs anew each epoch.
    """
    widths = reader.widths(feed)
    samples = sum(len(batch) for batch in feed)
    if sum(widths) * samples * 4 > memory:
        return _streamed(reader, feed, classes, widths, seed)
    rows, labels = in_shards(features_of, reader, feed)
    for features, name in zip(rows, reader.names(feed), strict=True):
        check_finite(features, name)
    return adam_probes(rows, labels, classes, seed=seed)


def features_of(reader: Reader, feed: Feed) -> tuple[list[Tensor], Tensor]:
    """All features of each place, one row per sample, and the labels."""
    rows: list[list[Tensor]] = [[] for _ in reader.spots]
    labels: list[Tensor] = []

    def take(first: int, block: CentredBatch, batch: Batch) -> None:
        for i, features in enumerate(block.features, first):
            rows[i].append(features.to(torch.float32, copy=True))  # the next batch may overwrite it

    for batch, *_ in reader.run(feed, take, f"{feed.name}: features", whole=True):
        labels.append(batch.labels)
    return [torch.cat(r) for r in rows], torch.cat(labels)


def _streamed(reader: Reader, feed: Feed, classes: int, widths: Sequence[int], seed: int) -> list[Probe]:
    device = feed.device or torch.device("cpu")
    weights: list[Tensor] = []
    for width in widths:
        start = torch.Generator().manual_seed(seed)  # again for each place, as in `adam_probes`
        for shape in ((classes, width), (classes,)):
            value = torch.empty(shape).uniform_(-(width**-0.5), width**-0.5, generator=start)
            weights.append(value.to(device).requires_grad_())
    optimizer = torch.optim.Adam(weights, lr=1e-3)
    losses: list[Tensor] = []
    names = reader.names(feed)

    def take(first: int, block: CentredBatch, batch: Batch) -> None:
        for i, features in enumerate(block.features, first):
            check_finite(features, f"{names[i]}, one batch")
            with torch.enable_grad():
                scores = F.linear(features.float(), *weights[2 * i : 2 * i + 2])
                losses.append(F.cross_entropy(scores, batch.labels.to(device)))

    order = torch.Generator().manual_seed(seed)
    for epoch in range(EPOCHS):
        for _ in reader.run(_shuffled(feed, order), take, f"{feed.name}: probes, epoch {epoch + 1}", whole=True):
            optimizer.zero_grad()
            with torch.enable_grad():
                torch.autograd.backward(losses)
            losses.clear()
            optimizer.step()
    detached = [w.detach() for w in weights]
    return [Probe(w, b) for w, b in zip(detached[::2], detached[1::2], strict=True)]


def _shuffled(feed: Feed, order: torch.Generator) -> Feed:
    """A pair of tensors shuffled into batches of 512; a loader in its own order."""
    if not (is_pair(feed.data) and isinstance(feed.data[0], Tensor)):
        return feed
    index = torch.randperm(len(feed.data[1]), generator=order)
    shuffled = tuple(part[index.to(part.device)] for part in feed.data)
    return Feed(shuffled, feed.name, 512, feed.device, feed.kept)
