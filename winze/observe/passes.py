"""The pass over test data: each batch goes through the network once, and every place is reduced on the spot."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from winze.measure import CKA, Block, Classes, ClassMeans, Moments, MomentsTable, Probe, correct_at_once, nearest_mean
from winze.observe.classifier import Classifier
from winze.observe.features import sampled
from winze.observe.feed import Batch, Feed
from winze.observe.reader import OnceABatch, Reader


@dataclass
class Gathered:
    """What one pass over the test split gave.

    `means` are the class means of what goes into the network's last layer, `layer`, and `strays` tells of each sample
    whether that layer takes it for another class than the nearest mean of the train data does.
    """

    moments: list[Moments]
    cka: CKA | None
    correct: list[Tensor]
    network: Tensor | None
    logits: int
    kept: list[Tensor]
    labels: Tensor
    layer: str | None = None
    means: ClassMeans | None = None
    strays: Tensor | None = None


def read_test(
    reader: Reader,
    feed: Feed,
    classes: int,
    widths: Sequence[int],
    probes: Sequence[Probe] | None,
    cka: CKA | None = None,
    moments: bool = True,
    keep: int = 0,
    collapse: bool = False,
    centres: ClassMeans | None = None,
) -> Gathered:
    """Moments, CKA, each probe's and the network's own correctness, and the first `keep` samples' features.

    With `collapse`, also what the network's last layer sees; `centres` are its class means in the train data.
    """
    names = [f"place {spot.place.name!r}" for spot in reader.spots]
    table = MomentsTable(widths, classes, names) if moments else None
    marks = OnceABatch(lambda batch, device: Classes.of(batch.labels, len(batch), classes, feed.name, device))
    whole = bool(probes) and any(p.weight.shape[1] > reader.max_features for p in probes or ())
    judged: list[Judged] = []
    rows: list[list[Tensor]] = [[] for _ in reader.spots]

    def take(first: int, block: Block, batch: Batch) -> None:
        if whole and block.width > reader.max_features:
            places = [reader.spots[i].place.index for i in range(first, first + len(block))]
            features = zip(block.features, places, strict=True)
            small = Block(torch.stack([sampled(rows, reader.max_features, index) for rows, index in features]))
        else:
            small = block
        if table is not None:
            table.add(first, small, marks(batch, block.device))
        if cka is not None:
            cka.block(first, small)
        if probes is not None:
            labels = marks(batch, block.device).labels
            right = correct_at_once(probes[first : first + len(block)], block, labels)
            judged.append(Judged(first, right, block.broken))
        if batch.offset < keep:
            for i, kept in enumerate(small.features[:, : keep - batch.offset].float().cpu(), first):
                rows[i].append(kept)

    correct: list[Tensor] = []
    decided: list[Tensor] = []
    strays: list[Tensor] = []
    labels: list[Tensor] = []
    outputs = 0
    last = Classifier(reader.net, classes)
    with last.watching() if collapse else nullcontext():
        for batch, seen in reader.run(feed, take, f"{feed.name}: reading", whole=whole, see=last.see):
            labels.append(batch.labels)
            if cka is not None:
                cka.close_batch()
            if judged:
                correct.append(_together(judged, None if moments else names))  # moments tell of NaN themselves
                judged.clear()
            if seen.logits is not None:
                outputs = seen.logits.shape[1]
                decided.append(seen.logits.argmax(1))
            last.add(batch, seen)
            if seen.features is not None and centres is not None:
                strays.append(decided[-1] != nearest_mean(seen.features, centres))
    answers = torch.cat(labels)
    return Gathered(
        table.moments() if table is not None else [],
        cka,
        list(torch.cat(correct, 1).cpu()) if correct else [],
        torch.cat(decided).cpu() == answers if decided else None,
        outputs,
        [torch.cat(r) for r in rows if r],
        answers,
        last.name,
        last.means,
        torch.cat(strays).cpu() if strays else None,
    )


class Judged(NamedTuple):
    """What the probes of one block got right, from the first place on, and how many samples were no numbers."""

    first: int
    correct: Bool[Tensor, "place sample"]
    broken: Float64[Tensor, " place"]


def _together(judged: list[Judged], names: Sequence[str] | None) -> Bool[Tensor, "place sample"]:
    """All blocks of a batch in the order of places; where names are given, NaN features raise."""
    home = judged[0].correct.device
    parts = sorted(judged, key=lambda part: part.first)
    correct = torch.cat([part.correct.to(home) for part in parts])
    if names is not None:
        counts = torch.cat([part.broken.to(home) for part in parts]).tolist()
        for name, broken in zip(names, counts, strict=True):
            if broken:
                raise ValueError(f"{name}: {int(broken)} of {correct.shape[1]} samples hold NaN or inf")
    return correct
