"""Some classes of a set, and sequences of tasks made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from winze.data.class_names import Wanted, resolve
from winze.data.data_error import DataError
from winze.data.dataset import Dataset
from winze.data.select import of_each
from winze.data.sources.source import held


@dataclass(frozen=True, eq=False)
class Task(Dataset):
    """One of several tasks made of a set: its classes numbered from 0, for a head of its own.

    `number` is its place in the sequence, and so that of its head, which has `len(classes)` outputs. `numbers` are its
    classes as the whole set numbers them, and `whole` the names of all.
    """

    number: int = 0
    numbers: tuple[int, ...] = ()
    whole: tuple[str, ...] = ()

    def for_one_head(self) -> Dataset:
        """The same samples with the labels and the classes of the whole set, for one head that all tasks share."""
        train, test = (
            torch.tensor(self.numbers, device=labels.device)[labels] for labels in (self.train_labels, self.test_labels)
        )
        images = self.train_images, self.test_images
        return Dataset(self.name, images[0], train, images[1], test, self.whole, self.found, self.notes)


def subset(dataset: Dataset, wanted: Wanted) -> Dataset:
    """The samples of some classes ("0-4", "cat,dog", [3, 5]), numbered anew in the order given."""
    numbers = resolve(wanted, dataset.classes, dataset.name)
    if len(numbers) < 2:
        raise DataError(f"{dataset.name}: a task of 1 class; at least two are needed")
    train, test = (_kept(images, labels, numbers, dataset.name) for images, labels in (dataset.train, dataset.test))
    names = tuple(dataset.classes[number] for number in numbers)
    return replace(
        dataset, train_images=train[0], train_labels=train[1], test_images=test[0], test_labels=test[1], classes=names
    )


def thinned(dataset: Dataset, per_class: int) -> Dataset:
    """The same set with at most so many train samples of each class, the same ones each time; the test part stays."""
    if per_class < 1:
        raise DataError(f"{dataset.name}: per_class is {per_class}; it must be at least 1")
    rows = torch.from_numpy(of_each(dataset.train_labels.cpu().numpy(), per_class)).to(dataset.train_labels.device)
    note = f"{len(rows)} of {len(dataset.train_labels)} train samples: at most {per_class} per class"
    return replace(
        dataset,
        train_images=dataset.train_images[rows],
        train_labels=dataset.train_labels[rows],
        notes=(*dataset.notes, note),
    )


def split_classes(dataset: Dataset, tasks: Sequence[int | Wanted], seed: int | None = None) -> list[Task]:
    """A sequence of tasks with classes of their own, each numbered from 0; `tasks` gives their sizes or their classes.

    split_classes(cifar10, (5, 5))            # classes 0-4, then 5-9
    split_classes(cifar10, (3, 7), seed=1)    # in an order drawn from the seed
    split_classes(cifar100, (10,), seed=0)    # ten random classes
    split_classes(cifar10, ("cat,dog", [0, 1]))
    """
    sizes = [task for task in tasks if isinstance(task, int)]
    wanted = [task for task in tasks if not isinstance(task, int)]
    if sizes and wanted:
        raise DataError(f"{dataset.name}: tasks are given by their sizes or classes, not both: {tuple(tasks)}")
    if wanted and seed is not None:
        raise DataError(f"{dataset.name}: a seed orders classes for tasks of a size; {tuple(tasks)} has an order")
    chosen = [resolve(w, dataset.classes, dataset.name) for w in wanted] or _sizes(dataset, sizes, seed)
    flat = [number for numbers in chosen for number in numbers]
    twice = next((number for number in flat if flat.count(number) > 1), None)
    if twice is not None:
        raise DataError(f"{dataset.name}: class {twice} ({dataset.classes[twice]}) is in two tasks")
    return [_task(dataset, place, numbers, len(chosen)) for place, numbers in enumerate(chosen)]


def _sizes(dataset: Dataset, sizes: Sequence[int], seed: int | None) -> list[list[int]]:
    """Class numbers of tasks of so many classes each."""
    total = len(dataset.classes)
    if not sizes or min(sizes) < 2:
        raise DataError(f"{dataset.name}: tasks have at least two classes each, not {tuple(sizes)}")
    if sum(sizes) > total:
        raise DataError(f"{dataset.name}: tasks of {tuple(sizes)} classes need {sum(sizes)} classes, it has {total}")
    order = range(total) if seed is None else np.random.default_rng(seed).permutation(total).tolist()
    ends = np.cumsum([0, *sizes]).tolist()
    return [list(order[start:end]) for start, end in pairwise(ends)]


def _task(dataset: Dataset, place: int, numbers: list[int], count: int) -> Task:
    part = subset(dataset, numbers)
    notes = (*dataset.notes, f"task {place + 1} of {count}: {', '.join(part.classes)}")
    values = {name: getattr(part, name) for name in Dataset.__dataclass_fields__} | {"notes": notes}
    return Task(**values, number=place, numbers=tuple(numbers), whole=dataset.classes)


def _kept(images: Tensor, labels: Tensor, numbers: list[int], what: str) -> tuple[Tensor, Tensor]:
    samples, new = held(images, labels.cpu().numpy(), what).relabel(numbers).read()
    return samples, new.to(labels.device)
