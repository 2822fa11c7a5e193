"""Synthetic data by meta-gradients: a generator is judged by what a learner knows that was trained on its images."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from winze.memory import NoRoomError, available
from winze.modes import rng_unchanged
from winze.networks import build, options_for
from winze.train.fields import Count, Positive
from winze.train.objectives.base import Objective, uncompiled
from winze.train.training import Goal
from winze.train.unroll import Course, Unrolled, root, step_bytes, unrolled_bytes


@dataclass(frozen=True)
class Teach(Goal):
    """The loss on real images of a learner that was trained, task by task, on a generator's images (arXiv 2004.14046).

        θ ← θ − η ∇_θ ℓ(S(x_real; w_m), y_real),   w_{t+1} = w_t − e^a v_{t+1},   v_{t+1} = e^b v_t + ∇_w ℓ(S(G_θ; w_t))

    Every meta-iteration shuffles the classes into `tasks`, draws `pool` images per class, and trains a new learner for
    `steps` steps per task on `batch` images per class; no image of an earlier task is shown again. a and b, the
    logarithms of the learning rate and the momentum, are trained too. `recompute`: memory grows with the square root of
    the steps, for one more forward pass. The network is a generator G(z, y), as `winze.networks` builds it.
    """

    learner: str = "winze/learner_cnn"
    options: Mapping[str, Any] = field(default_factory=dict)
    tasks: tuple[int, ...] = (2, 2, 2, 2, 2)
    pool: Count = 250
    batch: Count = 20
    steps: Count = 5
    lr: Positive = 0.02
    momentum: Positive = 0.5
    recompute: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.tasks or min(self.tasks) < 2:
            raise ValueError(f"tasks have at least two classes each, not {self.tasks}")
        if len(set(self.tasks)) > 1:
            raise ValueError(f"tasks of different sizes {self.tasks} have batches of different sizes: give equal sizes")

    def build(self, steps: int) -> Objective:
        return MetaLoss(self)


class MetaLoss(Objective):
    """The loss of a learner on real images, after training on generated ones."""

    def __init__(self, goal: Teach | None = None) -> None:
        super().__init__()
        self.goal = Teach() if goal is None else goal
        self.log_lr = nn.Parameter(torch.tensor(math.log(self.goal.lr)))
        self.log_momentum = nn.Parameter(torch.tensor(math.log(self.goal.momentum)))
        self._unrolled: list[Unrolled] = []  # in a list, since the learner's weights are not trained with the network's
        self._checked = False

    @property
    def rates(self) -> tuple[Tensor, Tensor]:
        """The learning rate and the momentum of the learner."""
        return self.log_lr.exp(), self.log_momentum.exp()

    def forward(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Tensor:
        if y is None:
            raise ValueError("Teach needs real images with labels, and this batch has none")
        goal, classes = self.goal, classes_of(net)
        check_classes(goal.tasks, classes)
        unrolled = self.unrolled(x)
        order = torch.randperm(classes)[: sum(goal.tasks)].tolist()
        images, labels = pools(net, order, goal.tasks, goal.pool, x)
        rates = self.rates
        self._check_memory(unrolled, images, labels, *rates)
        course = Course(images, labels, picks(goal.tasks, goal.pool, goal.batch, goal.steps, x.device))
        unrolled.learner.restart()  # type: ignore[operator]
        state = unrolled.start()
        state = unrolled(state, course, *rates)
        return F.cross_entropy(unrolled.logits(state, x), y)

    def unrolled(self, x: Tensor) -> Unrolled:
        """The learner for images such as x; it is built once."""
        if not self._unrolled or next(self._unrolled[0].learner.parameters()).device != x.device:
            goal = self.goal
            segment = root(goal.steps * len(goal.tasks)) if goal.recompute else 0
            with rng_unchanged():  # a training that resumes builds it at another step
                self._unrolled = [Unrolled(learner(goal.learner, goal.options, x), segment)]
            self._checked = False
        return self._unrolled[0]

    def _check_memory(self, unrolled: Unrolled, images: Tensor, labels: Tensor, lr: Tensor, momentum: Tensor) -> None:
        """Raise, before the first iteration, where its graph would not fit into memory."""
        if self._checked:
            return
        self._checked = True
        goal, left = self.goal, available(images.device)
        steps, batch = goal.steps * len(goal.tasks), goal.batch * max(goal.tasks)
        state, rows = unrolled.start(), torch.arange(batch, device=images.device)[None] % len(labels)
        one = step_bytes(unrolled, state, Course(images, labels, rows), lr, momentum) + rows.nbytes
        wanted = unrolled_bytes(one, state, steps, unrolled.segment)
        if left is not None and wanted > left:
            short = root(steps)
            less = unrolled_bytes(one, state, steps, short)
            hint = "lower steps= or batch="
            if not unrolled.segment:
                hint = f"recompute=True needs about {_gib(less)}, or {hint}"
            raise NoRoomError(
                f"Teach: {steps} unrolled steps of {_gib(one)} each need about {_gib(wanted)}, and "
                f"{_gib(left)} are available: {hint}"
            )


def learner(name: str, options: Mapping[str, Any], x: Tensor) -> nn.Module:
    """A network by name that takes images such as x."""
    return build(name, **{**options_for(name, tuple(x.shape[1:])), **options}).to(x.device, x.dtype)


def classes_of(net: nn.Module) -> int:
    """How many classes a generator knows."""
    found = getattr(uncompiled(net), "classes", None)
    if not isinstance(found, int):
        raise ValueError(f"Teach trains a generator G(z, y) such as winze/generator, not {type(net).__name__}")
    return found


def check_classes(tasks: Sequence[int], classes: int) -> None:
    """Raise where tasks want more classes than there are."""
    if sum(tasks) > classes:
        raise ValueError(f"tasks of {tuple(tasks)} classes need {sum(tasks)}, there are {classes}")


def pools(
    net: nn.Module, order: Sequence[int], tasks: Sequence[int], per_class: int, like: Tensor
) -> tuple[Tensor, Tensor]:
    """Images of all tasks, one after the other, and their labels; batch norms see the images of one task at a time."""
    images, labels, done = [], [], 0
    for size in tasks:
        y = torch.tensor(order[done : done + size], device=like.device).repeat_interleave(per_class)
        z = torch.randn(len(y), uncompiled(net).noise, device=like.device, dtype=like.dtype)
        images.append(net(z, y))
        labels.append(y)
        done += size
    return torch.cat(images), torch.cat(labels)


def picks(tasks: Sequence[int], per_class: int, batch: int, steps: int, device: torch.device) -> Tensor:
    """Rows of the pools [step, image]: for each step `batch` images of each class of its task, with replacement."""
    rows, done = [], 0
    for size in tasks:
        first = per_class * torch.arange(done, done + size, device=device).repeat_interleave(batch)
        rows += [first + torch.randint(per_class, (len(first),), device=device) for _ in range(steps)]
        done += size
    return torch.stack(rows)


def _gib(size: int) -> str:
    return f"{size / 2**30:.2g} GiB" if size >= 2**27 else f"{size / 2**20:.2g} MiB"
