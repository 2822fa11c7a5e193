"""Diffusion: predict the noise that was added to an image."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from winze.networks.models.uvit import AtTime, kept_signal
from winze.train.fields import Fraction
from winze.train.objectives.base import Objective, uncompiled
from winze.train.objectives.classify import classes_of
from winze.train.training import Goal


@dataclass(frozen=True)
class Denoise(Goal):
    """The simple loss of a variance-preserving SDE (Song et al., 2021, arXiv 2011.13456).

        loss = |ε - net(√ᾱ_t x + √(1 - ᾱ_t) ε, t)|²,   t ~ U(0, 1),   ε ~ N(0, 1)

    With `labels` the network takes the class too, and `drop_labels` of all labels are hidden from it, for
    classifier-free guidance. `read_at` is the time at which a scan reads the network.
    """

    beta: tuple[float, float] = (0.1, 20.0)
    labels: bool = False
    drop_labels: Fraction = 0.15
    read_at: Fraction = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.beta[0] < self.beta[1]:
            raise ValueError(f"beta are the noise rates at t = 0 and t = 1, rising and positive, not {self.beta!r}")

    def build(self, steps: int) -> Objective:
        return NoisePrediction(self)


class NoisePrediction(Objective):
    """The squared error of predicted noise; `view` is the network at a fixed time."""

    capturable = True

    def __init__(self, goal: Denoise | None = None) -> None:
        super().__init__()
        self.goal = Denoise() if goal is None else goal
        self.classes = 0  # how many the labels distinguish, as far as they were seen

    def forward(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Tensor:
        return self._errors(net, x, y, torch.rand(len(x), device=x.device), torch.randn_like(x)).mean()

    def judge(self, net: nn.Module, x: Tensor, y: Tensor | None) -> dict[str, Tensor]:
        """The loss at evenly spaced times with a fixed noise, so that two evaluations agree."""
        generator = torch.Generator(x.device).manual_seed(0)
        noise = torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)
        t = (torch.arange(len(x), device=x.device) + 0.5) / len(x)
        return {"noise_error": self._errors(net, x, y, t, noise).sum()}

    def view(self, net: nn.Module) -> nn.Module:
        return AtTime(net, self.goal.read_at, self.goal.beta)

    def labels(self, y: Tensor | None) -> Tensor | None:
        if y is not None and self.goal.labels:
            self.classes = max(self.classes, classes_of(y))
        return y

    def _errors(self, net: nn.Module, x: Tensor, y: Tensor | None, t: Tensor, noise: Tensor) -> Tensor:
        """The mean squared error of each sample."""
        kept = kept_signal(t, self.goal.beta).to(x.dtype).view(-1, *[1] * (x.ndim - 1))
        noised = kept.sqrt() * x + (1 - kept).sqrt() * noise
        given = (self._labels(net, y),) if self.goal.labels else ()
        return (net(noised, t, *given).float() - noise.float()).square().flatten(1).mean(1)

    def _labels(self, net: nn.Module, y: Tensor | None) -> Tensor:
        if y is None:
            raise ValueError("Denoise(labels=True) needs labels, and the data has none")
        none = int(getattr(uncompiled(net), "labels", 0))
        classes = self.classes if self.training else classes_of(y)  # a captured step cannot look at labels
        if none and classes > none:
            raise ValueError(f"labels go up to {classes - 1}; the network was built for {none} classes")
        if not self.training:
            return y
        hidden = torch.rand(y.shape, device=y.device) < self.goal.drop_labels
        return torch.where(hidden, none, y)
