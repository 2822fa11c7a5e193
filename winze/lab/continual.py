"""Continual learning: a network trained on one task after another, with one head per task.

tasks(study, bench, sizes=(5, 5)).store(bench.readings)

The loop is that of `winze.continual`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from torch import Tensor

from winze.data import Task, split_classes
from winze.lab.bench import Bench
from winze.lab.claims.quantities import Quantity
from winze.lab.layers import WITHOUT, NamedTensors, countings, crossed, layer_of_each, weights_of
from winze.lab.study import Prepared, Study, learn, prepare
from winze.measure.task_accuracy import forgetting
from winze.networks import give_heads
from winze.observe.places.find_places import find_spots
from winze.readings import Readings, ReadingsError
from winze.train import History, Training, evaluate
from winze.train.in_turn import HeadedBatches, Turns, in_turn

LEARNED, KEPT, FORGETTING, MATRIX = "learnt", "kept", "forgetting", "accuracy_matrix"


@dataclass(frozen=True)
class Continual(Study):
    """A study whose classes are split into tasks of `sizes` classes, trained on one after another."""

    tasks: tuple[int, ...] = (5, 5)


@dataclass
class TaskSequence:
    """A network that is trained on one task after another; tasks are counted from 1.

    `tests`: their test sets, by name ("task 1"). `after`: the weights after each. `turns`: accuracies and metrics.
    """

    prepared: Prepared
    tasks: list[Task]
    tests: dict[str, HeadedBatches]
    after: list[NamedTensors] = field(default_factory=list)
    turns: Turns = field(init=False)

    @cached_property
    def layers(self) -> dict[str, int]:
        """The number of each weight's layer; layers after the hidden ones are heads."""
        return layer_of_each(self.prepared.net)

    @cached_property
    def names(self) -> list[str]:
        """The places of the hidden layers, from layer 1 on."""
        example = next(iter(self.tests["task 1"]))[0][:2]
        names = [spot.place.name for spot in find_spots(self.prepared.net, example, "layers")[:-1]]
        assert countings(self.prepared.net, names)[WITHOUT] == list(range(1, len(names) + 1))
        return names

    def crossed(self, front: int, back: int, upto: int) -> dict[str, Tensor]:
        """Layers 1 to `upto` as after task `front`, the others as after task `back`, each head as after its own task: a
        head is trained on its own task only.
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

    def store(self, readings: Readings) -> None:
        """Add the matrix, and per task the accuracy right after it, at the end, and the difference."""
        readings.arrays[MATRIX] = matrix = self.turns.matrix
        columns = {LEARNED: matrix.diagonal(), KEPT: matrix[-1], FORGETTING: forgetting(matrix)}
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
    """Train a network on tasks of `sizes` classes, one after another; tasks after the first with `later`.

    Every task's test set is evaluated through its own head in every phase. Batch norms whose parameters are frozen keep
    their statistics too. `shared`: runs with the same network, data, training and seed share the first task. `first`
    trains the first task, in place of the study's training.
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
    sequence.turns = in_turn(prepared.net.train(), heads, tests, trainings, learned, after)
    notes = [note for task in parts for note in task.notes[-1:]]
    bench.readings.declare(network=study.network.name, data=study.data.name, notes=notes)
    return sequence


def over_chance(accuracy: Quantity, task: int = 1) -> Quantity:
    """An accuracy on a task, divided by the chance level of its classes."""

    def accuracy_over_chance(readings: Readings) -> float:
        notes = readings.conventions.get("notes", ())
        told = [note.partition(": ")[2] for note in notes if note.startswith(f"task {task} of ")]
        if not told:
            raise ReadingsError(f"the readings do not name the classes of task {task}")
        return accuracy(readings) * len(told[0].split(", "))

    return accuracy_over_chance
