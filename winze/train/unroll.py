"""Gradient descent as a differentiable function of its data, learning rate and momentum.

v ← momentum v + ∇ℓ(w),   w ← w − lr v,   ℓ the cross-entropy of one batch; every step stays in the graph

With segments, only the state between them is stored, and each is computed again in the backward pass: of m steps in
segments of √m, memory grows with √m, for one more forward pass.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.func import functional_call

from winze.memory import saved_bytes

LearnerState = list[Tensor]
"""the weights of a learner, then their velocities"""


@dataclass(frozen=True, eq=False)
class Course:
    """What a learner is shown: a pool of samples, and the rows of it that each step takes."""

    images: Tensor
    labels: Int64[Tensor, " sample"]
    picks: Int64[Tensor, "step batch"]


class Unrolled:
    """A learner whose training can be differentiated.

    `segment`: how many steps are computed again at once in the backward pass; 0 keeps the graph of all steps.
    """

    def __init__(self, learner: nn.Module, segment: int = 0) -> None:
        if segment < 0:
            raise ValueError(f"segment is a number of steps, or 0 for none, not {segment}")
        if next(learner.buffers(), None) is not None:
            raise ValueError(
                f"{type(learner).__name__} has buffers, which an unrolled training would change: use batch norms with "
                "track_running_stats=False"
            )
        self.learner, self.segment = learner, segment
        self.names = [name for name, _ in learner.named_parameters()]

    def start(self) -> LearnerState:
        """The learner's weights as they are now, with velocities of 0."""
        weights = [weight.detach().clone().requires_grad_() for weight in self.learner.parameters()]
        return [*weights, *(torch.zeros_like(weight) for weight in weights)]

    def logits(self, state: LearnerState, x: Tensor) -> Float[Tensor, "sample class"]:
        """What a learner with these weights answers."""
        return functional_call(self.learner, dict(zip(self.names, state, strict=False)), (x,))

    def __call__(self, state: LearnerState, course: Course, lr: Tensor, momentum: Tensor) -> LearnerState:
        """The state after all steps of a course, as a function of images, lr, momentum and the state before."""
        if not self.segment:
            return self.steps(state, course, lr, momentum)
        for rows in course.picks.split(self.segment):
            found = _Segment.apply(self, course.labels, rows, lr, momentum, course.images, *state)
            state = list(found)
        return state

    def steps(
        self, state: LearnerState, course: Course, lr: Tensor | float, momentum: Tensor | float, graph: bool = True
    ) -> LearnerState:
        """Take each step of a course; without `graph` nothing of it can be differentiated."""
        count = len(self.names)
        weights, velocity = state[:count], state[count:]
        for rows in course.picks:
            if not graph:
                weights = [weight.detach().requires_grad_() for weight in weights]
            with torch.enable_grad():
                loss = F.cross_entropy(self.logits(weights, course.images[rows]), course.labels[rows])
                slopes = torch.autograd.grad(loss, weights, create_graph=graph)
            with torch.set_grad_enabled(graph):
                velocity = [momentum * v + slope for v, slope in zip(velocity, slopes, strict=True)]
                weights = [weight - lr * v for weight, v in zip(weights, velocity, strict=True)]
        return [*weights, *velocity]


class _Segment(torch.autograd.Function):
    """Some steps, whose graph is built in the backward pass and dropped again."""

    @staticmethod
    def forward(ctx: Any, unrolled: Unrolled, labels: Tensor, rows: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
        ctx.unrolled, ctx.labels, ctx.rows = unrolled, labels, rows
        ctx.save_for_backward(*inputs)
        lr, momentum, images, *state = (one.detach() for one in inputs)
        return tuple(unrolled.steps(state, Course(images, labels, rows), lr, momentum, graph=False))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        inputs = [one.detach().requires_grad_() for one in ctx.saved_tensors]
        lr, momentum, images, *state = inputs
        with torch.enable_grad():
            outputs = ctx.unrolled.steps(state, Course(images, ctx.labels, ctx.rows), lr, momentum)
        found = torch.autograd.grad(outputs, inputs, gradients, allow_unused=True)
        return None, None, None, *found


def root(steps: int) -> int:
    """The length of segments for which so many steps need least memory."""
    return max(1, math.isqrt(steps - 1) + 1) if steps > 0 else 1


def step_bytes(unrolled: Unrolled, state: LearnerState, course: Course, lr: Tensor, momentum: Tensor) -> int:
    """The bytes that the graph of one step stores, measured on the first step of a course."""
    first = Course(course.images.detach(), course.labels, course.picks[:1])
    return saved_bytes(lambda: unrolled.steps(state, first, lr, momentum), (*state, course.images, course.labels))


def unrolled_bytes(step: int, state: Sequence[Tensor], steps: int, segment: int) -> int:
    """The bytes that a backward pass through so many steps needs: graphs of steps, and states between segments.

    plain: steps x step;   in segments: segment x step + steps / segment x state
    """
    if not segment:
        return steps * step
    size = sum(one.numel() * one.element_size() for one in state)
    return min(segment, steps) * step + -(-steps // segment) * size
