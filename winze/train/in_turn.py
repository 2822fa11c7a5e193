"""Train one network on tasks in turn: one loop for `winze.continual` and for the recipes of the lab.

sequence = winze.continual(net, "digits", Training(Epochs(10)), split=5)
sequence.matrix, sequence.forgetting, sequence.profile("cka_drift")
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Listed
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from winze.data import Batches, DataError, Preprocess, Squares
from winze.data.task_list import TaskList, task_list
from winze.modes import modes_of, set_modes, unchanged
from winze.networks import Heads, NetworkError, give_heads
from winze.networks.network_error import one_line
from winze.observe.sequence import CURVES, DepthProfiles, Sequence, store_matrix
from winze.readings import Array, Readings
from winze.train.fit import History, fit
from winze.train.hardware import Hardware, device_of
from winze.train.objectives import evaluate
from winze.train.optimizers import shares
from winze.train.seeds import mix
from winze.train.training import Training

MEASURES = ("probe", "rank")


@dataclass(frozen=True, eq=False, kw_only=True)
class HeadedBatches(Batches):
    """Samples of a task; while they are read, the task's own head is in use. Without `heads` the network has one."""

    heads: Heads | None
    task: int

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        if self.heads is None:
            yield from super().__iter__()
            return
        before = self.heads.task
        self.heads.use(self.task)
        try:
            yield from super().__iter__()
        finally:
            self.heads.use(before)


@dataclass
class Turns:
    """What a loop over tasks gives: R[t, k], the accuracies before the first task, and the metrics of each phase."""

    matrix: Array
    start: Array
    histories: list[History]


def in_turn(
    net: nn.Module,
    heads: Heads | None,
    tests: Mapping[str, HeadedBatches],
    trainings: Listed[Training],
    learn: Callable[[int, Training], History],
    after: Callable[[int], None] = lambda number: None,
) -> Turns:
    """Train on every task with its own head in use, and evaluate all tasks before the first and after each.

    `learn(number, training)` trains on a task, counted from 0; `after(number)` is called when its accuracies are known.
    Batch norms whose parameters are frozen keep their statistics too.
    """

    def row() -> list[float]:
        return [evaluate(net, test) for test in tests.values()]

    if not any(module.training for module in net.modules()):
        net.train()  # as `fit` does, but before single batch norms go into eval mode
    own = modes_of(net)
    start, rows, histories = row(), list[list[float]](), list[History]()
    for number, training in enumerate(trainings):
        if heads is not None:
            heads.use(number)
        set_modes(own)
        _freeze_norms(net, training)
        histories.append(learn(number, training))
        rows.append(row())
        after(number)
    return Turns(np.array(rows), np.array(start), histories)


