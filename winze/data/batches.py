"""Batches of tensors that are already in memory: in order, sized, as often as you like, no worker processes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Int64
from torch import Tensor

from winze.data.data_error import DataError
from winze.data.preprocess import Preprocess


@dataclass(frozen=True, eq=False)
class Batches:
    """Iterate over (x, y); `limit` takes the first samples, `shard=(i, n)` then the i-th of n consecutive pieces.

    Bytes travel to the device and are preprocessed there. Without a `preprocess`, samples come as they are stored.
    """

    images: Tensor
    labels: Int64[Tensor, " sample"]
    size: int = 256
    preprocess: Preprocess | None = None
    device: torch.device | str | None = None
    limit: int | None = None
    shard: tuple[int, int] = (0, 1)

    def __post_init__(self) -> None:
        if len(self.images) != len(self.labels):
            raise DataError(f"batches: {len(self.images)} samples but {len(self.labels)} labels")
        if self.size < 1:
            raise DataError(f"batches: a batch has at least one sample, not {self.size}")
        if self.limit is not None and self.limit < 1:
            raise DataError(f"batches: limit is {self.limit}, it must be at least 1")
        if not 0 <= self.shard[0] < self.shard[1]:
            raise DataError(f"batches: shard {self.shard[0]} of {self.shard[1]} does not exist; they count from 0")
        if not self.samples:
            raise DataError("batches: no samples" + (" in this shard" if self.shard[1] > 1 else ""))

    @property
    def total(self) -> int:
        """Samples of all shards together."""
        return len(self.labels) if self.limit is None else min(self.limit, len(self.labels))

    @property
    def offset(self) -> int:
        """Position, within all shards, of this shard's first sample."""
        return self.shard[0] * self.total // self.shard[1]

    @property
    def samples(self) -> int:
        """Samples in this shard."""
        return (self.shard[0] + 1) * self.total // self.shard[1] - self.offset

    def __len__(self) -> int:
        return (self.samples + self.size - 1) // self.size

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        end = self.offset + self.samples
        for start in range(self.offset, end, self.size):
            rows = slice(start, min(start + self.size, end))
            x, y = self.images[rows].to(self.device), self.labels[rows].to(self.device)
            yield (x if self.preprocess is None else self.preprocess(x)), y
