"""Two tasks, the first of which is trained until a training loss is reached."""

from __future__ import annotations

from typing import Any

from winze.data import Batches, split_classes
from winze.lab import Bench, Continual, TaskSequence, learn, prepare
from winze.lab.layers import weights_of
from winze.networks import give_heads
from winze.observe import scan
from winze.observe.places.find_places import find_spots
from winze.train import CrossEntropy, History, Training
from winze.train.in_turn import HeadedBatches, in_turn
from winze.train.objectives.base import judged


def learn_matched(study: Continual, bench: Bench, later: Training, loss: float, rounds: int) -> TaskSequence:
    """Train task 1 in rounds of the study's training until its training loss is at most `loss`, then task 2 once.

    The loss is that of the whole training set in eval mode. The rank of the last hidden layer, the loss and the number
    of rounds are stored; a loss that is not reached in all rounds is stored as it is.
    """
    prepared = prepare(study, bench)
    parts = split_classes(prepared.dataset, study.tasks)
    heads = give_heads(prepared.net, [len(task.classes) for task in parts])
    prepared.spec = None
    ready: Any = {"size": 1000, "preprocess": prepared.preprocess, "device": bench.device}
    tests = {f"task {one.number + 1}": HeadedBatches(*one.test, **ready, heads=heads, task=one.number) for one in parts}
    sequence = TaskSequence(prepared, parts, tests)
    reached: dict[str, float] = {}

    def learned(number: int, training: Training) -> History:
        if number:
            return learn(prepared, bench, "task-2", training=training, data=parts[1].train, tests=tests)
        for count in range(rounds):
            history = learn(prepared, bench, f"task-1-{count + 1}", training=training, data=parts[0].train, tests=tests)
            found = judged(prepared.net, Batches(*parts[0].train, **ready), CrossEntropy())
            reached.update(train_loss=found["test_loss"], rounds=count + 1)
            if found["test_loss"] <= loss:
                break
        return history

    def after(number: int) -> None:
        sequence.after.append(weights_of(prepared.net))
        if not number and bench.writes:
            reached["last_rank"] = _last_rank(sequence, **ready)

    turns = in_turn(prepared.net.train(), heads, tests, [study.training, later], learned, after)
    sequence.matrix, sequence.start, sequence.histories = turns.matrix, turns.start, turns.histories
    if bench.writes:
        notes = [note for task in parts for note in task.notes[-1:]]
        bench.readings.declare(network=study.network.name, data=study.data.name, notes=notes)
        sequence.store(bench.readings)
        for measure, value in reached.items():
            bench.readings.add(measure, value)
    return sequence


def _last_rank(sequence: TaskSequence, **ready: Any) -> float:
    """The numerical rank of the last hidden layer on the test set of task 1."""
    net, test = sequence.prepared.net, Batches(*sequence.tasks[0].test, **ready)
    spots = find_spots(net, next(iter(test))[0][:2], "layers")
    found = scan(net, test, test, places=[spots[-2].place.name], measures="rank", progress=False)
    return float(found.curve("numerical_rank")[0])
