"""The pass over test data: each batch goes through the network once, and every place is reduced on the spot."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Int64
from torch import Tensor

from winze.measure import CKA, CentredBatch, Classes, ClassMeans, Moments, Probe, nearest_mean
from winze.measure.streaming.moments_table import MomentsTable
from winze.observe.passes.feed import Batch, Feed
from winze.observe.passes.last_layer import OutputLayer, Seen
from winze.observe.passes.reader import OnceABatch, Reader
from winze.observe.passes.reduction import Reduction
from winze.observe.places.pooling import sampled

NONE = -1


@dataclass
class Gathered:
    """The result of one pass over the test split. `choice` is the class predicted by the network's own output, NONE
    where that holds NaN. `means` are the class means of the input of the network's last layer, `layer`. `strays[i]`:
    that layer and the nearest class mean of the train data disagree on sample i.
    """

    moments: list[Moments]
    cka: CKA | None
    correct: list[Tensor]
    choice: Tensor | None
    logits: int
    kept: list[Tensor]
    labels: Tensor
    layer: str | None = None
    means: ClassMeans | None = None
    strays: Tensor | None = None

    def relabelled(self) -> float:
        """The accuracy if each predicted class stood for the label most frequent among its samples. That label is found
        on one half of the samples and evaluated on the other, so that random predictions score no better than chance.
        """
        assert self.choice is not None
        choice, right = self.choice.clamp(min=0), 0
        size = int(self.labels.max()) + 1, int(choice.max()) + 1
        order = self.labels.argsort(stable=True)  # halves of each class: labels may come in turn, 0 1 2 0 1 2
        for told, asked in ((order[::2], order[1::2]), (order[1::2], order[::2])):
            seen = torch.bincount(self.labels[told] * size[1] + choice[told], minlength=size[0] * size[1])
            right += int((seen.view(size).argmax(0)[choice[asked]] == self.labels[asked]).sum())
        return right / len(self.labels)


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

    With `collapse`, also those of the last layer's input; `centres` are its class means in the train data.
    """
    names = reader.names(feed)
    table = MomentsTable(widths, classes, names) if moments else None
    marks = OnceABatch(lambda batch, device: Classes.of(batch.labels, len(batch), classes, feed.name, device))
    whole = bool(probes) and any(p.weight.shape[1] > reader.max_features for p in probes or ())
    rows: list[list[Tensor]] = [[] for _ in reader.spots]

    def thin(first: int, block: CentredBatch) -> CentredBatch:
        if not whole or block.width <= reader.max_features:
            return block
        places = [spot.place.index for spot in reader.spots[first : first + len(block)]]
        features = zip(block.features, places, strict=True)
        return CentredBatch(torch.stack([sampled(each, reader.max_features, index) for each, index in features]))

    def take(first: int, block: CentredBatch, batch: Batch) -> None:
        some = thin(first, block)
        if table is not None:
            table.add(first, some, marks(batch, block.device))
        reduction.take(first, block, some, batch)
        if batch.offset < keep:
            kept = some.features[:, : keep - batch.offset].to("cpu", torch.float32, copy=True)
            for i, each in enumerate(kept, first):
                rows[i].append(each)

    def see(output: Any, samples: int) -> End:
        seen = last.see(output, samples)
        choice = None if seen.logits is None else seen.logits.argmax(1).masked_fill_(seen.logits.isnan().any(1), NONE)
        if seen.features is None or centres is None:
            return End(seen, choice)
        return End(seen, choice, nearest_mean(seen.features, centres))

    reduction = Reduction(cka, probes, widths, thin, None if moments else names)  # moments check for NaN themselves
    decided: list[Tensor] = []  # NONE where the output is NaN
    strays: list[Tensor] = []
    labels: list[Tensor] = []
    outputs = 0
    last = OutputLayer(reader.net, classes)
    with last.watching() if collapse else nullcontext():
        for batch, end, reduced in reader.run(
            feed, take, f"{feed.name}: reading", whole=whole, see=see, reduce=reduction.reduce
        ):
            labels.append(batch.labels)
            reduction.close(batch, reduced, marks)
            last.add(batch, end.seen)
            if end.choice is not None:
                outputs = end.seen.logits.shape[1]
                decided.append(end.choice.clone())
            if end.nearest is not None:
                strays.append(end.choice != end.nearest)
    answers = torch.cat(labels)
    return Gathered(
        table.moments() if table is not None else [],
        cka,
        reduction.correct(),
        torch.cat(decided).cpu() if decided else None,
        outputs,
        [torch.cat(r) for r in rows if r],
        answers,
        last.name,
        last.means,
        torch.cat(strays).cpu() if strays else None,
    )


class End(NamedTuple):
    """The end of the network for a batch, the predicted class, and the class with the nearest mean."""

    seen: Seen
    choice: Int64[Tensor, " sample"] | None
    nearest: Int64[Tensor, " sample"] | None = None
