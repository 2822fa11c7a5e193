"""Branches that one mask for the batch leaves out: what else hangs on them behaves as in the dense form."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import winze


def batch() -> Tensor:
    return torch.randn(4, 6, generator=torch.Generator().manual_seed(0))


class OwnNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(6))
        self.register_buffer("table", torch.arange(36.0).view(6, 6))
        self.mean: Tensor

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.mean.lerp_(x.detach().mean(0), 0.1)
        return x - self.mean


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.f, self.norm = nn.Linear(6, 6), OwnNorm()

    def forward(self, x: Tensor) -> Tensor:
        return x + self.norm(self.f(x))


class Steered(nn.Module):
    """A block that is handed something besides its stream."""

    def __init__(self) -> None:
        super().__init__()
        self.f, self.g = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: Tensor, steer: Tensor) -> Tensor:
        return x + self.f(x.tanh() + self.g(steer).relu())


class Steering(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.block = nn.Linear(6, 6), Steered()

    def forward(self, x: Tensor) -> Tensor:
        return self.block(x, self.embed(torch.ones_like(x)))


@pytest.mark.parametrize("make", [lambda: nn.Sequential(Normed(), Normed()), Steering])
def test_a_mask_for_the_batch_leaves_buffers_and_gradients_as_the_dense_form_does(
    make: Callable[[], nn.Module],
) -> None:
    torch.manual_seed(0)
    plain, seen = make(), []
    for compute in ("auto", "dense"):
        net = copy.deepcopy(plain)
        rule = winze.ResidualDropPath(0.6, profile="constant", mask="batch", compute=compute)
        winze.rewire(net, rule, example=batch())
        alternation = winze.Alternation(net, rows=4, seed=1)
        optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9, weight_decay=0.1)
        for _ in range(8):
            optimizer.zero_grad()
            net(batch()).square().mean().backward()
            assert all(p.grad is not None for p in net.parameters())
            optimizer.step()
            alternation.step()
        seen.append([*net.parameters(), *net.buffers()])
    for one, two in zip(*seen, strict=True):
        torch.testing.assert_close(one, two)


def test_a_buffer_that_no_run_writes_lets_a_branch_be_left_out() -> None:
    class Tabled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.f = nn.Linear(6, 6)
            self.register_buffer("table", torch.ones(6, 6))
            self.calls = 0

        def forward(self, x: Tensor) -> Tensor:
            return x + self.f(x)

    net = winze.rewire(nn.Sequential(Tabled()), winze.DropPath(0.999, mask="batch"), example=batch())
    ran: list[int] = []
    net[0].f.register_forward_hook(lambda *_: ran.append(1))
    torch.manual_seed(0)
    for _ in range(20):
        net(batch())
    assert len(ran) < 4


def test_a_branch_made_in_inference_mode_runs_in_train_mode() -> None:
    """Its buffers have no version counter."""
    with torch.inference_mode():
        net = nn.Sequential(winze.Junction(OwnNorm())).train()
        assert net(batch()).shape == (4, 6)


def test_a_program_has_the_signature_of_the_forward() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.f = nn.Linear(6, 6)

        def forward(self, x: Tensor, scale: float = 2.0) -> Tensor:
            return x + scale * self.f(x)

    block = Scaled()
    before = inspect.signature(block.forward)
    winze.rewire(block, winze.ResidualDropPath(0.5), example=batch())
    assert inspect.signature(block.forward) == before
