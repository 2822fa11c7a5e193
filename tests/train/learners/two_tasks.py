"""A learner of two tasks, one after the other, with a head and a test set for each."""

from pathlib import Path

import torch

from winze.data import Preprocess, load, split_classes
from winze.networks import MLP, give_heads
from winze.train import SGD, Checkpoints, CrossEntropy, Epochs, Objective, Steps, Training, fit


class OfItsTask(Objective):
    """Cross-entropy of the head of the task, which labels [class, task] name."""

    def __init__(self, heads):
        super().__init__()
        self.inner, self.heads = CrossEntropy(), heads

    def forward(self, net, x, y):
        self.heads.use(int(y[0, 1]))
        return self.inner(net, x, y[:, 0])

    def judge(self, net, x, y):
        self.heads.use(int(y[0, 1]))
        return self.inner.judge(net, x, y[:, 0])


def of_task(part, task):
    return part[0], torch.stack([part[1], torch.full_like(part[1], task)], 1)


def learn(checkpoints=None, **rest):
    digits, net = load("digits", limit=800), MLP(64, 32, 2, 10)
    tasks = split_classes(digits, (5, 5))
    heads = give_heads(net, [len(task.classes) for task in tasks])
    tests = {f"task {i}": of_task(task.test, i) for i, task in enumerate(tasks)}
    preprocess, histories = Preprocess.of(digits), []
    for i, task in enumerate(tasks):
        folder = None if checkpoints is None else Checkpoints(Path(checkpoints.folder, str(i)))
        training = Training(Epochs(4), 32, SGD(0.05, momentum=0.9), objective=OfItsTask(heads), checkpoint=Steps(5))
        given = {"preprocess": preprocess, "tests": tests, "checkpoints": folder, "seed": i}
        histories.append(fit(net, of_task(task.train, i), training, **given, **rest))
    return histories[-1], {"net": net}
