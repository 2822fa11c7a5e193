"""Minibatch CKA of all pairs of places in one pass, without keeping features."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from jaxtyping import Float64
from torch import Tensor

from winze.measure.features import Features, detached, flat
from winze.measure.streaming.block import CentredBatch
from winze.measure.streaming.gram import LEAST, GramTable
from winze.measure.value import CONSTANT


class Share(NamedTuple):
    """What one batch adds to the sums of CKA; `read` is what a recording of it reads and has to keep."""

    hsic: Float64[Tensor, "place place"]
    facts: Float64[Tensor, "2 place"]
    read: list[Tensor]


class CKA:
    """Gather minibatch CKA between all pairs of `places`, or between `places` and the `others` of a second network.

    Feed whole batches by `update`, or from forward hooks: `place(i, features)` or `block`, then `close_batch()`.
    Each place leaves one row of a table V, its centred Gram matrix; V Vᵀ is every HSIC of the batch at once.

    Batches weigh by their samples; those above `largest` are cut into equal pieces first. Batches below four samples
    wait and join the next one. What still waits at the end is filled up to four with the last samples of the batch
    before, and weighs only its own number: each estimate stays unbiased, and no sample is lost.
    """

    def __init__(
        self,
        places: int,
        others: int | None = None,
        unbiased: bool = True,
        largest: int | None = None,
        name: str = "features",
    ) -> None:
        if places < 1 or (others is not None and others < 1) or (largest is not None and largest < 2 * LEAST):
            raise ValueError(f"expected places and batches of at least {2 * LEAST}, got {places}, {others}, {largest}")
        self.places, self.others, self.unbiased, self.largest = places, others, unbiased, largest
        self.name = name
        self.rows = places + (others or 0)
        self.n = 0
        self._hsic = torch.zeros(self.rows, self.rows, dtype=torch.float64, device="cpu")
        self._facts = torch.zeros(2, self.rows, dtype=torch.float64, device="cpu")  # scale, broken samples
        self._tables: list[GramTable] = []
        self._held: list[Tensor] = []
        self._tail: list[Tensor] = []
        self.drop_batch()

    def drop_batch(self) -> None:
        """Forget the batch that is open, as after an exception in a forward pass."""
        self._fed: dict[int, Tensor] = {}  # the few samples that each place keeps of the open batch
        self._samples = 0

    def update(self, features: Sequence[Features], others: Sequence[Features] = ()) -> CKA:
        """Add a batch: one feature tensor a place, all of the same samples in the same order."""
        if len(features) != self.places or len(others) != (self.others or 0):
            raise ValueError(
                f"expected {self.places} and {self.others or 0} places, got {len(features)}, {len(others)}"
            )
        try:
            for index, tensor in enumerate([*features, *others]):
                self.place(index, tensor)
        except BaseException:
            self.drop_batch()
            raise
        return self.close_batch()

    def place(self, index: int, features: Features) -> None:
        """Reduce one place of the open batch; the second network's places are counted on after the first's."""
        self.block(index, CentredBatch(flat(features, f"place {index}")[None]))

    @detached
    def block(self, first: int, block: CentredBatch) -> None:
        """Reduce the places of the open batch from `first` on, as many as the block has."""
        for index in range(first, first + len(block)):
            if not 0 <= index < self.rows or index in self._fed:
                raise ValueError(
                    f"place {index} of {self.rows} " + ("came twice" if index in self._fed else "is unknown")
                )
        if self._fed and block.n != self._samples:
            raise ValueError(f"place {first}: {block.n} samples in a batch of {self._samples}")
        opened, self._samples = bool(self._fed), block.n
        if self._held:
            held = torch.stack(self._held[first : first + len(block)])
            block = CentredBatch(torch.cat([held, block.features], 1))
        few = block.features if block.n < LEAST else block.features[:, 1 - LEAST :]
        self._fed |= enumerate(few.clone().unbind(), first)
        if block.n < LEAST:
            return
        pieces = self._pieces(block.n)
        if not opened:
            self._open([end - start for start, end in pieces], block.device)
        for table, (start, end) in zip(self._tables, pieces, strict=True):
            table.write(first, block.part(start, end))

    def _pieces(self, samples: int) -> list[tuple[int, int]]:
        parts = -(-samples // self.largest) if self.largest else 1
        return list(pairwise(i * samples // parts for i in range(parts + 1)))

    def _open(self, sizes: list[int], device: torch.device) -> None:
        if [(table.n, table.device) for table in self._tables] != [(n, device) for n in sizes]:
            self._tables = [GramTable(self.rows, n, device) for n in sizes]  # else the last batch's serve again

    @detached
    def close_batch(self) -> CKA:
        """Add the open batch to the sums, once every place has been fed."""
        absent = [index for index in range(self.rows) if index not in self._fed]
        if absent:
            self.drop_batch()
            raise ValueError(f"batch without places {absent}")
        kept, waiting = [self._fed[index] for index in range(self.rows)], len(self._held[0]) if self._held else 0
        self.n += self._samples
        if self._samples + waiting < LEAST:
            self._held = kept if self._samples + waiting else []
        else:
            self._held, self._tail = [], kept
            for table in self._tables:
                self._add(*self._weighed(table, table.n))
        self.drop_batch()
        return self

    @detached
    def share(self, blocks: Iterable[tuple[int, CentredBatch]]) -> Share:
        """Give what one batch would add, without adding it; each block comes with the number of its first place.

        From batch to batch the same operations on other numbers, so that a GPU can record them.
        """
        tables: list[GramTable] = []
        for first, block in blocks:
            pieces = self._pieces(block.n)
            tables = tables or [GramTable(self.rows, end - start, block.device) for start, end in pieces]
            for table, (start, end) in zip(tables, pieces, strict=True):
                table.write(first, block.part(start, end))
        hsics, facts = zip(*(self._weighed(table, table.n) for table in tables), strict=True)
        read = [index for table in tables for index in table.above.values()]
        return Share(torch.stack(hsics).sum(0), torch.stack(facts).sum(0), read)

    @property
    def is_between_batches(self) -> bool:
        """Whether no batch is open, and no samples wait for the next one."""
        return not (self._fed or self._held)

    @detached
    def add(self, share: Share, tail: Sequence[Tensor], samples: int) -> CKA:
        """Add a batch by its share; `tail` are the last samples at each place, three of them."""
        if samples < LEAST or len(tail) != self.rows or not self.is_between_batches:
            raise ValueError(f"{samples} samples at {len(tail)} of {self.rows} places, or an open batch")
        self.n += samples
        self._tables, self._tail = [], list(tail)
        self._add(share.hsic, share.facts)
        return self

    def _weighed(self, table: GramTable, weight: int) -> tuple[Tensor, Tensor]:
        hsic, (scale, broken) = table.hsic(self.unbiased)
        return weight * hsic, torch.stack([weight * scale, broken])

    def _add(self, hsic: Tensor, facts: Tensor) -> None:
        self._hsic = self._hsic.to(hsic.device) + hsic
        self._facts = self._facts.to(facts.device) + facts

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_tables": []}  # workspace, as large as a batch squared

    @detached
    def merge(self, other: CKA) -> CKA:
        """Take in the batches of another accumulator, as if they had come here."""
        if (self.places, self.others, self.unbiased) != (other.places, other.others, other.unbiased):
            raise ValueError("cannot merge CKA over other places or of another estimator")
        if self._fed or other._fed:
            raise ValueError("close the open batch before merging")
        self._hsic = self._hsic + other._hsic.to(self._hsic.device)
        self._facts = self._facts + other._facts.to(self._facts.device)
        self._tail = other._tail or self._tail
        self.n += other.n
        if other._held:
            self.n -= len(other._held[0])
            self.update(other._held[: self.places], other._held[self.places :])
        return self

    @detached
    def _whole(self) -> tuple[Tensor, Tensor]:
        """Give the sums with the waiting samples counted in."""
        if self.n < LEAST:
            raise ValueError(f"{self.name}: CKA needs at least {LEAST} samples, got {self.n}")
        if not self._held:
            return self._hsic, self._facts
        own = len(self._held[0])
        last = copy(self)
        last._tables = []
        last._open([LEAST], self._held[0].device)
        for index, (tail, held) in enumerate(zip(self._tail, self._held, strict=True)):
            last._tables[0].write(index, CentredBatch(torch.cat([tail[own - LEAST :], held])[None]))
        last._add(*last._weighed(last._tables[0], own))
        return last._hsic, last._facts

    def _corner(self, square: Tensor) -> Float64[Tensor, "place other"]:
        return square if self.others is None else square[: self.places, self.places :]

    def hsic(self) -> Float64[Tensor, "place other"]:
        """Give the mean HSIC of each pair."""
        return self._corner(self._whole()[0].cpu() / self.n)

    def matrix(self) -> Float64[Tensor, "place other"]:
        """Give CKA of each pair; NaN where `notes` has a reason. Negative estimates stay negative."""
        hsic = self._whole()[0].cpu()
        size = hsic.diagonal().clamp(min=0).sqrt()
        size[torch.tensor([bool(note) for note in self.notes()])] = torch.nan
        cka = (hsic / size[:, None] / size).diagonal_scatter(size / size)
        return self._corner(cka)

    def check(self, names: Sequence[str]) -> None:
        """Raise where features of a place held NaN or inf."""
        for name, broken in zip(names, self._whole()[1][1].tolist(), strict=True):
            if broken:
                raise ValueError(f"{name}: {int(broken)} of {self.n} samples hold NaN or inf")

    def notes(self) -> list[str]:
        """Say for each place why it has no CKA; empty where it has."""
        words = []
        hsic, facts = self._whole()
        for own, scale, broken in zip(hsic.diagonal().tolist(), *facts.tolist(), strict=True):
            if broken:
                words.append(f"{int(broken)} of {self.n} samples hold NaN or inf")
            elif scale == 0:
                words.append(CONSTANT + " as the rest of its batch")
            else:  # what subtraction leaves of nothing, as where all samples are equally far apart
                words.append("" if own > 1e-13 * scale else "no structure between samples above rounding")
        return words
