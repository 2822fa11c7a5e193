"""Tiny networks that tests share, in plain PyTorch but for the junctions of the residual MLP."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

import winze


class Block(nn.Module):
    """The basic block of a ResNet: one in-place ReLU used twice, in-place sum, a projection where the shape changes."""

    def __init__(self, channels: int, out: int, stride: int = 1) -> None:
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


class ResNet(nn.Module):
    """A residual CNN, three blocks deep, which knows nothing of junctions."""

    def __init__(self, classes: int = 3, width: int = 6) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True))
        self.blocks = nn.Sequential(Block(width, width), Block(width, 2 * width, 2), Block(2 * width, 2 * width))
        self.head = nn.Linear(2 * width, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


class ResidualMLP(nn.Module):
    """A residual MLP of native junctions."""

    def __init__(
        self, depth: int = 4, width: int = 10, inputs: int = 12, classes: int = 3, activation: type[nn.Module] = nn.ReLU
    ) -> None:
        super().__init__()
        self.stem = nn.Linear(inputs, width)
        self.blocks = nn.Sequential(
            *(winze.Junction(nn.Sequential(nn.Linear(width, width), activation())) for _ in range(depth))
        )
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(x.flatten(1))))


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


class Transformer(nn.Module):
    """A pre-norm transformer over tokens, in plain PyTorch and without BatchNorm."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.stem = nn.Linear(3, 8)
        self.blocks = nn.Sequential(TransformerBlock(8, dropout), TransformerBlock(8, dropout))
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(x)).mean(1))


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
