"""The networks on which every rule is tested, and one training step of them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import torch
from nets import ResidualMLP, ResNet, Transformer
from torch import Tensor, nn

import winze

NativeMLP = partial(ResidualMLP, width=6, inputs=3, classes=2, activation=nn.GELU)


@dataclass(frozen=True)
class Case:
    """A network, the shape of one of its samples, and how many junctions it has."""

    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    junctions: int

    def make(self, dtype: torch.dtype = torch.float64) -> nn.Module:
        torch.manual_seed(1)
        return self.build().to(dtype)

    def batch(self, samples: int = 6, dtype: torch.dtype = torch.float64) -> Tensor:
        generator = torch.Generator().manual_seed(2)
        return torch.randn(samples, *self.shape, generator=generator, dtype=dtype)


CASES = {
    "native mlp": Case(NativeMLP, (3,), 4),
    "foreign cnn": Case(partial(ResNet, 2, 4), (3, 6, 6), 3),
    "foreign transformer": Case(Transformer, (5, 3), 4),
}
WITHOUT_BATCHNORM = {name: case for name, case in CASES.items() if name != "foreign cnn"}


def rewired(case: Case, rule: winze.Rule) -> nn.Module:
    """A fresh copy of a case's network under a rule."""
    return copy.deepcopy(_rewired(case, rule))


@cache
def _rewired(case: Case, rule: winze.Rule) -> nn.Module:
    return winze.rewire(case.make(), rule, example=case.batch())


@dataclass(frozen=True)
class Step:
    """What one forward and backward leaves behind."""

    output: Tensor
    gradients: dict[str, Tensor | None]
    buffers: dict[str, Tensor]
    input_gradient: Tensor


def take_step(net: nn.Module, x: Tensor) -> Step:
    """Forward and backward of a squared loss, from a fixed seed."""
    torch.manual_seed(3)
    net.zero_grad()
    x = x.clone().requires_grad_()
    output = net(x)
    output.square().sum().backward()
    assert x.grad is not None
    gradients = {name: None if p.grad is None else p.grad.clone() for name, p in net.named_parameters()}
    return Step(output.detach(), gradients, {n: b.clone() for n, b in net.named_buffers()}, x.grad)


def assert_steps_equal(actual: Step, expected: Step, tolerance: float = 0.0) -> None:
    for part in ("output", "gradients", "buffers", "input_gradient"):
        torch.testing.assert_close(getattr(actual, part), getattr(expected, part), rtol=tolerance, atol=tolerance)


def set_masks(alternation: winze.Alternation, table: Tensor, stage: int) -> None:
    """Put an alternation into a stage with a given [junction, sample] table of kept samples."""
    state = alternation.state_dict()
    state.update(table=table.bool(), rows=table.shape[1], stage=stage, steps=stage - 1)
    alternation.load_state_dict(state)


def masks(alternation: winze.Alternation) -> Tensor:
    """The [junction, sample] table of kept samples."""
    return alternation.state_dict()["table"].clone()
