"""What CKA and probes make of a batch: block by block as its features come, or all at once within a recording."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from winze.measure import CKA, Block, Classes, Probe, answers_at_once
from winze.measure.gram import LEAST, WIDE
from winze.measure.pairs import Share
from winze.observe.feed import Batch
from winze.observe.reader import Blocks


class Answered(NamedTuple):
    """What the probes of one block say, from the first place on, and how many samples were no numbers."""

    first: int
    answers: Int64[Tensor, "place sample"]
    broken: Float64[Tensor, " place"]


class Reduced(NamedTuple):
    """What a recording gives of a batch: CKA's share, where it can, and what probes say."""

    share: Share | None
    answered: list[Answered]


class Reduction:
    """Feeds CKA, and tells for each sample and place whether the probe is right.

    `few` leaves those features that enter CKA, `widths` of them; probes read all. With `names`, NaN features raise.
    """

    def __init__(
        self,
        cka: CKA | None,
        probes: Sequence[Probe] | None,
        widths: Sequence[int],
        few: Callable[[int, Block], Block],
        names: Sequence[str] | None,
    ) -> None:
        self.cka, self.probes, self.widths, self.few, self.names = cka, probes, widths, few, names
        self.correct: list[Bool[Tensor, "place sample"]] = []
        self._answered: list[Answered] = []

    def take(self, first: int, block: Block, few: Block, batch: Batch) -> None:
        """Reduce a block of a batch and its `few` features, unless a recording has."""
        if self.cka is not None and not (batch.recorded and self._shares(few.n) and self.cka.is_between_batches):
            self.cka.block(first, few)
        if self.probes is not None and not batch.recorded:
            self._answered.append(self._ask(first, block, self.probes))

    def recorded(self, blocks: Blocks) -> Reduced:
        """Reduce all blocks of a batch, by the same operations for each batch, and keep nothing."""
        share, probes = None, self.probes
        if self.cka is not None and self._shares(blocks[0][1].n):
            share = self.cka.share([(first, self.few(first, block)) for first, block in blocks])
        return Reduced(share, [self._ask(first, block, probes) for first, block in blocks] if probes else [])

    def close(self, batch: Batch, reduced: Reduced | None, marks: Callable[[Batch, torch.device], Classes]) -> None:
        """Count the batch, once all of it has been reduced."""
        if reduced is not None:
            self._answered += reduced.answered
        if self.cka is not None and reduced is not None and reduced.share and self.cka.is_between_batches:
            self.cka.add(reduced.share, len(batch))
        elif self.cka is not None:
            self.cka.close_batch()
        if self._answered:
            answers = _together(self._answered, self.names)
            self.correct.append(answers == marks(batch, answers.device).labels)
            self._answered.clear()

    def _shares(self, samples: int) -> bool:
        """Whether CKA's share can be recorded: a GPU would wait for wide features, and few samples wait for others."""
        return samples >= LEAST and max(self.widths) < WIDE

    def _ask(self, first: int, block: Block, probes: Sequence[Probe]) -> Answered:
        return Answered(first, answers_at_once(probes[first : first + len(block)], block), block.broken)


def _together(parts: list[Answered], names: Sequence[str] | None) -> Int64[Tensor, "place sample"]:
    """All blocks of a batch in the order of places; where names are given, NaN features raise."""
    home = parts[0].answers.device
    parts = sorted(parts, key=lambda part: part.first)
    answers = torch.cat([part.answers.to(home) for part in parts])
    if names is not None:
        counts = torch.cat([part.broken.to(home) for part in parts]).tolist()
        for name, broken in zip(names, counts, strict=True):
            if broken:
                raise ValueError(f"{name}: {int(broken)} of {answers.shape[1]} samples hold NaN or inf")
    return answers
