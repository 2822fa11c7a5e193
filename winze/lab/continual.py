"""Continual learning: a network trained on one task after the other, with a head per task.

tasks(study, bench, sizes=(5, 5)) -> .matrix[t, k], .forgetting

The loop is that of `winze.continual`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from torch import Tensor

from winze.data import Task, split_classes
from winze.lab.bench import Bench
from winze.lab.claims.claim import Quantity
from winze.lab.layers import WITHOUT, NamedTensors, countings, crossed, layer_of_each, weights_of
from winze.lab.study import Prepared, Study, learn, prepare
from winze.measure import task_accuracy as lost
from winze.networks import give_heads
from winze.observe.places.find_places import find_spots
from winze.readings import Array, Readings, ReadingsError
from winze.train import History, Training, evaluate
from winze.train.in_turn import HeadedBatches, in_turn

LEARNED, KEPT, FORGETTING, MATRIX = "learnt", "kept", "forgetting", "accuracy_matrix"


@dataclass(frozen=True)
class Continual(Study):
    """A study whose classes are split into tasks of so many classes each, trained on one after the other."""

    tasks: tuple[int, ...] = (5, 5)


@dataclass
class TaskSequence:
    """A network that is trained on one task after the other; tasks are counted from 1.

    `tests`: their test sets, by name ("task 1"). `after`: the weights after each. `histories`: the metrics of each
    phase. `matrix` is R[t, k], `start` the accuracies before the first task.
    """

    prepared: Prepared
    tasks: list[Task]
    tests: dict[str, HeadedBatches]
    after: list[NamedTensors] = field(default_factory=list)
    histories: list[History] = field(default_factory=list)
    matrix: Array = field(default_factory=lambda: np.zeros((0, 0)))
    start: Array = field(default_factory=lambda: np.zeros(0))

    @cached_property
    def layers(self) -> dict[str, int]:
        """The number of the layer that each weight belongs to; those behind the hidden layers are heads."""
        return layer_of_each(self.prepared.net)

    @cached_property
    def names(self) -> list[str]:
        """The places of the hidden layers, from layer 1 on."""
        example = next(iter(self.tests["task 1"]))[0][:2]
        names = [spot.place.name for spot in find_spots(self.prepared.net, example, "layers")[:-1]]
        assert countings(self.prepared.net, names)[WITHOUT] == list(range(1, len(names) + 1))
        return names

    def crossed(self, front: int, back: int, upto: int) -> dict[str, Tensor]:
        """Layers 1 to `upto` as after task `front`, the others as after task `back`, each head as after its own task.

        A head is trained with its own task only, so that after the last task each is as its own left it.
        """
        weights, hidden = crossed(self.after[front - 1], self.after[back - 1], self.layers, upto), len(self.names)
        return {name: value if self.layers[name] <= hidden else self.after[-1][name] for name, value in weights.items()}

    def accuracy(self, weights: NamedTensors, task: int) -> float:
        """The accuracy of the network with these weights on the test set of a task, through that task's head."""
        self.prepared.net.load_state_dict(dict(weights))
        return evaluate(self.prepared.net, self.tests[f"task {task}"])

    def store_crossed(self, readings: Readings, measure: str, crossing: tuple[int, int, int], **where: Any) -> None:
        """Add the accuracy on every task with the weights of a crossing (front, back, upto)."""
        weights = self.crossed(*crossing)
        for k, (name, test) in enumerate(self.tests.items(), start=1):
            readings.add(measure, self.accuracy(weights, k), data=name, split="test", n=test.samples, **where)

    @property
    def forgetting(self) -> Array:
        """What is lost of each task from right after it to the end: R[k, k] - R[T, k]."""
        return lost.forgetting(self.matrix)

    def store(self, readings: Readings) -> None:
        """Add the matrix, and per task the accuracy right after it, at the end, and the difference."""
        readings.arrays[MATRIX] = self.matrix
        columns = {LEARNED: self.matrix.diagonal(), KEPT: self.matrix[-1], FORGETTING: self.forgetting}
        for k, (name, test) in enumerate(self.tests.items()):
            for measure, values in columns.items():
                readings.add(measure, float(values[k]), data=name, split="test", n=test.samples)


def tasks(
    study: Study,
    bench: Bench,
    sizes: Sequence[int] = (5, 5),
    later: Training | None = None,
    shared: bool = True,
    first: Callable[[TaskSequence], History] | None = None,
) -> TaskSequence:
    """Train a network on tasks of so many classes each, one after the other; tasks after the first in `later`.

    Every task's test set is evaluated through its own head in every phase. Batch norms whose parameters are frozen keep
    their statistics too. `shared`: runs with the same network, data, training and seed share the first task. `first`
    trains the first task in its own way.
    """
    prepared = prepare(study, bench)
    parts = split_classes(prepared.dataset, sizes)
    heads = give_heads(prepared.net, [len(task.classes) for task in parts])
    prepared.spec = None  # no name builds a network with several heads
    ready: Any = {"size": 1000, "preprocess": prepared.preprocess, "device": bench.device, "heads": heads}
    tests = {f"task {task.number + 1}": HeadedBatches(*task.test, **ready, task=task.number) for task in parts}
    sequence = TaskSequence(prepared, parts, tests)

    def learned(number: int, training: Training) -> History:
        if first is not None and not number:
            return first(sequence)
        same = {"tasks": tuple(sizes)} if shared and not number else None
        phase: Any = {"training": training, "data": parts[number].train, "tests": tests, "shared": same}
        return learn(prepared, bench, f"task-{number + 1}", **phase)

    def after(number: int) -> None:
        sequence.after.append(weights_of(prepared.net))

    trainings = [study.training, *[study.training if later is None else later] * (len(parts) - 1)]
    turns = in_turn(prepared.net.train(), heads, tests, trainings, learned, after)
    sequence.matrix, sequence.start, sequence.histories = turns.matrix, turns.start, turns.histories
    notes = [note for task in parts for note in task.notes[-1:]]
    bench.readings.declare(network=study.network.name, data=study.data.name, notes=notes)
    return sequence


def over_chance(accuracy: Quantity, task: int = 1) -> Quantity:
    """An accuracy on a task, divided by that of guessing one of its classes."""

    def accuracy_over_chance(readings: Readings) -> float:
        notes = readings.conventions.get("notes", ())
        told = [note.partition(": ")[2] for note in notes if note.startswith(f"task {task} of ")]
        if not told:
            raise ReadingsError(f"the readings do not name the classes of task {task}")
        return accuracy(readings) * len(told[0].split(", "))

    return accuracy_over_chance
