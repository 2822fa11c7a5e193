"""A classifier, an autoencoder and a variational autoencoder on one trunk (Masarczyk et al., 2021, arXiv 2109.01844).

trunk: x -> encoder -> bottleneck -> decoder -> features, all fully connected; an output layer of each model's own
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from winze.networks.heads import Heads
from winze.networks.models.init import check_sizes
from winze.networks.network_error import NetworkError

HIDDEN = (512, 256, 8, 256, 512)
SampleFeatures = Float[Tensor, "sample feature"]


class Trunk(nn.Module):
    """Hidden layers up to the narrowest (`encoder`) and behind it (`decoder`); whatever comes in is flattened.

        h_l = relu(W_l h_{l-1} + b_l)

    `features` are the values of the last hidden layer.
    """

    def __init__(self, inputs: int = 784, hidden: Sequence[int] = HIDDEN) -> None:
        super().__init__()
        check_sizes(inputs=inputs, hidden=min(hidden, default=0))
        narrowest = list(hidden).index(min(hidden)) + 1
        if narrowest == len(hidden):
            raise NetworkError(f"hidden sizes narrow and widen again, such as {HIDDEN}, not {tuple(hidden)}")
        self.inputs, self.hidden = inputs, tuple(hidden)
        sizes = [inputs, *hidden]
        self.encoder = nn.Sequential(nn.Flatten(), *_layers(sizes[: narrowest + 1]))
        self.decoder = nn.Sequential(*_layers(sizes[narrowest:]))

    def features(self, x: Tensor) -> SampleFeatures:
        """The last hidden layer."""
        return self.decoder(self.encoder(x))


class Discriminative(Trunk):
    """A classifier with an output for each task, of which one is in use: `net.output.use(task)`."""

    def __init__(
        self, inputs: int = 784, hidden: Sequence[int] = HIDDEN, heads: Sequence[int] = (2, 2, 2, 2, 2)
    ) -> None:
        super().__init__(inputs, hidden)
        self.output = Heads(hidden[-1], heads)

    def forward(self, x: Tensor) -> Tensor:
        return self.output(self.features(x))


class Autoencoder(Trunk):
    """An autoencoder: the output has the shape of the input."""

    def __init__(self, inputs: int = 784, hidden: Sequence[int] = HIDDEN) -> None:
        super().__init__(inputs, hidden)
        self.output = nn.Linear(hidden[-1], inputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.output(self.features(x)).view_as(x)


class Variational(Trunk):
    """A variational autoencoder (Kingma & Welling, 2014, arXiv 1312.6114): (x̂, μ, log σ²).

        z = μ + σ ε,   ε ~ N(0, I) in training;   z = μ in evaluation

    Two linear maps of one size give μ and log σ² in place of the bottleneck.
    """

    def __init__(self, inputs: int = 784, hidden: Sequence[int] = HIDDEN) -> None:
        super().__init__(inputs, hidden)
        *before, last, _ = self.encoder
        assert isinstance(last, nn.Linear)
        self.encoder = nn.Sequential(*before)
        self.mean, self.log_variance = last, nn.Linear(last.in_features, last.out_features)
        self.output = nn.Linear(hidden[-1], inputs)

    def code(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The mean and the logarithm of the variance of the code."""
        hidden = self.encoder(x)
        return self.mean(hidden), self.log_variance(hidden)

    def features(self, x: Tensor) -> SampleFeatures:
        """The last hidden layer, of the mean code."""
        return self.decoder(self.code(x)[0])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.code(x)
        noise = torch.randn_like(mean) if self.training else torch.zeros_like(mean)
        code = mean + noise * (log_variance / 2).exp()
        return self.output(self.decoder(code)).view_as(x), mean, log_variance


def _layers(sizes: Sequence[int]) -> list[nn.Module]:
    return [layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU())]


PRESETS: dict[str, dict[str, Any]] = {"discriminative": {}, "autoencoder": {}, "vae": {}}
