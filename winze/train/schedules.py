"""The learning rate over training."""

from __future__ import annotations

import math
from collections.abc import Callable

from winze.train.config import Training


def learning_rate(training: Training, steps: int) -> Callable[[int], float]:
    """The rate of each step, counted from 0, where an epoch has `steps` of them (see `Training`)."""

    def rate(step: int) -> float:
        epoch = step // steps if training.per == "epoch" else step / steps
        if epoch < training.warmup:
            return training.warmup_lr + (training.lr - training.warmup_lr) * epoch / training.warmup
        if training.schedule == "step":
            return training.lr * training.gamma ** sum(epoch >= milestone for milestone in training.milestones)
        if training.schedule == "cosine":
            share = epoch / training.epochs
            return training.min_lr + (training.lr - training.min_lr) * (1 + math.cos(math.pi * share)) / 2
        return training.lr

    return rate
