"""ResNets of basic blocks for small images, with winze's own junctions."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Literal

import torch.nn.functional as F
from torch import Tensor, nn

from winze.networks.models.init import check_sizes, check_width, started, widened
from winze.networks.network_error import NetworkError
from winze.shape import Junction

BLOCKS = {18: (2, 2, 2, 2), 20: (3, 3, 3), 34: (3, 4, 6, 3)}
CHANNELS = {18: (64, 128, 256, 512), 20: (16, 32, 64), 34: (64, 128, 256, 512)}
Stem = Literal["cifar", "thesis"]


class Block(Junction):
    """A basic block: two 3x3 convolutions, and a 1x1 projection on the shortcut where the shape changes.

    y = relu(rule(x, f)),   f(x) = norm(W_2 * relu(norm(W_1 * x)))
    """

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        branch = OrderedDict(
            conv1=_conv(inputs, outputs, 3, stride),
            norm1=nn.BatchNorm2d(outputs),
            relu=nn.ReLU(),
            conv2=_conv(outputs, outputs, 3),
            norm2=nn.BatchNorm2d(outputs),
        )
        projection = None
        if stride != 1 or inputs != outputs:
            projection = nn.Sequential(
                OrderedDict(conv=_conv(inputs, outputs, 1, stride), norm=nn.BatchNorm2d(outputs))
            )
        super().__init__(nn.Sequential(branch), projection)

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return F.relu(super().forward(x, *args, **kwargs))


class ResNet(nn.Module):
    """ResNet-18 or 34 (four stages from 64 channels), or ResNet-20 (three from 16); `width` multiplies all channels.

    `stem="cifar"` is a 3x3 convolution; "thesis" is 7x7 of `stem_stride`, then a 2x2 max pool. `blocks` is the
    number of blocks in all, by a longer third stage: 8 to 16 of a ResNet-18. `strides` are those of the stages' first
    blocks. `zero_init_last` starts the scale of every block's last norm at zero. Without shortcuts, projections too:
    `rewire(net, NoShortcut())`.
    He et al., 2016, arXiv 1512.03385; the stem with the pool: Masarczyk et al., 2023, arXiv 2305.19753.
    """

    def __init__(
        self,
        depth: int = 18,
        width: float = 1.0,
        classes: int = 10,
        channels: int = 3,
        stem: Stem = "cifar",
        stem_stride: int = 2,
        blocks: int | None = None,
        strides: Sequence[int] | None = None,
        zero_init_last: bool = False,
    ) -> None:
        super().__init__()
        if depth not in BLOCKS:
            raise NetworkError(f"ResNet has a depth of {', '.join(map(str, BLOCKS))}, not {depth}")
        counts = list(BLOCKS[depth])
        if blocks is not None:
            counts[2] += blocks - sum(counts)
            if counts[2] < 1:
                raise NetworkError(f"ResNet-{depth} has at least {sum(counts) - counts[2] + 1} blocks, not {blocks}")
        strides = (1,) + (2,) * (len(counts) - 1) if strides is None else tuple(strides)
        check_sizes(classes=classes, channels=channels, stride=min(strides))
        check_width(width)
        if len(strides) != len(counts):
            raise NetworkError(f"ResNet-{depth} has {len(counts)} stages, and strides for as many, not {strides}")
        sizes = [widened(full, width) for full in CHANNELS[depth]]
        self.stem = _stem(stem, channels, sizes[0], stem_stride)
        stages: list[nn.Module] = []
        inputs = sizes[0]
        for count, outputs, stride in zip(counts, sizes, strides, strict=True):
            first = Block(inputs, outputs, stride)
            stages.append(nn.Sequential(first, *(Block(outputs, outputs, 1) for _ in range(count - 1))))
            inputs = outputs
        self.stages = nn.Sequential(*stages)
        self.output = nn.Linear(inputs, classes)
        if zero_init_last:
            for block in (block for block in self.modules() if isinstance(block, Block)):
                nn.init.zeros_(block.branch.get_parameter("norm2.weight"))

    def forward(self, x: Tensor) -> Tensor:
        return self.output(self.stages(self.stem(x)).mean((2, 3)))


def _stem(kind: Stem, channels: int, outputs: int, stride: int) -> nn.Sequential:
    if kind not in ("cifar", "thesis"):
        raise NetworkError(f"stem is 'cifar' or 'thesis', not {kind!r}")
    if stride not in (1, 2):
        raise NetworkError(f"stem_stride is 1 or 2, not {stride}")
    cifar = kind == "cifar"
    conv = _conv(channels, outputs, 3) if cifar else _conv(channels, outputs, 7, stride)
    layers = OrderedDict[str, nn.Module](conv=conv, norm=nn.BatchNorm2d(outputs), relu=nn.ReLU())
    if not cifar:
        layers["pool"] = nn.MaxPool2d(2)
    return nn.Sequential(layers)


def _conv(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Conv2d:
    return started(nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False), "fan_out")