def continual(
    net: nn.Module,
    tasks: Any,
    training: Training | Listed[Training],
    *,
    split: int | Listed[Any] | None = None,
    incremental: str = "class",
    order: int | None = None,
    preprocess: Preprocess | None = None,
    measures: str | Listed[str] = MEASURES,
    places: Any = None,
    probe: str = "ridge",
    pool: Any = "mean",
    samples: int | None = 2000,
    followers: Listed[Any] = (),
    hardware: Hardware | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Sequence:
    """Train a network on tasks in turn, and read after each task what it forgot and which layers moved.

        winze.continual(net, "cifar10", training, split=5)                             # five tasks of two classes
        winze.continual(net, [(train, test), (train_2, test_2)], training, incremental="domain")

    `tasks`: a data set or its name, split by classes (`split` = number of equal tasks, their sizes, or their classes;
    `order` draws the classes from a seed); a list of (train, test), each a pair (x, y), a Dataset or a loader; or an
    Avalanche benchmark. `incremental`: "class" (the network's own head, classes of their own), "task" (a head per task,
    put in place of the network's) or "domain" (the network's own head, the same classes in new data). `training`: one
    for all tasks, or one per task. After each task a scan reads `measures` at `places` on at most `samples` samples per
    task and split (None: all), and CKA to the network after task 1; with measures=() nothing is read. uint8 images are
    normalised by the data's own statistics unless `preprocess` is given. The network is trained in place.
    """
    if not isinstance(net, nn.Module):
        raise NetworkError(f"net is a torch.nn.Module, not {type(net).__name__}")
    listed = task_list(tasks, split, incremental, order)
    trainings = [training] * len(listed.parts) if isinstance(training, Training) else training
    if not isinstance(trainings, list | tuple) or not all(isinstance(one, Training) for one in trainings):
        raise DataError(f"training is a Training(...), or a list of them, one per task, not {training!r}")
    if len(trainings) != len(listed.parts):
        raise DataError(f"{len(trainings)} trainings for {len(listed.parts)} tasks: give one for all, or one per task")
    _check_squares(listed, trainings)
    if samples is not None and samples < 1:
        raise DataError(f"samples must be at least 1, not {samples}")
    heads = _heads(net, listed)
    device = device_of(hardware)
    preprocess = listed.preprocess if preprocess is None else preprocess
    net.to(device)
    _check_outputs(net, listed, heads, preprocess, device)

    def batches(number: int, part: tuple[Tensor, Tensor]) -> HeadedBatches:
        return HeadedBatches(*part, size=500, preprocess=preprocess, device=device, heads=heads, task=number)

    def learn(number: int, how: Training) -> History:
        ready: Any = {"preprocess": preprocess, "hardware": hardware, "followers": followers, "progress": progress}
        return fit(net, listed.parts[number].train, how, seed=mix(seed, f"task-{number + 1}"), tests=tests, **ready)

    tests = {part.name: batches(number, part.test) for number, part in enumerate(listed.parts)}
    wanted = (measures,) if isinstance(measures, str) else tuple(measures)
    read = {
        part.name: tuple(batches(k, _spread(one, samples)) for one in (part.train, part.test))
        for k, part in enumerate(listed.parts)
    }
    profiles = DepthProfiles(read, places, wanted, probe, pool, progress)  # type: ignore[arg-type]
    profiles.check(net)
    turns = in_turn(net, heads, tests, trainings, learn, lambda number: profiles.read(net, number + 1))
    readings = profiles.readings
    readings.declare(
        network=type(net).__name__,
        data=listed.name,
        incremental=incremental,
        tasks=[part.name for part in listed.parts],
        task_classes=[list(part.classes) for part in listed.parts],
        seed=seed,
    )
    store_matrix(readings, {name: test.samples for name, test in tests.items()}, turns.matrix, turns.start)
    store_curves(readings, list(tests), turns.histories)
    return Sequence(readings)


def store_curves(readings: Readings, tests: Listed[str], histories: Listed[History]) -> None:
    """Add the accuracies at every evaluation during training: rows of (step since the first task, task, accuracies)."""
    rows, done = [], 0
    for number, history in enumerate(histories):
        looks = [row for row in history.metrics if all(f"{name}: accuracy" in row for name in tests)]
        rows += [[done + row["step"], number + 1, *(row[f"{name}: accuracy"] for name in tests)] for row in looks]
        done += history.steps
    readings.arrays[CURVES] = np.array(rows, dtype=np.float64).reshape(len(rows), 2 + len(tests))


def _heads(net: nn.Module, listed: TaskList) -> Heads | None:
    """The heads of a task-incremental sequence: those that the network has, or new ones in place of its own."""
    there = [module for module in net.modules() if isinstance(module, Heads)]
    if listed.incremental != "task":
        if there:
            raise NetworkError(
                f"the network has {len(there[0].heads)} heads; incremental={listed.incremental!r} trains one that all "
                "tasks share: give incremental='task', or a network with its own output"
            )
        return None
    counts = [len(part.classes) for part in listed.parts]
    if not there:
        return give_heads(net, counts)
    found = [head.out_features for head in there[0].heads]
    if len(found) != len(counts):
        raise NetworkError(f"the network has {len(found)} heads for {len(counts)} tasks; one per task is needed")
    for number, (one, count) in enumerate(zip(found, counts, strict=True)):
        if one != count:
            raise NetworkError(f"head {number + 1} has {one} outputs; task {number + 1} has {count} classes")
    return there[0]


def _check_outputs(
    net: nn.Module, listed: TaskList, heads: Heads | None, preprocess: Preprocess | None, device: torch.device
) -> None:
    """Run two samples, so that a network that cannot take or name these tasks raises before anything is trained."""
    x = listed.parts[0].test[0][:2].to(device)
    try:
        with torch.no_grad(), unchanged(net, training=False):
            found = net(x if preprocess is None else preprocess(x))
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        what = f"{str(x.dtype).removeprefix('torch.')} {list(x.shape)}"
        raise NetworkError(f"{type(net).__name__} does not take samples such as {what}: {one_line(error)}") from error
    if not isinstance(found, Tensor) or found.ndim != 2:
        raise NetworkError(f"{type(net).__name__} gives no logits [sample, class], which accuracy is measured on")
    if heads is None and found.shape[1] < listed.outputs:
        raise NetworkError(
            f"{type(net).__name__} has {found.shape[1]} outputs; the labels of these tasks go up to "
            f"{listed.outputs - 1}: build it with {listed.outputs} classes"
        )


def _check_squares(listed: TaskList, trainings: Listed[Training]) -> None:
    for part, training in zip(listed.parts, trainings, strict=True):
        for one in training.augment:
            if isinstance(one, Squares):
                one.check(tuple(part.train[0].shape[1:]), int(part.train[1].max()) + 1)


def _spread(part: tuple[Tensor, Tensor], most: int | None) -> tuple[Tensor, Tensor]:
    """At most so many samples, evenly spread over the data, whose order may be that of the classes."""
    count = len(part[1])
    if most is None or count <= most:
        return part
    rows = torch.linspace(0, count - 1, most).round().long()
    return part[0][rows], part[1][rows]


def _freeze_norms(net: nn.Module, training: Training) -> None:
    """Put batch norms whose parameters are frozen into eval mode; they are then trained in it."""
    factors = shares(dict(net.named_parameters()), training.optimizer, type(net).__name__)
    for name, module in net.named_modules():
        if isinstance(module, _BatchNorm) and factors.get(f"{name}.weight") == 0:
            module.eval()
