"""What is minimised: small functions of a network, its inputs and their labels."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from winze.shape import Temperature
from winze.train.config import Ramp, Training

Objective = Callable[[nn.Module, Tensor, Tensor], Tensor]
"""objective(net, x, y) -> the mean loss of the batch; where it has a `step()`, that is called after each step."""


class Classify:
    """Softmax cross-entropy with label smoothing s and temperature T.

        loss = - Σ_c q_c log softmax(logits / T)_c,   q = (1 - s) onehot(y) + s / C

    With `compensate` the loss is multiplied by T.
    """

    def __init__(
        self, smoothing: float = 0.0, temperature: Temperature | None = None, compensate: bool = False
    ) -> None:
        self.smoothing, self.temperature, self.compensate = smoothing, temperature, compensate

    @classmethod
    def of(cls, training: Training, steps: int | None = None) -> Classify:
        """As a training asks for it; a ramp of temperatures wants the number of `steps` in an epoch."""
        value = training.temperature
        if isinstance(value, Ramp):
            if steps is None:
                raise ValueError("a ramp of temperatures wants the number of steps in an epoch")
            return cls(training.smoothing, Temperature(_over(value, training.epochs * steps)), training.compensate)
        return cls(training.smoothing, None if value == 1 else Temperature(value), training.compensate)

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        logits = net(x)
        if self.temperature is None:
            return F.cross_entropy(logits, y, label_smoothing=self.smoothing)
        if not isinstance(logits, Tensor) or logits.ndim != 2:
            said = f"of shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else f"a {type(logits).__name__}"
            raise ValueError(f"a temperature divides logits [sample, class]; {type(net).__name__} puts out {said}")
        self.temperature.to(logits.device)
        loss = F.cross_entropy(self.temperature(logits), y, label_smoothing=self.smoothing)
        return loss * self.temperature.temperature if self.compensate else loss

    def step(self) -> None:
        """Move a scheduled temperature on."""
        if self.temperature is not None:
            self.temperature.step()


def _over(ramp: Ramp, total: int) -> Callable[[int], float]:
    return lambda step: ramp.at(step / max(total, 1))
