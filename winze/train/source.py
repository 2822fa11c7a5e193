"""Where batches come from: tensors on the device, or a loader of files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from winze.data import Augment, Preprocess
from winze.train.config import Training
from winze.train.seeds import generator, mix

Pair = tuple[Tensor, Tensor]


@runtime_checkable
class Loader(Protocol):
    """Batches (x, y) of known number; where it has `set_epoch`, that is called before each epoch."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...


@runtime_checkable
class Source(Protocol):
    """The batches of each epoch, as two tensors that `make` turns into inputs and labels inside the step."""

    steps: int
    """batches an epoch"""

    def epoch(self, number: int) -> Iterable[Pair]: ...
    def make(self, first: Tensor, second: Tensor) -> Pair: ...
    def share(self, first: Tensor) -> float: ...


class OnDevice:
    """Stored samples on the device: a step gets row numbers and random numbers, and gathers and augments there.

    The order of an epoch and the random numbers of a step come from the seed and their own number alone. Of several
    processes each takes its slice of the same global batch.
    """

    def __init__(
        self,
        data: Pair,
        training: Training,
        preprocess: Preprocess | None,
        seed: int,
        device: torch.device,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        images, labels = data
        if len(images) != len(labels):
            raise ValueError(f"{len(images)} images but {len(labels)} labels")
        if not len(labels):
            raise ValueError("there is not one sample to train on")
        if training.drop_last and len(labels) < training.batch:
            raise ValueError(f"drop_last leaves nothing of {len(labels)} samples in batches of {training.batch}")
        if training.batch < world:
            raise ValueError(f"a batch of {training.batch} cannot be shared by {world} processes")
        self.images, self.labels = images.to(device), labels.to(device)
        self.training, self.preprocess, self.seed = training, preprocess, seed
        self.device, self.rank, self.world = device, rank, world
        self.augment = Augment(training.augment)
        self.draws = self.augment.draws(tuple(images.shape[1:])) if training.augment else 0
        self._generator = torch.Generator(device)
        self.sizes = [len(piece) for piece in self._pieces(torch.arange(len(labels)))]
        self.steps = len(self.sizes)
        self._size = self.sizes[0]  # of the batch that is at work, over all processes

    def epoch(self, number: int) -> Iterator[Pair]:
        """Row numbers and random numbers of each batch."""
        order = torch.randperm(len(self.labels), generator=generator("cpu", self.seed, "order", number))
        for i, piece in enumerate(self._pieces(order.to(self.device))):
            self._size = len(piece)
            yield self._mine(piece), self._mine(self._table(len(piece), number * self.steps + i))

    def make(self, rows: Tensor, table: Tensor) -> Pair:
        """The inputs and labels of one batch; only operations that a CUDA graph can hold."""
        x, y = self.images[rows], self.labels[rows]
        if self.training.augment:
            x = self.augment(x, table, y, rows)
        return (x if self.preprocess is None else self.preprocess(x)), y

    def share(self, rows: Tensor) -> float:
        """What the mean loss of this process's slice counts for, where slices are not of one size."""
        return len(rows) * self.world / self._size

    def _table(self, samples: int, step: int) -> Tensor:
        """Uniform numbers for the augmentation of one step."""
        if not self.draws:
            return torch.empty(samples, 0, device=self.device)
        self._generator.manual_seed(mix(self.seed, "augment", step))
        return torch.rand(samples, self.draws, generator=self._generator, device=self.device)

    def _mine(self, rows: Tensor) -> Tensor:
        return rows if self.world == 1 else rows.tensor_split(self.world)[self.rank]

    def _pieces(self, rows: Tensor) -> list[Tensor]:
        """Batches; a last one of a single sample joins the one before it, since BatchNorm cannot train on one."""
        pieces = list(rows.split(self.training.batch))
        if self.training.drop_last and len(pieces[-1]) < self.training.batch:
            return pieces[:-1]
        if len(pieces) > 1 and len(pieces[-1]) <= self.world and self.training.batch > self.world:
            pieces[-2:] = [torch.cat(pieces[-2:])]
        return pieces


class Repeated:
    """Every batch, augmented once, several times in a row: a pair of stages may learn from the same samples.

    An epoch keeps its number of steps (down to a whole number of turns) and uses as many batches fewer.
    """

    def __init__(self, source: Source, times: int) -> None:
        self.source, self.times = source, times
        self.steps = source.steps - source.steps % times
        if not self.steps:
            raise ValueError(f"an epoch of {source.steps} batches is too short to repeat each {times} times")

    def epoch(self, number: int) -> Iterator[Pair]:
        """The first batches of the source's epoch, each in all its turns."""
        for pair in islice(self.source.epoch(number), self.steps // self.times):
            for _ in range(self.times):
                yield pair

    def make(self, first: Tensor, second: Tensor) -> Pair:
        """As the source makes them."""
        return self.source.make(first, second)

    def share(self, first: Tensor) -> float:
        """As the source counts them."""
        return self.source.share(first)


class FromLoader:
    """Batches of a loader, such as a folder of images, moved to the device as they come.

    The order follows the seed: generators that a DataLoader or its sampler was given are seeded anew for each epoch,
    the global ones are seeded by `fit`. `labelled` checks and converts labels before they are moved.
    """

    def __init__(
        self, loader: Loader, device: torch.device, seed: int = 0, labelled: Callable[[Tensor], Tensor] | None = None
    ) -> None:
        self.loader, self.device, self.seed = loader, device, seed
        self.labelled = labelled or _as_they_are
        self.steps = len(loader)
        if not self.steps:
            raise ValueError("the loader has not one batch to train on")

    def epoch(self, number: int) -> Iterator[Pair]:
        """The loader's batches, shuffled as it shuffles that epoch."""
        for part in self._parts():
            if isinstance(own := getattr(part, "generator", None), torch.Generator):
                own.manual_seed(mix(self.seed, "loader", number))
            if hasattr(part, "set_epoch"):
                part.set_epoch(number)
        given = 0
        for given, batch in enumerate(self.loader, start=1):
            if not (isinstance(batch, list | tuple) and [isinstance(one, Tensor) for one in batch] == [True, True]):
                raise ValueError(f"a loader gives batches (x, y) of tensors; its batch {given} is {_said(batch)}")
            if given > self.steps:
                break
            x, y = batch
            yield x.to(self.device, non_blocking=True), self.labelled(y).to(self.device, non_blocking=True)
        if given != self.steps:
            found = f"only {given}" if given < self.steps else "more"
            raise ValueError(f"the loader has a length of {self.steps} batches, but it gave {found}")

    def _parts(self) -> list[Any]:
        """The loader and what draws the order for it."""
        batches = getattr(self.loader, "batch_sampler", None)
        found = (self.loader, getattr(self.loader, "sampler", None), batches, getattr(batches, "sampler", None))
        return list({id(part): part for part in found if part is not None}.values())

    def make(self, x: Tensor, y: Tensor) -> Pair:
        """They are ready as they come."""
        return x, y

    def share(self, x: Tensor) -> float:
        """Loaders give every process as much."""
        return 1.0


def _as_they_are(labels: Tensor) -> Tensor:
    return labels


def _said(batch: Any) -> str:
    """What a batch is, in words."""
    if isinstance(batch, list | tuple):
        return f"a {type(batch).__name__} of {', '.join(type(one).__name__ for one in batch) or 'nothing'}"
    return f"a {type(batch).__name__}"
