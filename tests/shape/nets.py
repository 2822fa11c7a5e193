"""Tiny networks that the tests of shaping share, and one training step of them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn

import winze


class NativeMLP(nn.Module):
    """A residual MLP built from native junctions."""

    def __init__(self, depth: int = 4, width: int = 6) -> None:
        super().__init__()
        self.stem = nn.Linear(3, width)
        self.blocks = nn.ModuleList(
            winze.Junction(nn.Sequential(nn.Linear(width, width), nn.GELU())) for _ in range(depth)
        )
        self.head = nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class ConvBlock(nn.Module):
    """The basic block of a ResNet: in-place ReLU, in-place sum, a projection where the shape changes."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.project = None
        if stride != 1 or channels != out:
            self.project = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.project is None else self.project(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += shortcut
        return self.relu(out)


class ForeignCNN(nn.Module):
    """A residual CNN in plain PyTorch, which knows nothing of junctions."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, 1, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True))
        self.blocks = nn.Sequential(ConvBlock(4, 4, 1), ConvBlock(4, 8, 2), ConvBlock(8, 8, 1))
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


class TransformerBlock(nn.Module):
    """A pre-norm block: two residual sums in one forward."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.MultiheadAttention(width, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(x)
        x = x + self.dropout(self.attn(y, y, y, need_weights=False)[0])
        return x + self.dropout(self.mlp(self.norm2(x)))


class ForeignTransformer(nn.Module):
    """A pre-norm transformer over tokens, in plain PyTorch and without BatchNorm."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.stem = nn.Linear(3, 8)
        self.blocks = nn.Sequential(TransformerBlock(8, dropout), TransformerBlock(8, dropout))
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(x)).mean(1))


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
    "foreign cnn": Case(ForeignCNN, (3, 6, 6), 3),
    "foreign transformer": Case(ForeignTransformer, (5, 3), 4),
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
