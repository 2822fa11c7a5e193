"""Where batches come from: tensors on the device, or a loader."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from winze.data import Augment, Preprocess
from winze.observe.passes.inputs import generators, loader_parts, with_own_workers
from winze.train.seeds import generator, mix, reseed, seed_all, seed_quickly
from winze.train.training import Training

InputsAndLabels = tuple[Tensor, Tensor | None]
"""inputs and labels; None where there are no labels"""

JUDGED = 1000  # samples per batch of a stored test set


@runtime_checkable
class Loader(Protocol):
    """A known number of batches, (x, y) or x alone; `set_epoch`, where it has one, is called before each epoch."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...


@runtime_checkable
class BatchSource(Protocol):
    """The batches of each epoch, as two tensors that `make` turns into inputs and labels inside the step."""

    steps: int
    """batches per epoch"""

    def label(self, prepare: Callable[[Tensor | None], Tensor | None]) -> None: ...
    def epoch(self, number: int, start: int = 0) -> Iterable[InputsAndLabels]: ...
    def make(self, first: Tensor, second: Tensor | None) -> InputsAndLabels: ...
    def share(self, first: Tensor) -> float: ...


FitData = tuple[Tensor, Tensor] | Tensor | Loader
MakeSource = Callable[[torch.device], BatchSource]
"""Makes a source of batches on the device where training runs."""


