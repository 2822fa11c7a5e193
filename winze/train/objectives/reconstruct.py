"""Reconstruction: of whole inputs, and of the hidden patches of images."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

from torch import Tensor, nn

from winze.shape import DecayedIdentity
from winze.shape.find import wired
from winze.train.objectives.base import Objective, encoder_of, uncompiled
from winze.train.training import Goal

UNSTABLE = 0.4


@dataclass(frozen=True)
class Reconstruct(Goal):
    """The squared error of an autoencoder: |net(x) - x|², averaged over values."""

    def build(self, steps: int) -> Objective:
        return SquaredError()


class SquaredError(Objective):
    """The squared error of an autoencoder; `view` is its `encoder`, where it has one."""

    capturable = True

    def forward(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Tensor:
        return (net(x).float() - x.float()).square().mean()

    def judge(self, net: nn.Module, x: Tensor, y: Tensor | None) -> dict[str, Tensor]:
        return {"reconstruction": (net(x).float() - x.float()).square().flatten(1).mean(1).sum()}

    def view(self, net: nn.Module) -> nn.Module:
        return encoder_of(net)


@dataclass(frozen=True)
class MaskedReconstruct(Goal):
    """The squared error on hidden patches (He et al., 2022, arXiv 2111.06377).

        loss = Σ_i m_i |p_i - t_i|² / (D Σ_i m_i),   m_i = 1 where patch i of D values was hidden

    With `normalised` each target patch has mean 0 and variance 1. The network gives (patches, mask), and has `patches`
    and `encoder`, as `winze.networks` builds it (winze/mae_32).
    """

    normalised: bool = True

    def build(self, steps: int) -> Objective:
        return MaskedSquaredError(self.normalised)


class MaskedSquaredError(Objective):
    """The squared error on hidden patches; `view` is the encoder, which is given whole images."""

    capturable = True

    def __init__(self, normalised: bool = True) -> None:
        super().__init__()
        self.normalised, self._warned = normalised, False

    def forward(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Tensor:
        self._warn_of_decay(net)
        errors, mask = self._errors(net, x)
        return (errors * mask).sum() / mask.sum()

    def judge(self, net: nn.Module, x: Tensor, y: Tensor | None) -> dict[str, Tensor]:
        errors, mask = self._errors(net, x)
        return {"reconstruction": ((errors * mask).sum(1) / mask.sum(1)).sum()}

    def view(self, net: nn.Module) -> nn.Module:
        return net.get_submodule("encoder")

    def _errors(self, net: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
        """The mean squared error of every patch [sample, patch], and where patches were hidden."""
        predicted, mask = net(x)
        target = uncompiled(net).patches(x).float()
        if self.normalised:
            spread = (target.var(2, keepdim=True) + 1e-6).sqrt()
            target = (target - target.mean(2, keepdim=True)) / spread
        return (predicted.float() - target).square().mean(2), mask.float()

    def _warn_of_decay(self, net: nn.Module) -> None:
        if self._warned:
            return
        self._warned = True
        decayed = [one for one in wired(uncompiled(net)) if isinstance(one.rule, DecayedIdentity)]
        if decayed and min(one.rule.alpha_min for one in decayed) <= UNSTABLE:  # type: ignore[attr-defined]
            product = math.prod(one.rule.weight(one.seat) for one in decayed)  # type: ignore[attr-defined]
            warnings.warn(
                f"{decayed[0].rule!r} in a masked autoencoder: the paper reports unstable training at alpha_min <= "
                f"{UNSTABLE}; the factors of these {len(decayed)} branches multiply to {product:.2g}, so that the last "
                "blocks start almost without input: on CIFAR-10 even alpha_min = 0.6 (24 branches, 0.0036) was behind "
                "plain shortcuts for the first 60 to 110 epochs",
                stacklevel=2,
            )
