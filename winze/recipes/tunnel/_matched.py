"""Two tasks, the first of which is trained until a training loss is reached."""

from __future__ import annotations

from typing import Any

from winze.data import Batches
from winze.lab import Bench, Continual, TaskSequence, learn, tasks
from winze.observe import scan
from winze.train import CrossEntropy, History, Training
from winze.train.objectives.base import judged


def learn_matched(study: Continual, bench: Bench, later: Training, loss: float, rounds: int) -> None:
    """Train task 1 in rounds of the study's training until its training loss is at most `loss`, then task 2 once.

    The loss is that of the whole training set in eval mode. The rank of the last hidden layer, the loss and the number
    of rounds are stored; a loss that is not reached in all rounds is stored as it is.
    """
    reached: dict[str, float] = {}

    def first(sequence: TaskSequence) -> History:
        prepared, task, tests = sequence.prepared, sequence.tasks[0], sequence.tests
        ready: Any = {"size": 1000, "preprocess": prepared.preprocess, "device": bench.device}
        for count in range(rounds):
            history = learn(prepared, bench, f"task-1-{count + 1}", data=task.train, tests=tests)
            found = judged(prepared.net, Batches(*task.train, **ready), CrossEntropy())
            reached.update(train_loss=found["test_loss"], rounds=count + 1)
            if found["test_loss"] <= loss:
                break
        if bench.writes:
            test = Batches(*task.test, **ready)
            last = scan(prepared.net, test, test, places=sequence.names[-1:], measures="rank", progress=False)
            reached["last_rank"] = float(last.curve("numerical_rank")[0])
        return history

    sequence = tasks(study, bench, study.tasks, later, first=first)
    if bench.writes:
        sequence.store(bench.readings)
        for measure, value in reached.items():
            bench.readings.add(measure, value)
