"""The moments of many places, which take in a batch together."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import groupby

import torch
from torch import Tensor

from winze.measure.features import detached
from winze.measure.streaming import moments as one
from winze.measure.streaming.block import CentredBatch, Classes
from winze.measure.streaming.moments import Moments
from winze.measure.streaming.sums import Sums

GATHERED = 1024
"""Samples that a GPU gathers before moments take them in, if that is two batches or more,"""
ROOM = 3 << 18
"""and at most so many features of places that come together: 3 MB in float32. Of the first samples, more wait."""
DEVICES = ("cuda",)
"""Where they are gathered."""


class MomentsTable:
    """The moments of places in a row, of the given widths; those of one width beside each other share their tensors.

    On a GPU, where the number of operations is the cost, small batches are gathered and taken in together.
    """

    def __init__(self, widths: Sequence[int], classes: int | None, names: Sequence[str]) -> None:
        self._places = [Moments(width, classes, name) for width, name in zip(widths, names, strict=True)]
        self.classes = classes
        runs = [list(run) for _, run in groupby(range(len(widths)), lambda i: widths[i])]
        self._run = [(run[0], run[-1] + 1) for run in runs for _ in run]
        self._sums: dict[int, Sums] = {}  # by the run's first place, once there is a batch
        self._gathered: dict[int, _Gathered] = {}  # by the first place of those that come together

    @detached
    def add(self, first: int, block: CentredBatch, classes: Classes | None) -> None:
        """Add a batch at the places from `first` on, as many as the block has."""
        gathered = self._gathered.get(first)
        if gathered is None or not gathered.takes(block):
            self._take_in(first, first + len(block))
            gathered = _Gathered.of(block, before=self._run[first][0] in self._sums)
            if gathered is None:
                self._add(first, block, classes)
                return
            self._gathered[first] = gathered
        gathered.add(block, classes)

    def _take_in(self, start: int, end: int) -> None:
        """Take in what is gathered of these places."""
        for first, gathered in list(self._gathered.items()):
            if first < end and start < first + len(gathered.like):
                del self._gathered[first]
                for block, classes in gathered.taken():
                    self._add(first, block, classes)

    def _add(self, first: int, block: CentredBatch, classes: Classes | None) -> None:
        start, end = self._run[first]
        places = self._places[first : first + len(block)]
        if first + len(block) > end or block.width != places[0].features:
            raise ValueError(f"{places[0].name}: expected {places[0].features} features, got {block.width}")
        if start not in self._sums:
            self._sums[start] = Sums.zeros(end - start, block.width, self.classes or 0, block.device)
            for i, place in enumerate(self._places[start:end]):
                place.sums = self._sums[start].part(i, i + 1)
        block = block.to(self._sums[start].mean.device)
        marks = None if classes is None else classes.to(block.device)
        sums = self._sums[start].part(first - start, first - start + len(block))
        sums.n = places[0].n
        size = max(1, one.ELEMENTS // (len(block) * max(block.width, self.classes or 0)))
        for at in range(0, block.n, size):
            piece = block.part(at, min(at + size, block.n))
            sums.add(piece, None if marks is None else marks.part(at, at + piece.n))
        for place in places:
            place.sums.n, place.sums.relative = sums.n, max(place.sums.relative, sums.relative)

    def moments(self) -> list[Moments]:
        """Give the moments of each place; the table takes no more batches."""
        self._take_in(0, len(self._places))
        return self._places


class _Gathered:
    """Batches of the same places, one after the other, at most so many samples."""

    def __init__(self, block: CentredBatch, most: int) -> None:
        self.like, self.most, self.n = block.features.new_empty(len(block), 0, block.width), most, 0
        self.batches: deque[tuple[Tensor, Classes | None]] = deque()

    @classmethod
    def of(cls, block: CentredBatch, before: bool) -> _Gathered | None:
        """Make room for batches like this one; None where it is not on a GPU, or large. `before`: others were taken in.

        The first samples wait for as long as they take less memory than a scatter in float64: where they are few, as
        those that are held out, there is none during the forwards.
        """
        most = min(GATHERED, ROOM // (len(block) * block.width))
        if not before:
            most = max(most, 8 * block.width // block.features.element_size())
        return None if block.device.type not in DEVICES or most < 2 * block.n else cls(block, most)

    def takes(self, block: CentredBatch) -> bool:
        """Whether a batch is of these places and finds room."""
        held, rows = self.like, block.features
        alike = (len(held), held.shape[2], held.dtype, held.device) == (len(rows), block.width, rows.dtype, rows.device)
        return alike and self.n + block.n <= self.most

    def add(self, block: CentredBatch, classes: Classes | None) -> None:
        """Put a batch behind the others."""
        self.batches.append((block.features.clone(), classes))  # the next batch may overwrite it
        self.n += block.n

    def taken(self) -> Iterator[tuple[CentredBatch, Classes | None]]:
        """Give them back, several batches as one."""
        while self.batches:
            parts = [self.batches.popleft()]
            n = parts[0][0].shape[1]
            while self.batches and n + self.batches[0][0].shape[1] <= GATHERED:
                parts.append(self.batches.popleft())
                n += parts[-1][0].shape[1]
            marks = [classes for _, classes in parts if classes is not None]
            yield CentredBatch(torch.cat([rows for rows, _ in parts], 1)), Classes.joined(marks) if marks else None
