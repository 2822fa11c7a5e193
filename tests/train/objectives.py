"""Every objective of the library with a small network and data for it: captured steps are held against plain ones.

A new objective joins by one line.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from winze.networks import MLP
from winze.networks.models.autoencoder import Variational
from winze.networks.models.mae import MaskedAutoencoder
from winze.networks.models.uvit import UViT
from winze.train import Classify, Ramp
from winze.train.objectives.denoise import Denoise
from winze.train.objectives.elbo import Elbo
from winze.train.objectives.reconstruct import MaskedReconstruct, Reconstruct

POINTS = torch.randn(72, 6, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(72) % 3
IMAGES = torch.rand(72, 3, 4, 4, generator=torch.Generator().manual_seed(0))


@dataclass(frozen=True)
class Case:
    """The config of an objective, a function that makes its network, and data."""

    objective: Any
    net: Callable[[], nn.Module]
    data: Any = (POINTS, LABELS)


def classifier() -> nn.Module:
    return nn.Sequential(MLP(6, 8, 2, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 3))


def masked() -> nn.Module:
    return MaskedAutoencoder(depth=2, width=16, side=4, patch=2, decoder_depth=1, decoder_width=16)


def variational() -> nn.Module:
    return Variational(6, (8, 2, 8))


CASES = {
    "cross-entropy": Case(Classify(), classifier),
    "smoothed": Case(Classify(smoothing=0.1), classifier),
    "hot": Case(Classify(temperature=5.0, compensate=True), classifier),
    "norm": Case(Classify(temperature="norm"), classifier),
    "ramp": Case(Classify(temperature=Ramp(1.0, 50.0), compensate=True), classifier),
    "reconstruct": Case(Reconstruct(), lambda: MLP(6, 8, 2, 6), POINTS),
    "masked": Case(MaskedReconstruct(), masked, IMAGES),
    "denoise": Case(Denoise(), lambda: UViT(2, 16, side=4), IMAGES),
    "elbo": Case(Elbo(warmup=0.5), variational, POINTS),
    "labelled": Case(Denoise(labels=True), lambda: UViT(2, 16, side=4, labels=3), (IMAGES, LABELS)),
}
