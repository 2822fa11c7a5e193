"""Highway networks (Srivastava, Greff, Schmidhuber, 2015, arXiv 1505.00387)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from winze.place import Place
from winze.shape.branch import Branch, Shortcut
from winze.shape.rule import Pointwise, Rule


@dataclass(frozen=True)
class Highway(Rule):
    """Let a learned gate choose, channel by channel, between the shortcut and the branch.

    y = H(x) x + (1 - H(x)) f(x),   H(x) = sigmoid(W x + b)

    The gate reads the shortcut through one pointwise layer with W = 0 at the start, so that H = sigmoid(bias)
    everywhere. It is the one rule with parameters: they appear in the `state_dict` under the junction.
    """

    bias: float = 0.0

    def gate(self, channels: int, pointwise: Pointwise) -> nn.Module:
        sizes = (channels, channels) if pointwise is nn.Linear else (channels, channels, 1)
        layer: Any = pointwise(*sizes)
        nn.init.zeros_(layer.weight)
        nn.init.constant_(layer.bias, self.bias)
        return layer

    def join(self, place: Place, shortcut: Shortcut, branch: Branch) -> Tensor:
        if branch.gate is None:
            raise RuntimeError(f"junction {place.name!r} has no gate: apply Highway with winze.rewire")
        stream = shortcut()
        carry = torch.sigmoid(branch.gate(stream))
        return branch.onto(carry * stream, (1 - carry) * branch())
