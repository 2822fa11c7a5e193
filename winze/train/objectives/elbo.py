"""Variational autoencoders: the evidence lower bound, in named parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from winze.train.fields import Limits, NotNegative
from winze.train.objectives.base import Objective, encoder_of, in_float, uncompiled
from winze.train.training import Goal


@dataclass(frozen=True)
class Elbo(Goal):
    """The negative evidence lower bound of a variational autoencoder (Kingma & Welling, 2014, arXiv 1312.6114).

        loss = Σ_i d(x̂_i, x_i) + β KL,   KL = ½ Σ_j (μ_j² + σ_j² - 1 - log σ_j²)

    `likelihood` "gaussian": d is the squared error; "bernoulli": cross-entropy of x in [0, 1], where x̂ are logits.
    The weight of the KL term rises from 0 to `beta` over the first `warmup` of training, a share. The network gives
    (x̂, μ, log σ²), as `winze.networks` builds it (winze/vae); sums are over values, means over samples.
    """

    beta: NotNegative = 1.0
    warmup: Annotated[float, Limits("a number in [0, 1]", lambda value: 0 <= value <= 1)] = 0.0
    likelihood: Literal["gaussian", "bernoulli"] = "gaussian"

    def build(self, steps: int) -> Objective:
        return NegativeElbo(self, round(self.warmup * steps))


class NegativeElbo(Objective):
    """The parts "distortion" (how far x̂ is from x) and "kl"; judged by the squared error of the mean code's x̂."""

    capturable = True  # the weight of the KL term is a buffer, which `advance` fills

    weight: Tensor

    def __init__(self, goal: Elbo | None = None, warmup: int = 0) -> None:
        super().__init__()
        self.goal, self.warmup, self.done = Elbo() if goal is None else goal, warmup, 0
        self.register_buffer("weight", torch.tensor(self._weight()), persistent=False)

    def forward(self, net: nn.Module, x: Tensor, y: Tensor | None) -> dict[str, Tensor]:
        distortion, kl, _ = self._parts(net, x)
        return {"distortion": distortion.mean(), "kl": self.weight * kl.mean()}

    def judge(self, net: nn.Module, x: Tensor, y: Tensor | None) -> dict[str, Tensor]:
        """The squared error, averaged over values as `Reconstruct` has it, the KL divergence, and their bound."""
        distortion, kl, found = self._parts(net, x)
        found = found.sigmoid() if self.goal.likelihood == "bernoulli" else found
        error = (found - in_float(x)).square().flatten(1).mean(1)
        return {"reconstruction": error.sum(), "divergence": kl.sum(), "negative_elbo": (distortion + kl).sum()}

    def view(self, net: nn.Module) -> nn.Module:
        return encoder_of(net)

    def advance(self) -> None:
        self.done += 1
        self.weight.fill_(self._weight())

    def get_extra_state(self) -> int:
        return self.done

    def set_extra_state(self, state: int) -> None:
        self.done = state
        self.weight.fill_(self._weight())

    def _weight(self) -> float:
        return self.goal.beta * (min(1.0, self.done / self.warmup) if self.warmup else 1.0)

    def _parts(self, net: nn.Module, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Distortion and KL divergence of every sample, and x̂."""
        given = net(x)
        if not (isinstance(given, tuple) and len(given) == 3):
            raise ValueError(
                f"Elbo takes (x̂, μ, log σ²) of a variational autoencoder such as winze/vae; "
                f"{type(uncompiled(net)).__name__} outputs a {type(given).__name__}"
            )
        found, mean, log_variance, target = (in_float(part) for part in (*given, x))
        if self.goal.likelihood == "bernoulli":
            each = F.binary_cross_entropy_with_logits(found, target, reduction="none")
        else:
            each = (found - target).square()
        kl = (mean.square() + log_variance.exp() - 1 - log_variance).sum(1) / 2
        return each.flatten(1).sum(1), kl, found
