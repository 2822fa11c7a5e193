"""Neural collapse: how near features and classifier have come to one simplex."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from winze.measure.features import Features, Labels, detached, eigen, flat, product
from winze.measure.streaming.class_means import ClassMeans
from winze.measure.streaming.moments import Moments
from winze.measure.value import CONSTANT, Value, missing


class NeuralCollapse(NamedTuple):
    """The four signs of collapse; all are 0 when it is complete."""

    nc1: Value
    nc2_norm: Value
    nc2_angle: Value
    nc3: Value
    nc4: Value


def neural_collapse(
    features: Features,
    labels: Labels,
    weight: Float[Tensor, "class feature"] | None = None,
    logits: Float[Tensor, "sample class"] | None = None,
) -> NeuralCollapse:
    """Measure neural collapse of last-layer features.

        NC1 = tr(Σ_W Σ_B⁺) / C                       within-class scatter in the directions of the class means
        NC2 = std/mean of ‖m_c‖,  mean |cos(m_c, m_c') + 1/(C−1)|       m_c = μ_c − μ_G
        NC3 = ‖ W/‖W‖_F − M/‖M‖_F ‖²_F               W: rows of the last layer, M: rows m_c
        NC4 = share of samples where argmax logits is not the nearest class mean

    μ_G is the mean of the class means, which for balanced classes is the mean of all samples: the rank of Σ_B then
    stays C − 1 when classes are not quite balanced. Papyan, Han & Donoho, 2020, arXiv 2008.08186.
    """
    classes = weight.shape[0] if weight is not None else logits.shape[1] if logits is not None else None
    moments = Moments.of(features, labels, classes)
    parts = neural_collapse_of(moments, weight)
    if logits is None or parts.nc1.note:
        return parts
    if not bool(torch.isfinite(logits).all()):
        raise ValueError("logits hold NaN or inf")
    return parts._replace(nc4=disagreement(logits, nearest_mean(features, moments)))


@detached
def neural_collapse_of(moments: Moments, weight: Float[Tensor, "class feature"] | None = None) -> NeuralCollapse:
    """Give NC1 to NC3 from moments by class; NC4 needs the samples again (`nearest_mean`, `disagreement`)."""
    moments.check(classes=2)
    if moments.constant:
        return NeuralCollapse(*[missing(CONSTANT)] * 5)
    present = moments.counts > 0
    counts, means = moments.counts[present], moments.class_means[present]
    count = len(counts)
    arms = means - means.mean(0)
    norms = arms.norm(dim=1)
    if not bool((norms > 0).all()):
        return NeuralCollapse(*[missing("a class mean lies on the mean of all class means")] * 5)
    cosines = (arms @ arms.T / norms[:, None] / norms)[~torch.eye(count, dtype=torch.bool, device=arms.device)]
    return NeuralCollapse(
        nc1=Value(_within_over_between(moments, arms)),
        nc2_norm=Value(float(norms.std(correction=0) / norms.mean())),
        nc2_angle=Value(float((cosines + 1 / (count - 1)).abs().mean())),
        nc3=missing("needs the weight of the last layer") if weight is None else _duality(weight, arms, present),
        nc4=missing("needs samples and logits"),
    )


def _within_over_between(moments: Moments, arms: Float64[Tensor, "class feature"]) -> float:
    """Give tr(Σ_W Σ_B⁺)/C by the singular values s_k and vectors v_k of the class means: Σ_k v_kᵀ Σ_W v_k / s_k²."""
    size, v = _singular(arms, moments.name)
    between = (moments.class_means - moments.mean) @ v
    total = (v * (moments.scatter @ v)).sum(0)
    within = (total - (moments.counts[:, None] * between.square()).sum(0)).clamp(min=0) / moments.n
    return float((within / size).sum())


def _singular(arms: Float64[Tensor, "class feature"], name: str) -> tuple[Tensor, Float64[Tensor, "feature direction"]]:
    """Squared singular values that are not rounding, and right singular vectors, by the smaller of M Mᵀ and Mᵀ M.

    Since the rows sum to 0, there is one direction fewer than there are classes.
    """
    by_class = arms.shape[0] <= arms.shape[1]
    (size,), (vectors,) = eigen((arms @ arms.T if by_class else arms.T @ arms)[None], [name])
    kept = size > 1e-10 * size[-1]
    size, vectors = size[kept], vectors[:, kept]
    return size, arms.T @ (vectors / size.sqrt()) if by_class else vectors


def _duality(weight: Tensor, arms: Tensor, present: Tensor) -> Value:
    if weight.shape != (len(present), arms.shape[1]):
        raise ValueError(f"weight: expected {(len(present), arms.shape[1])}, got {tuple(weight.shape)}")
    rows = weight.detach().to(arms)[present]
    if not bool(rows.any()):
        return missing("the weight of the last layer is 0")
    return Value(float((rows / rows.norm() - arms / arms.norm()).square().sum()))


@detached
def self_duality(means: ClassMeans, weight: Float[Tensor, "class feature"]) -> Value:
    """Give NC3 from class means: how far the rows of the last layer are from them, both of length 1 as a whole."""
    means.check()
    present = means.counts > 0
    if int(present.sum()) < 2:
        raise ValueError(f"{means.name}: needs at least 2 classes, got {int(present.sum())} in {means.n} samples")
    arms = means.class_means[present] - means.class_means[present].mean(0)
    if not bool(arms.any()):
        return missing("all class means are the same")
    return _duality(weight, arms, present)


@detached
def nearest_mean(features: Features, moments: Moments | ClassMeans) -> Int64[Tensor, " sample"]:
    """Give for each sample the class whose mean is nearest."""
    rows = flat(features).double() - moments.mean
    means = moments.class_means - moments.mean
    score = product(rows, means.T) - means.square().sum(1) / 2
    return score.masked_fill(moments.counts == 0, -torch.inf).argmax(1)


def disagreement(logits: Float[Tensor, "sample class"], nearest: Int64[Tensor, " sample"]) -> Value:
    """Give the share of samples where the classifier and the nearest class mean differ (NC4)."""
    return Value(float((logits.argmax(1) != nearest.to(logits.device)).double().mean()))


class LastLayer(NamedTuple):
    """The linear layer that a network ends in: its weight, the class means of what goes into it, and its mistakes.

    `strays` holds for each test sample whether the layer and the nearest class mean of the train data disagree; None
    without train data. Where there is no such layer, `why` says so and the rest is None.
    """

    weight: Float[Tensor, "class feature"] | None
    means: ClassMeans | None
    strays: Tensor | None = None
    why: str = ""


def last_layer_collapse(layer: LastLayer) -> dict[str, Value]:
    """Give NC3 and NC4 of the layer that a network ends in, as `neural_collapse` does from features."""
    if layer.weight is None or layer.means is None:
        why = missing(layer.why or "the network does not end in a linear layer")
        return {"nc3": why, "nc4": why}
    nc4 = missing("needs train data with probes: the class means of its samples")
    if layer.strays is not None:
        nc4 = Value(float(layer.strays.double().mean()))
    return {"nc3": self_duality(layer.means, layer.weight), "nc4": nc4}
