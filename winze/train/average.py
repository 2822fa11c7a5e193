"""An average of the weights over the last steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Average:
    """The exponential moving average of all that a network's `state_dict` holds.

    a ← d a + (1 - d) w   after each step, with decay d

    Whole numbers, such as BatchNorm's count of batches, are taken as they are.
    """

    def __init__(self, net: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights = {name: value.detach().clone() for name, value in net.state_dict().items()}
        self._pairs = [(self.weights[name], value) for name, value in net.state_dict(keep_vars=True).items()]

    @torch.no_grad()
    def update(self) -> None:
        """Take in the weights as they are now; always the same operations on the same memory."""
        real = [(a, w.detach()) for a, w in self._pairs if a.is_floating_point()]
        torch._foreach_lerp_([a for a, _ in real], [w for _, w in real], 1 - self.decay)
        for a, w in self._pairs:
            if not a.is_floating_point():
                a.copy_(w)

    @torch.no_grad()
    def load_state_dict(self, weights: dict[str, Tensor]) -> None:
        """Go back to an average that was kept."""
        for name, value in weights.items():
            self.weights[name].copy_(value)

    @contextmanager
    def inside(self, net: nn.Module) -> Iterator[None]:
        """Put the average into the network for a while."""
        own = {name: value.clone() for name, value in net.state_dict().items()}
        net.load_state_dict(self.weights)
        try:
            yield
        finally:
            net.load_state_dict(own)