class OnDevice:
    """Stored samples on the device: a step gets row numbers and random numbers, and gathers and augments there.

    The order of an epoch and the random numbers of a step come from the seed and their own number alone. Of several
    processes each takes its slice of the same global batch.
    """

    def __init__(
        self,
        images: Tensor,
        labels: Tensor | None,
        training: Training,
        preprocess: Preprocess | None,
        seed: int,
        device: torch.device,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        count = len(images)
        if not count:
            raise ValueError("there are no samples to train on")
        if training.drop_last and count < training.batch:
            raise ValueError(f"drop_last leaves nothing of {count} samples in batches of {training.batch}")
        if training.batch < world:
            raise ValueError(f"a batch of {training.batch} cannot be shared by {world} processes")
        self.images, self.labels = images.to(device), None if labels is None else labels.to(device)
        self.training, self.preprocess, self.seed = training, preprocess, seed
        self.device, self.rank, self.world = device, rank, world
        self.augment = Augment(training.augment)
        self.draws = self.augment.draws(tuple(images.shape[1:]))
        self.steps = len(self._pieces(torch.arange(count)))
        self._size = count  # of the current batch, over all processes

    def label(self, prepare: Callable[[Tensor | None], Tensor | None]) -> None:
        self.labels = prepare(self.labels)

    def epoch(self, number: int, start: int = 0) -> Iterator[InputsAndLabels]:
        """Row numbers and random numbers of each batch from number `start`."""
        pieces = self._pieces(self._order(number).to(self.device))
        for i, piece in islice(enumerate(pieces), start, None):
            self._size = len(piece)
            yield self._mine(piece), self._mine(self._table(len(piece), number * self.steps + i))

    def make(self, rows: Tensor, table: Tensor | None) -> InputsAndLabels:
        """The inputs and labels of one batch; only operations that a CUDA graph can hold."""
        x, y = self.images[rows], None if self.labels is None else self.labels[rows]
        if self.training.augment and table is not None:
            x = self.augment(x, table, y, rows)
        return (x if self.preprocess is None else self.preprocess(x)), y

    def share(self, rows: Tensor) -> float:
        """The weight of this process's mean loss, where slices differ in size."""
        return len(rows) * self.world / self._size

    def _order(self, number: int) -> Tensor:
        """The row numbers of an epoch."""
        return self._shuffled(self.seed, number)

    def _shuffled(self, seed: int, number: int) -> Tensor:
        return torch.randperm(len(self.images), generator=generator("cpu", seed, "order", number))

    def _table(self, samples: int, step: int) -> Tensor:
        """Uniform numbers for the augmentation of one step."""
        if not self.draws:
            return torch.empty(samples, 0, device=self.device)
        by = generator(self.device, self.seed, "augment", step)
        return torch.rand(samples, self.draws, generator=by, device=self.device)

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


class FromLoader:
    """Batches of a loader, such as a folder of images, moved to the device as they come.

    The order follows the seed: generators of torch, NumPy or Python that a DataLoader, its sampler or its dataset holds
    are seeded anew for each epoch, the global ones for each epoch and each batch.
    """

    def __init__(self, loader: Loader, device: torch.device, seed: int = 0) -> None:
        self.loader, self.device, self.seed = loader, device, seed
        self.prepare: Callable[[Tensor | None], Tensor | None] = lambda labels: labels
        try:
            self.steps = len(loader)
        except TypeError as error:  # a DataLoader of an IterableDataset
            raise ValueError(f"the loader has no length, so no epoch: give its dataset a __len__ ({error})") from error
        if not self.steps:
            raise ValueError("the loader has no batch to train on")

    def label(self, prepare: Callable[[Tensor | None], Tensor | None]) -> None:
        self.prepare = prepare

    def epoch(self, number: int, start: int = 0) -> Iterator[InputsAndLabels]:
        """The loader's batches, shuffled as it shuffles that epoch; those before `start` are loaded and dropped."""
        for own in generators(self.loader):
            reseed(own, mix(self.seed, "loader", number))
        for part in loader_parts(self.loader):
            if hasattr(part, "set_epoch"):
                part.set_epoch(number)
        seed_all(mix(self.seed, "epoch", number))
        loader = self.loader
        if isinstance(loader, DataLoader):  # workers that persist would draw on where the epoch before ended
            loader = with_own_workers(loader)
        batches = iter(loader)
        for given in range(1, self.steps + 2):
            seed_quickly(mix(self.seed, "batch", number * self.steps + given))
            batch = next(batches, None)
            if (batch is None) != (given > self.steps):
                found = f"only {given - 1}" if batch is None else "more"
                raise ValueError(f"the loader has a length of {self.steps} batches, but it gave {found}")
            if batch is not None and given > start:
                x, y = parted(batch, given)
                y = self.prepare(y)
                yield x.to(self.device, non_blocking=True), None if y is None else y.to(self.device, non_blocking=True)

    def make(self, x: Tensor, y: Tensor | None) -> InputsAndLabels:
        return x, y

    def share(self, x: Tensor) -> float:
        return 1.0


def source_of(
    data: FitData | MakeSource,
    training: Training,
    preprocess: Preprocess | None,
    seed: int,
    device: torch.device,
    rank: int = 0,
    world: int = 1,
) -> BatchSource:
    """The batches of any data that `fit` takes."""
    if isinstance(data, Tensor | tuple):
        return OnDevice(*samples_of(data), training, preprocess, seed, device, rank, world)
    if isinstance(data, Loader):
        return FromLoader(data, device, mix(seed, f"loader {rank}"))
    if callable(data):
        return data(device)
    raise ValueError(f"data is tensors (x, y), one tensor, or a loader of batches with a length, not {said(data)}")


def in_order(
    data: FitData, preprocess: Preprocess | None, device: torch.device, rank: int = 0, world: int = 1
) -> Iterator[InputsAndLabels]:
    """The batches of a test set; of stored samples each process takes its slice."""
    if not isinstance(data, Tensor | tuple):
        for number, batch in enumerate(data, start=1):
            yield parted(batch, number)
        return
    images, labels = samples_of(data)
    parts = world if len(images) >= world else 1  # no process without a sample
    start, end = (len(images) * (rank % parts + more) // parts for more in (0, 1))
    for first in range(start, end, JUDGED):
        rows = slice(first, min(first + JUDGED, end))
        x = images[rows].to(device)
        yield (x if preprocess is None else preprocess(x)), None if labels is None else labels[rows].to(device)


def samples_of(data: Any) -> InputsAndLabels:
    """Stored samples and their labels: tensors (x, y), or x alone."""
    if isinstance(data, Tensor):
        return data, None
    if not (len(data) == 2 and all(isinstance(part, Tensor) for part in data)):
        raise ValueError(f"data is tensors (x, y), not {said(data)}: pass torch.from_numpy(array) for NumPy arrays")
    if len(data[0]) != len(data[1]):
        raise ValueError(f"{len(data[0])} images but {len(data[1])} labels")
    return data[0], data[1]


def parted(batch: Any, number: int) -> InputsAndLabels:
    """The inputs and labels of a loader's batch."""
    if isinstance(batch, Tensor):
        return batch, None
    if isinstance(batch, list | tuple) and [isinstance(one, Tensor) for one in batch] in ([True], [True, True]):
        return batch[0], batch[1] if len(batch) == 2 else None
    raise ValueError(f"a loader gives batches (x, y) of tensors, or x alone; its batch {number} is {said(batch)}")


def said(batch: Any) -> str:
    """What a batch is, in words."""
    if isinstance(batch, list | tuple):
        return f"a {type(batch).__name__} of {', '.join(type(one).__name__ for one in batch) or 'nothing'}"
    fix = ": pass DataLoader(dataset, batch_size, shuffle=True)" if isinstance(batch, Dataset) else ""
    return f"a {type(batch).__name__}{fix}"
