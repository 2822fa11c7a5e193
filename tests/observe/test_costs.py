"""What a network costs: counted exactly, and timed without what else the machine does."""

import time

import torch
from torch import nn

from winze.observe.costs import costs


class Disturbed(nn.Linear):
    """A layer during most of whose calls something else happens."""

    calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if self.calls % 3:
            time.sleep(0.02)
        return super().forward(x)


def test_the_fastest_run_is_told():
    assert costs([Disturbed(4, 4)], (torch.zeros(2, 4),))[0].seconds < 0.02


def test_weights_and_operations_are_counted_and_modes_put_back():
    net = nn.Sequential(nn.Linear(4, 3), nn.Dropout()).train()
    whole, part = costs([net, net[0]], (torch.zeros(2, 4),))
    assert (whole.parameters, whole.flops) == (part.parameters, part.flops) == (15, 2 * 2 * 4 * 3)
    assert net[1].training


def test_networks_are_timed_in_turns():
    order = []
    nets = [nn.Linear(4, 4), nn.Linear(4, 4)]
    for number, net in enumerate(nets):
        net.register_forward_hook(lambda *_, number=number: order.append(number))
    costs(nets, (torch.zeros(2, 4),), rounds=3)
    assert order == [0, 1] * 6  # counted once, warmed up twice, timed three times
