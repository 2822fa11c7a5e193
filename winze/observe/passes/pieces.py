"""Split data into consecutive pieces at batch boundaries."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, SequentialSampler, Subset

from winze.data import Batches
from winze.measure.streaming.gram import LEAST
from winze.observe.passes.feed import Feed, is_pair
from winze.observe.passes.inputs import AnyData, batches_of, split


@dataclass(frozen=True)
class SampleRange:
    """Data with random access: number of samples, batch sizes, labels, and the part from one sample to another."""

    samples: int
    batch: int
    labels: Callable[[], Tensor]
    part: Callable[[int, int], AnyData]


def cut(feed: Feed, pieces: int) -> list[Feed]:
    """A feed as at most `count` feeds, each of whole batches and with the number of samples before it. Batches with
    fewer than the four samples that CKA needs stay together, as in one pass.
    """
    row = _row(feed)
    unit = row.batch * math.ceil(LEAST / row.batch)
    units = math.ceil(row.samples / unit)
    ends = [min(row.samples, unit * (i * units // pieces)) for i in range(pieces + 1)]
    inside = None if feed.kept is None else torch.isin(row.labels(), feed.kept).cumsum(0)
    offset = int(getattr(feed.data, "offset", 0)) if feed.offset is None else feed.offset

    def counted(end: int) -> int:
        """Samples of the classes in use, among the first ones."""
        return end if inside is None or not end else int(inside[end - 1])

    return [
        replace(feed, data=row.part(start, end), offset=offset + counted(start), notes=[], samples=0, size=0)
        for start, end in pairwise(ends)
        if counted(end) > counted(start)
    ]


def _row(feed: Feed) -> SampleRange:
    data = feed.data
    if is_pair(data):
        return SampleRange(len(data[1]), feed.batch, lambda: data[1].cpu(), lambda start, end: _slice(data, start, end))
    if isinstance(data, Batches):
        return _row_of_batches(data)
    if isinstance(data, DataLoader) and isinstance(data.sampler, SequentialSampler) and data.batch_size:
        return _row_of_loader(data, feed.name)
    if isinstance(data, list | tuple) and len({len(split(each, feed.name)[1]) for each in data[:-1]}) <= 1:
        return _row_of_list(list(data), feed.name)
    raise ValueError(
        f"{feed.name}: cannot be cut into shards; pass a pair of tensors, winze.data.Batches, a list of batches of "
        "one size, or a DataLoader that does not shuffle"
    )


def _row_of_batches(data: Batches) -> SampleRange:
    first = data.offset

    def part(start: int, end: int) -> Batches:
        images, labels = _slice((data.images, data.labels), first + start, first + end)
        return replace(data, images=images, labels=labels, limit=None, shard=(0, 1))

    return SampleRange(data.samples, data.size, lambda: data.labels[first : first + data.samples].cpu(), part)


def _row_of_loader(data: DataLoader[Any], name: str) -> SampleRange:
    size = data.batch_size or 1
    samples = len(data) * size if data.drop_last else len(data.dataset)  # type: ignore[arg-type]

    def part(start: int, end: int) -> DataLoader[Any]:
        rows = Subset(data.dataset, range(start, end))
        return DataLoader(rows, size, num_workers=data.num_workers, collate_fn=data.collate_fn)

    return SampleRange(samples, size, lambda: _labels(data, name), part)


def _row_of_list(data: list[Any], name: str) -> SampleRange:
    counts = [len(split(each, name)[1]) for each in data]
    size = max([1, *counts[:1]])
    return SampleRange(
        sum(counts),
        size,
        lambda: _labels(data, name),
        lambda start, end: data[start // size : math.ceil(end / size)],
    )


def _labels(batches: Any, name: str) -> Tensor:
    return torch.cat([torch.as_tensor(y).cpu() for _, y in batches_of(batches, name)])


def _slice(tree: Any, start: int, end: int) -> Any:
    """The samples from one to another, copied: a view would be sent to a worker with its whole storage."""

    def rows(leaf: Any) -> Any:
        return leaf[start:end].clone() if isinstance(leaf, Tensor) and leaf.ndim else leaf

    return torch.utils._pytree.tree_map(rows, tree)
