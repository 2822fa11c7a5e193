"""Linear probes: what a place's features say about the labels to a linear reader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.nn import functional as F

from winze.measure.features import (
    Features,
    Labels,
    check_finite,
    check_labels,
    detached,
    flat,
    is_slow_in_float64,
    product,
)
from winze.measure.streaming.block import CentredBatch

EPOCHS = 30
"""Of the thesis's protocol (Masarczyk et al., 2023)."""


@dataclass(frozen=True)
class Probe:
    """A linear reader of features: scores = weight · h + bias."""

    weight: Float[Tensor, "class feature"]
    bias: Float[Tensor, " class"]

    @detached
    def scores(self, features: Features) -> Float[Tensor, "sample class"]:
        """Give a score for each class."""
        return flat(features).to(self.weight) @ self.weight.T + self.bias

    def predict(self, features: Features) -> Int64[Tensor, " sample"]:
        """Give the class with the highest score."""
        return self.scores(features).argmax(1)

    def correct(self, features: Features, labels: Labels) -> Bool[Tensor, " sample"]:
        """Tell for each sample whether the prediction is right."""
        return self.predict(features) == labels.to(self.weight.device)


@detached
def answers_at_once(probes: Sequence[Probe], block: CentredBatch) -> Int64[Tensor, "place sample"]:
    """Give the classes that the probes of a block's places choose."""
    weights, biases = ([getattr(probe, part) for probe in probes] for part in ("weight", "bias"))
    weight = weights[0][None] if len(probes) == 1 else torch.stack(weights)
    bias = biases[0][None] if len(probes) == 1 else torch.stack(biases)
    if weight.dtype == torch.float64 and is_slow_in_float64(block.device):
        shift = (weight @ block.mean.to(weight.device)[:, :, None])[..., 0] + bias
        return (product(block.centred.to(weight.device), weight.mT) + shift[:, None]).argmax(2)
    features = block.exact if weight.dtype == torch.float64 else block.features.to(weight.dtype)
    return torch.baddbmm(bias[:, None], features.to(weight.device), weight.mT).argmax(2)


def adam_probes(
    places: Sequence[Features],
    labels: Labels,
    classes: int,
    *,
    lr: float = 1e-3,
    epochs: int = EPOCHS,
    batch: int = 512,
    standardise: bool = False,
    seed: int = 0,
) -> list[Probe]:
    """Train one linear probe per place by Adam on cross-entropy, all of them on the same order of samples.

    Learning rate 1e-3, no weight decay, 30 epochs, batch 512 (Masarczyk et al., 2023, arXiv 2305.19753). Features are
    taken as they are unless `standardise`. Places do not see each other: a probe comes out the same alone.
    """
    rows = [flat(features, f"place {index}") for index, features in enumerate(places)]
    if not rows or not len(labels):
        raise ValueError(f"expected places and samples, got {len(rows)} places and {len(labels)} samples")
    for index, features in enumerate(rows):
        check_finite(features, f"place {index}")
        check_labels(labels, len(features), classes, f"place {index}")
    with torch.inference_mode(False), torch.enable_grad():
        return _train(rows, labels.long().clone(), classes, lr, epochs, batch, standardise, seed)


def _train(
    rows: list[Tensor], labels: Tensor, classes: int, lr: float, epochs: int, batch: int, standardise: bool, seed: int
) -> list[Probe]:
    device = rows[0].device
    wide = [torch.promote_types(features.dtype, torch.float32) for features in rows]
    shifts, scales = zip(*(_standard(features) if standardise else (0.0, 1.0) for features in rows), strict=True)
    weights = []
    for features, dtype in zip(rows, wide, strict=True):
        # as torch.nn.Linear starts, but each place from the same seed, so that it does not matter who else trains
        start, reach = torch.Generator().manual_seed(seed), features.shape[1] ** -0.5
        for shape in ((classes, features.shape[1]), (classes,)):
            values = torch.empty(shape, dtype=dtype, device="cpu").uniform_(-reach, reach, generator=start)
            weights.append(values.to(features.device).requires_grad_())
    optimiser = torch.optim.Adam(weights, lr=lr)
    order = torch.Generator().manual_seed(seed)
    labels = labels.to(device)
    for _ in range(epochs):
        for index in torch.randperm(len(labels), generator=order, device="cpu").to(device).split(batch):
            target = labels[index]
            losses = []
            for place, features in enumerate(rows):
                part = (features[index].to(wide[place]) - shifts[place]) * scales[place]
                losses.append(F.cross_entropy(F.linear(part, *weights[2 * place : 2 * place + 2]), target))
            optimiser.zero_grad()
            torch.autograd.backward(losses)
            optimiser.step()
    probes = []
    for place, (weight, bias) in enumerate(zip(weights[::2], weights[1::2], strict=True)):
        folded = weight.detach() * scales[place]
        probes.append(Probe(folded, bias.detach() - (folded * shifts[place]).sum(1)))
    return probes


def _standard(features: Float[Tensor, "sample feature"]) -> tuple[Tensor, Tensor]:
    exact = features.double()
    scale = exact.std(0, correction=0)
    dtype = torch.promote_types(features.dtype, torch.float32)
    return exact.mean(0).to(dtype), torch.where(scale > 0, 1 / scale, 0.0).to(dtype)


def softmax_regression(
    features: Float[Tensor, "sample feature"],
    labels: Int64[Tensor, " sample"],
    classes: int,
    iterations: int,
    start: Float[Tensor, "class input"] | None = None,
) -> Float[Tensor, "class input"]:
    """Weights [class, feature + 1], the last column a bias, by L-BFGS on all samples from zeros or from `start`."""
    weights = torch.zeros(classes, features.shape[1] + 1).to(features) if start is None else start.clone()
    weights.requires_grad_()
    solver = torch.optim.LBFGS([weights], max_iter=iterations, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        solver.zero_grad()
        loss = F.cross_entropy(_logits(weights, features), labels)
        loss.backward()
        return loss

    with torch.enable_grad():
        solver.step(closure)
    return weights.detach()


def regression_accuracy(
    weights: Float[Tensor, "class input"], features: Float[Tensor, "sample feature"], labels: Int64[Tensor, " sample"]
) -> float:
    """The accuracy of softmax regression with these weights."""
    return float((_logits(weights, features).argmax(1) == labels).double().mean())


def _logits(weights: Tensor, features: Tensor) -> Tensor:
    return features @ weights[:, :-1].T + weights[:, -1]
