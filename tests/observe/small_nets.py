"""Tiny networks and data that the tests of observing share."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

import winze


class Block(nn.Module):
    """The basic block of a ResNet: one in-place ReLU used twice, a projection where the shape changes."""

    def __init__(self, channels: int, out: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.project = nn.Conv2d(channels, out, 1, stride) if stride != 1 or channels != out else None

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.project is None else self.project(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += shortcut
        return self.relu(out)


class ResNet(nn.Module):
    """A residual CNN in plain PyTorch, three blocks deep."""

    def __init__(self, classes: int = 3, width: int = 6) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True))
        self.blocks = nn.Sequential(Block(width, width), Block(width, 2 * width, 2), Block(2 * width, 2 * width))
        self.head = nn.Linear(2 * width, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


class ResidualMLP(nn.Module):
    """A residual MLP of native junctions."""

    def __init__(self, inputs: int = 12, width: int = 10, depth: int = 4, classes: int = 3) -> None:
        super().__init__()
        self.stem = nn.Linear(inputs, width)
        self.blocks = nn.Sequential(
            *(winze.Junction(nn.Sequential(nn.Linear(width, width), nn.ReLU())) for _ in range(depth))
        )
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(x.flatten(1))))


def vgg(classes: int = 3) -> nn.Sequential:
    """Conv, norm, ReLU twice, and a classifier of two layers."""
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 3, padding=1),
        nn.BatchNorm2d(6),
        nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(6, 8),
        nn.ReLU(inplace=True),
        nn.Dropout(0.5),
        nn.Linear(8, classes),
    )


def mlp(inputs: int = 12, width: int = 8, depth: int = 3, classes: int = 3) -> nn.Sequential:
    """A plain MLP whose hidden layers are children `0`, `2`, ... and their ReLUs `1`, `3`, ..."""
    sizes = [inputs] + [width] * depth
    hidden: list[nn.Module] = []
    for a, b in pairwise(sizes):
        hidden += [nn.Linear(a, b), nn.ReLU(inplace=True)]
    return nn.Sequential(*hidden, nn.Linear(width, classes))


def lively(net: nn.Module) -> nn.Module:
    """The network with BatchNorm statistics and affine parts away from their start, in eval mode."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, nn.BatchNorm2d):
                for part in (module.weight, module.bias, module.running_mean):
                    part.add_(0.3 * torch.randn(part.shape, generator=generator))
    return net.eval()


def images(n: int, classes: int = 3, size: int = 8, seed: int = 0, channels: int = 3) -> tuple[Tensor, Tensor]:
    """Images of noise around a pattern of their class."""
    patterns = torch.randn(classes, channels, size, size, generator=torch.Generator().manual_seed(100))
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, (n,), generator=generator)
    y[:classes] = torch.arange(classes)[:n]
    return 0.5 * patterns[y] + torch.randn(n, channels, size, size, generator=generator), y


def rows(n: int, classes: int = 3, width: int = 12, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Vectors of noise around a centre of their class."""
    x, y = images(n, classes, 1, seed, width)
    return x.flatten(1), y


def loader(data: tuple[Tensor, Tensor], batch: int) -> list[tuple[Tensor, Tensor]]:
    """The same pair as a list of batches."""
    return list(zip(data[0].split(batch), data[1].split(batch), strict=True))


def hooks_of(net: nn.Module) -> int:
    """How many forward hooks hang on the network."""
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in net.modules())


@torch.no_grad()
def outputs_of(net: nn.Module, name: str, x: Any, call: int = 0) -> Tensor:
    """What the `call`-th call of a module puts out in eval mode, copied at once by a plain hook."""
    found: list[Tensor] = []
    handle = net.get_submodule(name).register_forward_hook(lambda m, a, out: found.append(out.detach().clone()))
    modes = [(m, m.training) for m in net.modules()]
    net.eval()(x)
    for module, mode in modes:
        module.training = mode
    handle.remove()
    return found[call]


def pooled_of(net: nn.Module, name: str, x: Any, call: int = 0) -> Tensor:
    """The same, averaged in float64 over positions of a channels-first map."""
    out = outputs_of(net, name, x, call).double()
    return out.flatten(2).mean(2) if out.ndim > 2 else out
