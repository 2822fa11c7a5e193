"""Softmax temperature (Masarczyk et al., 2025, arXiv 2506.01562)."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

Schedule = Callable[[int], float]


class Temperature(nn.Module):
    """Divide logits by a temperature: fixed, scheduled over steps, or following the logits' norm.

    t(e) = e / T,    T > 0
    T = ||E||_F / sqrt(n)    for `Temperature("norm")`, E the n x C logits of the batch

    The norm keeps its gradient: detached, the logits run away. A schedule maps the step (from 0, counted by `step()`)
    to T. The step and T are buffers, so that they are saved, moved and captured with the network.
    """

    def __init__(self, value: float | Schedule | str) -> None:
        super().__init__()
        self.schedule: Schedule | None = None
        self.follows_norm = value == "norm"
        if isinstance(value, str) and not self.follows_norm:
            raise ValueError(f'Temperature takes a number, a schedule or "norm", got {value!r}')
        if callable(value):
            self.schedule = value
        first = 1.0 if isinstance(value, str) else value(0) if callable(value) else float(value)
        self.register_buffer("steps", torch.tensor(0))
        self.register_buffer("temperature", torch.tensor(_positive(first, 0)))
        self.steps: Tensor
        self.temperature: Tensor

    def forward(self, logits: Tensor) -> Tensor:
        if not self.follows_norm:
            return logits / self.temperature
        if logits.ndim != 2:
            raise ValueError(f'Temperature("norm") takes logits of shape [sample, class], got {tuple(logits.shape)}')
        precise = torch.promote_types(logits.dtype, torch.float32)  # in half precision the norm may overflow
        norm = torch.linalg.vector_norm(logits, dtype=precise) / math.sqrt(len(logits))
        return logits / torch.where(norm > 0, norm, 1)  # logits that are all 0, as from a new head, stay 0

    def step(self) -> None:
        """Count one training step; a schedule sets the next temperature."""
        self.steps += 1
        if self.schedule is not None:
            step = int(self.steps)
            self.temperature.fill_(_positive(self.schedule(step), step))

    def extra_repr(self) -> str:
        return '"norm"' if self.follows_norm else f"T={float(self.temperature):g}"


def _positive(value: float, step: int) -> float:
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"a temperature must be positive and finite, got {value!r} at step {step}")
    return float(value)
