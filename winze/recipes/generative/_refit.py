"""Softmax regression on the features of each task: fitted anew after every epoch of its task, then frozen for good."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

BATCH = 5000
Labelled = tuple[Tensor, Tensor]
"""preprocessed images and labels from 0"""


@torch.no_grad()
def features_of(net: nn.Module, images: Tensor) -> Tensor:
    """The features of all images, batch by batch."""
    inner: Any = net
    return torch.cat([inner.features(batch) for batch in images.split(BATCH)])


def softmax_regression(
    features: Tensor, labels: Tensor, classes: int, iterations: int, start: Tensor | None = None
) -> Tensor:
    """Weights [class, feature + 1], the last column a bias, by L-BFGS on all samples from zeros or from `start`."""
    weights = torch.zeros(classes, features.shape[1] + 1).to(features) if start is None else start.clone()
    weights.requires_grad_()
    solver = torch.optim.LBFGS([weights], max_iter=iterations, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        solver.zero_grad()
        loss = F.cross_entropy(logits(weights, features), labels)
        loss.backward()
        return loss

    with torch.enable_grad():
        solver.step(closure)
    return weights.detach()


def logits(weights: Tensor, features: Tensor) -> Tensor:
    """The answers of softmax regression."""
    return features @ weights[:, :-1].T + weights[:, -1]


def accuracy(weights: Tensor, features: Tensor, labels: Tensor) -> float:
    """The share of samples that softmax regression labels right."""
    return float((logits(weights, features).argmax(1) == labels).double().mean())


class Refit:
    """A follower that fits the classifier of the active `task` after every epoch, and evaluates all so far.

    A classifier starts from that of the epoch before; those of earlier tasks stay as they are, so that any loss of
    accuracy is due to features that have changed.
    """

    def __init__(self, train: Sequence[Labelled], tests: Sequence[Labelled], iterations: int) -> None:
        self.train, self.tests, self.iterations, self.task = train, tests, iterations, 0
        self.classifiers: dict[str, Tensor] = {}

    def after_epoch(self, net: nn.Module, epoch: int) -> Mapping[str, float]:
        images, labels = self.train[self.task]
        own, known = name_of(self.task), int(labels.max()) + 1
        start = self.classifiers.get(own)
        self.classifiers[own] = softmax_regression(features_of(net, images), labels, known, self.iterations, start)
        return {
            f"accuracy of {name_of(task)}": accuracy(
                self.classifiers[name_of(task)], features_of(net, self.tests[task][0]), self.tests[task][1]
            )
            for task in range(self.task + 1)
        }

    def state_dict(self) -> dict[str, Tensor]:
        return dict(self.classifiers)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        device = self.train[0][0].device
        self.classifiers = {name: weights.to(device) for name, weights in state.items()}


def name_of(task: int) -> str:
    """How a task, counted from 0, is called."""
    return f"task {task + 1}"
