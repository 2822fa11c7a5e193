"""The toy of chapter 6: many small linear networks at once, trained by exact gradients in float64.

A = W_L ... W_2 W_1 X,   X = Y = I_n:   n samples, each the only one of its class; columns are samples
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float64
from torch import Tensor

from winze.measure import column_softmax
from winze.train.seeds import generator

Loss = Literal["mse", "ce", "dynamic", "detached"]
Logits = Float64[Tensor, "member class sample"]


@dataclass(frozen=True)
class Toy:
    """Linear networks that learn the identity by gradient descent on all samples.

    `loss` is ½ mean ‖a_s − e_s‖² ("mse"), or cross-entropy of softmax(A / T): T = 1 ("ce"), or T = ‖A‖_F with its
    gradient ("dynamic") or without ("detached"). `members` networks start from different weights, N(0, scale²).
    """

    loss: Loss = "ce"
    classes: int = 5
    layers: int = 3
    scale: float = 0.05
    lr: float = 0.5
    iterations: int = 20_000
    members: int = 64
    relative: float = 0.05
    """singular values above this share of the largest count for the rank"""
    sigmas: tuple[float, ...] = (0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
    """of the noise on other samples"""
    draws: int = 1000
    """of other samples, a class"""


def gradient(loss: Loss, logits: Logits) -> Logits:
    """Give the gradient of the loss by the logits of n samples.

    mse: (A − I) / n      ce: (softmax(A) − I) / n
    dynamic: G / T − A ⟨G, A⟩ / T³,   G = (softmax(A / T) − I) / n,   T = ‖A‖_F;   detached: G / T
    """
    n = logits.shape[-1]
    target = torch.eye(n, dtype=logits.dtype)
    if loss == "mse":
        return (logits - target) / n
    if loss == "ce":
        return (column_softmax(logits) - target) / n
    temperature = torch.linalg.matrix_norm(logits, keepdim=True)
    plain = (column_softmax(logits / temperature) - target) / n
    if loss == "detached":
        return plain / temperature
    along = (plain * logits).sum((-2, -1), keepdim=True)
    return plain / temperature - logits * along / temperature**3


def train(toy: Toy, seed: int, looks: list[int]) -> Iterator[tuple[int, Logits]]:
    """Train every member; the logits at those numbers of iterations that `looks` names."""
    size = toy.classes
    start = torch.randn(
        toy.layers, toy.members, size, size, generator=generator("cpu", seed, "toy"), dtype=torch.float64
    )
    weights = list(toy.scale * start)
    due = set(looks)
    for iteration in range(toy.iterations + 1):
        below = [torch.eye(size, dtype=torch.float64).expand(toy.members, -1, -1)]  # what each layer is fed
        for weight in weights:
            below.append(weight @ below[-1])
        if iteration in due:
            yield iteration, below[-1]
        if iteration == toy.iterations:
            return
        above = gradient(toy.loss, below[-1])
        for layer in reversed(range(toy.layers)):
            change = above @ below[layer].mT
            above = weights[layer].mT @ above
            weights[layer] = weights[layer] - toy.lr * change


def accuracy(logits: Logits) -> Float64[Tensor, " member"]:
    """The share of its samples that each member gets right."""
    return (logits.argmax(1) == torch.arange(logits.shape[2])).double().mean(1)


def noisy_accuracy(toy: Toy, seed: int, logits: Logits) -> Float64[Tensor, "sigma member"]:
    """The same on samples from N(e_c, σ² I), for every σ; all losses see the same samples."""
    size = toy.classes
    labels = torch.arange(size).repeat_interleave(toy.draws)
    noise = torch.randn(size, len(labels), generator=generator("cpu", seed, "noise"), dtype=torch.float64)
    clean = torch.eye(size, dtype=torch.float64)[:, labels]
    return torch.stack(
        [((logits @ (clean + sigma * noise)).argmax(1) == labels).double().mean(1) for sigma in toy.sigmas]
    )
