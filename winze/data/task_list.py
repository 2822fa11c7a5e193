"""Tasks for one network, one after the other, from whatever they are given as; what does not fit raises at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from winze.data.avalanche import is_benchmark, pairs_of
from winze.data.data_error import DataError
from winze.data.dataset import Dataset
from winze.data.image_tensors import channel_statistics
from winze.data.load import load
from winze.data.preprocess import Preprocess
from winze.data.tasks import Task, split_classes

Pair = tuple[Tensor, Tensor]
KINDS = ("class", "task", "domain")


@dataclass(frozen=True, eq=False)
class TaskPart:
    """One task of a sequence: samples with the labels that its head gives, and its classes in the whole sequence."""

    name: str
    train: Pair
    test: Pair
    classes: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class TaskList:
    """Tasks in their order, and how stored images go into the network (None: as they are)."""

    parts: list[TaskPart]
    incremental: str
    preprocess: Preprocess | None
    name: str

    @property
    def outputs(self) -> int:
        """How many outputs one head for all tasks needs."""
        return max(max(part.classes) for part in self.parts) + 1


def task_list(
    tasks: Any, split: int | Sequence[Any] | None = None, incremental: str = "class", order: int | None = None
) -> TaskList:
    """The tasks of a data set split by classes, of pairs (train, test), of data sets, or of an Avalanche benchmark.

    Train and test are pairs (x, y), map-style Datasets or loaders of batches (x, y), which are read into memory once.

    `incremental`: "class" (one head, classes of their own), "task" (a head per task, labels counted from 0 in each) or
    "domain" (one head, the same classes in new data). `order` draws the classes of a split from a seed.
    """
    if incremental not in KINDS:
        raise DataError(f"incremental is {', '.join(KINDS[:-1])} or {KINDS[-1]}, not {incremental!r}")
    if isinstance(tasks, str | Dataset):
        return _of_set(load(tasks) if isinstance(tasks, str) else tasks, split, incremental, order)
    if split is not None or order is not None:
        raise DataError(
            "split= and order= are for a data set that is split by classes; these tasks are given one by one"
        )
    given = pairs_of(tasks) if is_benchmark(tasks) else list(tasks) if isinstance(tasks, Iterable) else None
    if not given:
        raise DataError(f"tasks are a data set or a list of (train, test), not {type(tasks).__name__}")
    parts = [_part(number, one, incremental) for number, one in enumerate(given)]
    name = type(tasks).__name__ if is_benchmark(tasks) else f"{len(parts)} tasks"
    images = parts[0].train[0]
    stored = images.dtype == torch.uint8 and images.ndim == 4
    preprocess = Preprocess(None, *channel_statistics(images), channels=images.shape[1]) if stored else None
    return _checked(TaskList(parts, incremental, preprocess, name))


def _of_set(whole: Dataset, split: int | Sequence[Any] | None, incremental: str, order: int | None) -> TaskList:
    if incremental == "domain":
        raise DataError(f"{whole.name}: tasks of one data set have classes of their own; give incremental='class'")
    if split is None:
        raise DataError(f"{whole.name}: give split=, such as 5 (tasks of equal size), (5, 5) or ('0-4', '5-9')")
    if isinstance(split, int):
        count = len(whole.classes)
        if split < 1 or count % split:
            raise DataError(
                f"{whole.name}: {count} classes cannot be split into {split} equal tasks; give their sizes instead"
            )
        split = (count // split,) * split
    parts = []
    for task in split_classes(whole, split, order):
        own: Dataset | Task = task.for_one_head() if incremental == "class" else task
        parts.append(TaskPart(f"task {task.number + 1}", own.train, own.test, task.numbers))
    preprocess = Preprocess.of(whole) if whole.holds_images else None
    return _checked(TaskList(parts, incremental, preprocess, whole.name))


def _part(number: int, given: Any, incremental: str) -> TaskPart:
    name = f"task {number + 1}"
    train, test = (given.train, given.test) if isinstance(given, Dataset) else _both(given, name)
    train, test = _pair(train, f"{name}, train"), _pair(test, f"{name}, test")
    classes = torch.unique(train[1])
    strange = sorted(set(torch.unique(test[1]).tolist()) - set(classes.tolist()))
    if strange:
        raise DataError(f"{name}: its test set has classes that its training set lacks: {_listed(strange)}")
    if incremental == "task":
        train, test = ((x, torch.searchsorted(classes, y)) for x, y in (train, test))
    return TaskPart(name, train, test, tuple(classes.tolist()))


def _both(given: Any, name: str) -> tuple[Any, Any]:
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise DataError(f"{name} is a pair (train, test) of pairs (x, y), not {type(given).__name__}")
    return given[0], given[1]


def _pair(given: Any, what: str) -> Pair:
    if isinstance(given, tuple | list) and len(given) == 2 and all(hasattr(one, "__len__") for one in given):
        x, y = (torch.as_tensor(one) for one in given)
        if x.dtype == torch.float64 and not isinstance(given[0], Tensor):  # NumPy's default, which no layer takes
            x = x.float()
    else:
        try:
            if hasattr(given, "__getitem__"):
                rows = [given[spot] for spot in range(len(given))]
                x = torch.stack([torch.as_tensor(row[0]) for row in rows])
                y = torch.tensor([int(row[1]) for row in rows])
            else:
                x, y = (torch.cat([torch.as_tensor(one) for one in part]) for part in zip(*given, strict=True))
        except (TypeError, ValueError, IndexError, KeyError, RuntimeError) as error:
            kinds = "a pair (x, y) of tensors, a map-style Dataset of (x, y), or a loader of batches (x, y)"
            raise DataError(f"{what} is {kinds}: {' '.join(str(error).split())}") from error
    if y.ndim != 1 or y.is_floating_point() or len(x) != len(y) or not len(y):
        raise DataError(
            f"{what}: samples {list(x.shape)} need one whole-number label each, not {y.dtype} {list(y.shape)}"
        )
    if int(y.min()) < 0:
        raise DataError(f"{what}: labels are whole numbers from 0, but the least is {int(y.min())}")
    return x, y.long()


def _checked(tasks: TaskList) -> TaskList:
    """Raise unless the tasks make a sequence: two or more, of two classes at least, of samples of one shape."""
    parts = tasks.parts
    if len(parts) < 2:
        raise DataError(f"{tasks.name}: a sequence has at least two tasks, not {len(parts)}")
    for part in parts:
        if len(part.classes) < 2:
            raise DataError(f"{part.name} has 1 class ({part.classes[0]}); a task needs at least two")
        shapes = {tuple(x.shape[1:]) for x, _ in (*((p.train) for p in parts[:1]), part.train, part.test)}
        if len(shapes) > 1:
            found = " and ".join(str(list(shape)) for shape in sorted(shapes))
            raise DataError(f"{part.name}: samples have shapes {found}; all tasks go into one network")
    if tasks.incremental == "class":
        seen: dict[int, str] = {}
        for part in parts:
            twice = [number for number in part.classes if number in seen]
            if twice:
                raise DataError(
                    f"{part.name} and {seen[twice[0]]} share the classes {_listed(twice)}: in incremental='class' "
                    "every task has its own; 'domain' is for the same classes in new data, 'task' for a head per task"
                )
            seen |= dict.fromkeys(part.classes, part.name)
    return tasks


def _listed(numbers: Sequence[int], most: int = 8) -> str:
    return ", ".join(map(str, numbers[:most])) + (", ..." if len(numbers) > most else "")
