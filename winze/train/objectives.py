"""What is minimised: small functions of a network, its inputs and their labels."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from winze.shape import Temperature
from winze.train.config import Training

Objective = Callable[[nn.Module, Tensor, Tensor], Tensor]
"""objective(net, x, y) -> the mean loss of the batch; where it has a `step()`, that is called after each step."""


class Classify:
    """Softmax cross-entropy with label smoothing s and temperature T.

    loss = - Σ_c q_c log softmax(logits / T)_c,   q = (1 - s) onehot(y) + s / C
    """

    def __init__(self, smoothing: float = 0.0, temperature: Temperature | None = None) -> None:
        self.smoothing, self.temperature = smoothing, temperature

    @classmethod
    def of(cls, training: Training) -> Classify:
        """As a training asks for it."""
        plain = training.temperature == 1
        return cls(training.smoothing, None if plain else Temperature(training.temperature))

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        logits = net(x)
        if self.temperature is not None:
            logits = self.temperature.to(logits.device)(logits)
        return F.cross_entropy(logits, y, label_smoothing=self.smoothing)

    def step(self) -> None:
        """Move a scheduled temperature on."""
        if self.temperature is not None:
            self.temperature.step()
