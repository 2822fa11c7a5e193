"""VGG for small images: convolutions in five stages, then three linear layers."""

from __future__ import annotations

from collections import OrderedDict
from typing import Literal

from torch import Tensor, nn

from winze.networks.models.init import check_sizes, check_width, started, widened
from winze.networks.network_error import NetworkError

CONVS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
CHANNELS = (64, 128, 256, 512, 512)
FEATURES = 512


class VGG(nn.Module):
    """VGG-11, 13, 16 or 19: stages of 3x3 convolutions with a pool after each, and 512-512-C linear layers.

        h_l = relu(norm(W_l * h_{l-1} + b_l)),   C_stage = width (64, 128, 256, 512, 512)

    A layer's number is in its name: `layers.conv8`, `layers.fc17`, `output`. `convs` keeps fewer convolutions and all
    five pools: the deepest go first. Images of 32 x 32 end as one position; smaller ones do so earlier, and of
    larger ones the positions are averaged.
    Simonyan & Zisserman, 2015, arXiv 1409.1556; the size for CIFAR: Masarczyk et al., 2023, arXiv 2305.19753.
    """

    def __init__(
        self,
        depth: int = 19,
        width: float = 1.0,
        classes: int = 10,
        channels: int = 3,
        norm: Literal["batch", "none"] = "batch",
        convs: int | None = None,
    ) -> None:
        super().__init__()
        if depth not in CONVS:
            raise NetworkError(f"VGG has a depth of {', '.join(map(str, CONVS))}, not {depth}")
        if norm not in ("batch", "none"):
            raise NetworkError(f"norm is 'batch' or 'none', not {norm!r}")
        check_sizes(classes=classes, channels=channels)
        check_width(width)
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        number, inputs = 0, channels
        for stage, (count, full) in enumerate(zip(kept(CONVS[depth], convs), CHANNELS, strict=True), 1):
            for _ in range(count):
                number += 1
                outputs = widened(full, width)
                layers[f"conv{number}"] = _convolution(inputs, outputs, norm)
                inputs = outputs
            layers[f"pool{stage}"] = nn.MaxPool2d(2, ceil_mode=True)
        layers["mean"] = nn.AdaptiveAvgPool2d(1)
        layers["flat"] = nn.Flatten()
        for _ in range(2):
            number += 1
            outputs = widened(FEATURES, width)
            linear = started(nn.Linear(inputs, outputs))
            layers[f"fc{number}"] = nn.Sequential(OrderedDict(linear=linear, relu=nn.ReLU()))
            inputs = outputs
        self.layers = nn.Sequential(layers)
        self.output = started(nn.Linear(inputs, classes))

    def forward(self, x: Tensor) -> Tensor:
        return self.output(self.layers(x))


def kept(stages: tuple[int, ...], convs: int | None) -> tuple[int, ...]:
    """The convolutions of each stage where only so many stay; the deepest go first.

    >>> kept((2, 2, 4, 4, 4), 9)
    (2, 2, 4, 1, 0)
    """
    if convs is None:
        return stages
    if not 1 <= convs <= sum(stages):
        raise NetworkError(f"convs is at least 1 and at most {sum(stages)}, not {convs}")
    return tuple(max(0, min(count, convs - sum(stages[:stage]))) for stage, count in enumerate(stages))


def _convolution(inputs: int, outputs: int, norm: str) -> nn.Sequential:
    conv = started(nn.Conv2d(inputs, outputs, 3, padding=1))
    after = [("norm", nn.BatchNorm2d(outputs))] if norm == "batch" else []
    return nn.Sequential(OrderedDict([("conv", conv), *after, ("relu", nn.ReLU())]))
