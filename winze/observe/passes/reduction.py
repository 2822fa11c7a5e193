"""Reduce a batch for CKA and probes: block by block as features come, or all at once in a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from winze.measure import CKA, CentredBatch, Classes, Probe, answers_at_once
from winze.measure.streaming.gram import LEAST, WIDE
from winze.measure.streaming.pairs import Share
from winze.observe.passes.feed import Batch
from winze.observe.passes.reader import Blocks


class Answered(NamedTuple):
    """The predictions of the probes of one block, from the first place on, and the number of NaN samples."""

    first: int
    answers: Int64[Tensor, "place sample"]
    broken: Float64[Tensor, " place"]


class Reduced(NamedTuple):
    """The reduction of a whole batch: its share of CKA, where possible, and the probes' predictions."""

    share: Share | None
    answered: list[Answered]


class Reduction:
    """Accumulates CKA, and the correctness of each place's probe per sample.

    `thin(first, block)` leaves those features that enter CKA, `widths` of them; probes read all. With `names`, NaN
    features raise at the end.
    """

    def __init__(
        self,
        cka: CKA | None,
        probes: Sequence[Probe] | None,
        widths: Sequence[int],
        thin: Callable[[int, CentredBatch], CentredBatch],
        names: Sequence[str] | None,
    ) -> None:
        self.cka, self.probes, self.widths, self.thin, self.names = cka, probes, widths, thin, names
        self._correct: list[Bool[Tensor, "place sample"]] = []
        self._broken: list[Float64[Tensor, " place"]] = []
        self._answered: list[Answered] = []
        self._tail: dict[int, Tensor] = {}

    def reduce(self, blocks: Blocks, samples: int) -> Reduced:
        """Reduce all blocks of a batch, by the same operations for each batch, and keep nothing."""
        answered: list[Answered] = []
        share = None
        if self.cka is not None and self._shares(samples):
            share = self.cka.share((first, self.thin(first, block)) for first, block in self._asked(blocks, answered))
        else:
            for _ in self._asked(blocks, answered):
                pass
        return Reduced(share, answered)

    def _asked(self, blocks: Blocks, answered: list[Answered]) -> Iterator[tuple[int, CentredBatch]]:
        """The same blocks, one at a time, with their probes' predictions."""
        for first, block in blocks:
            if self.probes is not None:
                answered.append(self._ask(first, block, self.probes))
            yield first, block

    def take(self, first: int, block: CentredBatch, thin: CentredBatch, batch: Batch) -> None:
        """Add a block of a batch, and its features that enter CKA: the part that `reduce` did not do."""
        if self.cka is not None:
            if batch.reduced and self._shares(thin.n) and self.cka.is_between_batches:
                self._tail |= enumerate(thin.features[:, 1 - LEAST :].unbind(), first)
            else:
                self.cka.block(first, thin)
        if self.probes is not None and not batch.reduced:
            self._answered.append(self._ask(first, block, self.probes))

    def close(self, batch: Batch, reduced: Reduced | None, marks: Callable[[Batch, torch.device], Classes]) -> None:
        """Close the batch after its last block."""
        if self.cka is not None:
            if reduced is not None and reduced.share is not None and self._tail:
                self.cka.add(reduced.share, [self._tail[place] for place in sorted(self._tail)], len(batch))
            else:
                self.cka.close_batch()
            self._tail.clear()
        answered = self._answered if reduced is None else reduced.answered
        if answered:
            answers, broken = _together(answered)
            self._correct.append(answers == marks(batch, answers.device).labels)
            self._broken.append(broken)
        self._answered.clear()

    def correct(self) -> list[Bool[Tensor, " sample"]]:
        """For each place, on which samples its probe is right; NaN features raise, which a GPU waits for only here."""
        if not self._correct:
            return []
        right = torch.cat(self._correct, 1).cpu()
        if self.names is not None:
            for name, broken in zip(self.names, torch.stack(self._broken).sum(0).tolist(), strict=True):
                if broken:
                    raise ValueError(f"{name}: {int(broken)} of {right.shape[1]} samples hold NaN or inf")
        return list(right)

    def _shares(self, samples: int) -> bool:
        """Whether CKA reduces a batch at once: not where features are wide, nor where small batches are joined."""
        return samples >= LEAST and max(self.widths) < WIDE

    def _ask(self, first: int, block: CentredBatch, probes: Sequence[Probe]) -> Answered:
        return Answered(first, answers_at_once(probes[first : first + len(block)], block), block.broken)


def _together(parts: Sequence[Answered]) -> tuple[Int64[Tensor, "place sample"], Float64[Tensor, " place"]]:
    """The predictions of all blocks of a batch in the order of places, and each place's number of NaN samples."""
    home = parts[0].answers.device
    parts = sorted(parts, key=lambda part: part.first)
    answers, broken = ([getattr(part, name).to(home) for part in parts] for name in ("answers", "broken"))
    return torch.cat(answers), torch.cat(broken)
