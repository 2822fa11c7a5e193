"""Generators of synthetic images, the critic of a conditional GAN, and the learners that are trained on such images.

Batch norms use the statistics of the batch, also in evaluation: they keep none, so that a learner is its weights alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from winze.networks.models.init import check_sizes
from winze.networks.network_error import NetworkError

SLOPE = 0.1
Images = Float[Tensor, "sample channel side side"]


class Generator(nn.Module):
    """Images of a class from noise, by two linear layers and two convolutions (arXiv 2004.14046; 1912.07768).

        x = 2 tanh(conv(up(conv(up(linear(linear([z; onehot(y)])))))))

    Batch norm and LeakyReLU(0.1) stand behind every layer but the last; `up` doubles the side, pads are reflected.
    """

    def __init__(
        self,
        channels: int = 1,
        side: int = 28,
        classes: int = 10,
        noise: int = 128,
        hidden: int = 1024,
        widths: Sequence[int] = (128, 64),
    ) -> None:
        super().__init__()
        check_sizes(channels=channels, side=side, classes=classes, noise=noise, hidden=hidden)
        if side % 4 or side < 8 or len(widths) != 2:
            raise NetworkError(f"a generator doubles the side twice from 2 pixels or more: side 8, 12, ..., not {side}")
        self.classes, self.noise, self.start = classes, noise, (widths[0], side // 4, side // 4)
        first = widths[0] * (side // 4) ** 2
        self.linear = nn.Sequential(
            *(nn.Linear(noise + classes, hidden), _norm1d(hidden), nn.LeakyReLU(SLOPE)),
            *(nn.Linear(hidden, first), _norm1d(first), nn.LeakyReLU(SLOPE)),
        )
        self.convolutions = nn.Sequential(
            *(nn.Upsample(scale_factor=2), nn.Conv2d(widths[0], widths[1], 3, padding=1, padding_mode="reflect")),
            *(_norm2d(widths[1]), nn.LeakyReLU(SLOPE)),
            *(nn.Upsample(scale_factor=2), nn.Conv2d(widths[1], channels, 3, padding=1, padding_mode="reflect")),
        )

    def forward(self, z: Float[Tensor, "sample noise"], y: Int64[Tensor, " sample"]) -> Images:
        hidden = self.linear(labelled(z, y, self.classes))
        return 2 * torch.tanh(self.convolutions(hidden.view(-1, *self.start)))


class DenseGenerator(nn.Module):
    """Images of a class from noise, by linear layers: x = scale tanh(...), with batch norm where `norm` asks for it."""

    def __init__(
        self,
        channels: int = 1,
        side: int = 28,
        classes: int = 10,
        noise: int = 100,
        hidden: Sequence[int] = (256, 512, 1024),
        norm: bool = False,
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        check_sizes(channels=channels, side=side, classes=classes, noise=noise, hidden=min(hidden, default=0))
        self.classes, self.noise, self.shape, self.scale = classes, noise, (channels, side, side), scale
        self.layers = _dense([noise + classes, *hidden], norm)
        self.output = nn.Linear(hidden[-1], channels * side * side)

    def forward(self, z: Float[Tensor, "sample noise"], y: Int64[Tensor, " sample"]) -> Images:
        values = self.output(self.layers(labelled(z, y, self.classes)))
        return self.scale * torch.tanh(values).view(-1, *self.shape)


class Critic(nn.Module):
    """The discriminator of a conditional GAN: one number from an image and its class, given as one vector each."""

    def __init__(self, inputs: int, hidden: Sequence[int] = (512, 256)) -> None:
        super().__init__()
        check_sizes(inputs=inputs, hidden=min(hidden, default=0))
        self.layers = _dense([inputs, *hidden], norm=False)
        self.output = nn.Linear(hidden[-1], 1)

    def forward(self, x: Float[Tensor, "sample value"]) -> Tensor:
        return self.output(self.layers(x))


class Learner(nn.Module):
    """A small classifier that is trained on synthetic images: `depth` layers of a `kind` ("cnn", "mlp") and an output.

    cnn: conv 3x3, max-pooling 3 with stride 2, batch norm, LeakyReLU(0.1); channels double from `width`
    mlp: linear, batch norm, LeakyReLU(0.1); all layers have `width` units
    """

    def __init__(
        self,
        channels: int = 1,
        side: int = 28,
        classes: int = 10,
        kind: str = "cnn",
        width: int = 64,
        depth: int = 2,
    ) -> None:
        super().__init__()
        check_sizes(channels=channels, side=side, classes=classes, width=width, depth=depth)
        if kind not in ("cnn", "mlp"):
            raise NetworkError(f"kind is 'cnn' or 'mlp', not {kind!r}")
        if kind == "mlp":
            self.layers = nn.Sequential(nn.Flatten(), *_dense([channels * side * side] + [width] * depth, True))
            self.output = nn.Linear(width, classes)
        else:
            widths = [channels, *(width * 2**layer for layer in range(depth))]
            self.layers = nn.Sequential(*(part for a, b in pairwise(widths) for part in _convolution(a, b)))
            for _ in range(depth):
                side = -(-side // 2)
            self.output = nn.Linear(widths[-1] * side * side, classes)
        self.restart()

    def restart(self) -> None:
        """Draw new weights: Kaiming-normal, biases 0, norms 1."""
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, a=SLOPE)
                nn.init.zeros_(module.bias)  # type: ignore[arg-type]
            elif isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
                module.reset_parameters()

    def forward(self, x: Images) -> Float[Tensor, "sample class"]:
        return self.output(self.layers(x).flatten(1))


def labelled(x: Tensor, y: Int64[Tensor, " sample"], classes: int) -> Float[Tensor, "sample value"]:
    """Samples as vectors, each with its class behind it as zeros and a one."""
    return torch.cat([x.flatten(1), F.one_hot(y, classes).to(x)], 1)


def _dense(sizes: Sequence[int], norm: bool) -> nn.Sequential:
    parts = ((nn.Linear(a, b), *([_norm1d(b)] if norm else []), nn.LeakyReLU(SLOPE)) for a, b in pairwise(sizes))
    return nn.Sequential(*(part for several in parts for part in several))


def _convolution(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    convolution = nn.Conv2d(inputs, outputs, 3, padding=1)
    return convolution, nn.MaxPool2d(3, 2, padding=1), _norm2d(outputs), nn.LeakyReLU(SLOPE)


def _norm1d(width: int) -> nn.Module:
    return nn.BatchNorm1d(width, track_running_stats=False)


def _norm2d(width: int) -> nn.Module:
    return nn.BatchNorm2d(width, track_running_stats=False)


PRESETS: dict[str, dict[str, Any]] = {
    "generator": {},
    "generator_dense": {},
    "learner_cnn": {},
    "learner_mlp": {"kind": "mlp"},
}
