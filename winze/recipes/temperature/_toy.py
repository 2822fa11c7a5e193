"""The linear toy of chapter 6: many small networks at once, trained by exact gradients in float64.

A = W_L ... W_2 W_1 X,   X = Y = I_n:   n samples, each the only one of its class; columns are samples
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from winze.lab import Bench
from winze.measure import column_softmax
from winze.train.seeds import generator

ToyLoss = Literal["mse", "ce", "dynamic", "detached"]
Logits = Float64[Tensor, "member class sample"]
MOMENTS = 120  # of training that are stored, evenly spread on a logarithmic scale
HARD = 0.3  # the noise at which losses are compared


@dataclass(frozen=True)
class Toy:
    """Linear networks that learn the identity by gradient descent on all samples.

    `loss` is ½ mean ‖a_s − e_s‖² ("mse"), or cross-entropy of softmax(A / T): T = 1 ("ce"), or T = ‖A‖_F with its
    gradient ("dynamic") or without ("detached"). `members` networks start from different weights, N(0, scale²). The
    rank counts singular values above `relative` times the largest; `sigmas` are the noise on `draws` samples per class.
    """

    loss: ToyLoss = "ce"
    classes: int = 5
    layers: int = 3
    scale: float = 0.05
    lr: float = 0.5
    iterations: int = 20_000
    members: int = 64
    relative: float = 0.05
    sigmas: tuple[float, ...] = (0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
    draws: int = 1000


def gradient(loss: ToyLoss, logits: Logits) -> Logits:
    """The gradient of the loss by the logits of n samples.

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


def train(toy: Toy, seed: int, moments: list[int]) -> Iterator[tuple[int, Logits]]:
    """Train every member, and give the logits after those numbers of iterations."""
    shape, size = (toy.layers, toy.members, toy.classes, toy.classes), toy.classes
    weights = list(toy.scale * torch.randn(shape, generator=generator("cpu", seed, "toy"), dtype=torch.float64))
    due = set(moments)
    for iteration in range(toy.iterations + 1):
        below = [torch.eye(size, dtype=torch.float64).expand(toy.members, -1, -1)]  # the input of each layer
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
    """The accuracy of each member on its own samples."""
    return (logits.argmax(1) == torch.arange(logits.shape[2])).double().mean(1)


def noisy_accuracy(toy: Toy, seed: int, logits: Logits) -> Float64[Tensor, "sigma member"]:
    """The accuracy on samples from N(e_c, σ² I), for every σ; all losses get the same samples."""
    labels = torch.arange(toy.classes).repeat_interleave(toy.draws)
    noise = torch.randn(toy.classes, len(labels), generator=generator("cpu", seed, "noise"), dtype=torch.float64)
    clean = torch.eye(toy.classes, dtype=torch.float64)[:, labels]
    found = ((logits @ (clean + sigma * noise)).argmax(1) == labels for sigma in toy.sigmas)
    return torch.stack([one.double().mean(1) for one in found])


def work(toy: Toy, bench: Bench) -> None:
    """Train all members; numbers are means over members, spectra those of the first member with the usual rank."""
    moments = sorted({round(at) for at in np.geomspace(1, toy.iterations, MOMENTS)} | {0})
    kept = [(logits, torch.linalg.svdvals(logits)) for _, logits in train(toy, bench.seed, moments)]
    logits, last = kept[-1]
    values = torch.stack([one for _, one in kept])  # moment, member, direction
    softened = torch.stack([torch.linalg.svdvals(column_softmax(one)) for one, _ in kept])
    ranks = (values > toy.relative * values[..., :1]).double().sum(-1)
    noisy = noisy_accuracy(toy, bench.seed, logits)
    usual = int((ranks[-1] == ranks[-1].mode().values).int().argmax())
    numbers = {
        "accuracy": accuracy(logits),
        "lowest_rank": ranks.amin(0),
        "rank": ranks[-1],
        "rank_after_softmax": (softened[-1] > toy.relative * softened[-1][:, :1]).double().sum(-1),
        "distance_from_one": (last - 1).abs().amax(1),
        "distance_from_one_after_softmax": (softened[-1] - 1).abs().amax(1),
        "second_value": last[:, 1],
        "third_value": last[:, 2],
        "noisy_accuracy": noisy[toy.sigmas.index(HARD)],
    }
    for name, members in numbers.items():
        bench.readings.add(name, members.mean(), n=toy.members)
    spread = ranks.quantile(torch.tensor([0.1, 0.9]).double(), 1)
    arrays = {"rank": torch.stack([ranks.mean(1), *spread], 1), "noisy_accuracy": noisy.mean(1)}
    arrays |= {"before_softmax": values[:, usual], "after_softmax": softened[:, usual]}
    bench.readings.arrays |= {f"toy/{name}": one.float().numpy() for name, one in arrays.items()}
    bench.readings.arrays |= {"toy/iterations": np.array(moments), "toy/noise": np.array(toy.sigmas)}
    bench.readings.declare(samples={"networks": toy.members})
