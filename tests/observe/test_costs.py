"""What a network costs: counted exactly, and timed without what else the machine does."""

import time

import torch
from torch import nn

from winze.observe.costs import cost


class Disturbed(nn.Linear):
    """A layer during most of whose calls something else happens."""

    calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if self.calls % 3:
            time.sleep(0.02)
        return super().forward(x)


def test_the_fastest_run_is_told():
    assert cost(Disturbed(4, 4), (torch.zeros(2, 4),)).seconds < 0.02


def test_weights_and_operations_are_counted_and_modes_put_back():
    net = nn.Sequential(nn.Linear(4, 3), nn.Dropout()).train()
    found = cost(net, (torch.zeros(2, 4),))
    assert (found.parameters, found.flops) == (15, 2 * 2 * 4 * 3)
    assert net[1].training
