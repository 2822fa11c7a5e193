"""The weights of past steps, few enough to keep and close enough to scrub through."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from winze.networks import SpiralMLP

MOST, MOST_BYTES = 240, 64 << 20


@dataclass
class Snapshots:
    """Weights at multiples of a stride that doubles whenever there are too many; step 0 always stays."""

    most: int = MOST
    stride: int = 1
    kept: dict[int, list[Tensor]] = field(default_factory=dict)

    @classmethod
    def of(cls, nets: list[SpiralMLP]) -> Snapshots:
        """Empty, with room for as many as fit into memory."""
        size = sum(4 * sum(one.numel() for one in net.parameters()) for net in nets)
        return cls(most=max(16, min(MOST, MOST_BYTES // size)))

    @property
    def steps(self) -> list[int]:
        return sorted(self.kept)

    def add(self, step: int, nets: list[SpiralMLP]) -> None:
        """Keep the weights of this step, if it is one of those that are kept."""
        if step % self.stride:
            return
        self.kept[step] = [parameters_to_vector(net.parameters()).detach().clone() for net in nets]
        if len(self.kept) > self.most:
            self.stride *= 2
            self.kept = {step: one for step, one in self.kept.items() if step % self.stride == 0}

    def nearest(self, step: int) -> int:
        """The kept step that lies nearest to this one."""
        return min(self.kept, key=lambda one: abs(one - step))

    def networks(self, step: int, nets: list[SpiralMLP]) -> list[SpiralMLP]:
        """Copies of the networks with the weights of a kept step."""
        found = [copy.deepcopy(net) for net in nets]
        with torch.no_grad():
            for net, weights in zip(found, self.kept[step], strict=True):
                vector_to_parameters(weights, net.parameters())
        return found
