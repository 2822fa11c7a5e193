"""The moments of many places, which take in a batch together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from winze.measure import moments as one
from winze.measure.block import Block, Classes
from winze.measure.centre import detached
from winze.measure.moments import Moments
from winze.measure.sums import Sums


class MomentsTable:
    """The moments of places in a row, of the given widths; those of one width beside each other share their tensors."""

    def __init__(self, widths: Sequence[int], classes: int | None, names: Sequence[str]) -> None:
        self._places = [Moments(width, classes, name) for width, name in zip(widths, names, strict=True)]
        self.classes = classes
        runs = [list(run) for _, run in groupby(range(len(widths)), lambda i: widths[i])]
        self._run = [(run[0], run[-1] + 1) for run in runs for _ in run]
        self._sums: dict[int, Sums] = {}  # by the run's first place, once there is a batch

    @detached
    def add(self, first: int, block: Block, classes: Classes | None) -> None:
        """Add a batch at the places from `first` on, as many as the block has."""
        start, end = self._run[first]
        places = self._places[first : first + len(block)]
        if first + len(block) > end or block.width != places[0].features:
            raise ValueError(f"{places[0].name}: want {places[0].features} features, got {block.width}")
        if start not in self._sums:
            self._sums[start] = Sums.zeros(end - start, block.width, self.classes or 0, block.device)
            for i, place in enumerate(self._places[start:end]):
                place._hold(self._sums[start].part(i, i + 1))
        block = block.to(self._sums[start].mean.device)
        marks = None if classes is None else classes.to(block.device)
        sums = self._sums[start].part(first - start, first - start + len(block))
        size = max(1, one.ELEMENTS // (len(block) * max(block.width, self.classes or 0)))
        for at in range(0, block.n, size):
            piece = block.part(at, min(at + size, block.n))
            sums.add(places[0].n, piece, None if marks is None else marks.part(at, at + piece.n))
            for place in places:
                place.n += piece.n
        for place in places:
            place.relative = max(place.relative, block.rounding)

    def moments(self) -> list[Moments]:
        """Give the moments of each place; the table is not to be fed any more."""
        return self._places
