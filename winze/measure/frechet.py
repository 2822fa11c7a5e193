"""The distance between two sets of features as Gaussians: what a generative model's samples are judged by."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from winze.measure.features import Features, check_finite, detached, flat
from winze.measure.value import Value, missing


@detached
def frechet_distance(features: Features, other: Features) -> Value:
    """The Fréchet distance between the Gaussians of two sets of features, squared, as FID is defined.

        |μ_1 - μ_2|² + tr(C_1 + C_2 - 2 (C_1 C_2)^{1/2})

    With Inception's pooled features it is FID (Heusel et al., 2017, arXiv 1706.08500); with any other features it is
    not, and the two are not to be compared. Covariances are unbiased; fewer samples than features bias it upwards.
    """
    first, second = flat(features).double(), flat(other).double()
    if first.shape[1] != second.shape[1]:
        raise ValueError(f"features of {first.shape[1]} and of {second.shape[1]} dimensions cannot be compared")
    if min(len(first), len(second)) < 2:
        return missing("a covariance needs two samples")
    for rows in (first, second):
        check_finite(rows)
    return frechet_of(first.mean(0), _covariance(first), second.mean(0), _covariance(second))


def frechet_of(
    mean: Float[Tensor, " d"],
    covariance: Float[Tensor, "d d"],
    other: Float[Tensor, " d"],
    and_other: Float[Tensor, "d d"],
) -> Value:
    """The same from means and covariances.

    tr (C_1 C_2)^{1/2} is the sum of the roots of the eigenvalues of S C_2 S, which is symmetric, with S² = C_1.
    """
    values, vectors = torch.linalg.eigh(covariance.double())
    root = (vectors * values.clamp_min(0).sqrt()) @ vectors.T
    inner = root @ and_other.double() @ root
    shared = torch.linalg.eigvalsh((inner + inner.T) / 2).clamp_min(0).sqrt().sum()
    apart = (mean.double() - other.double()).square().sum()
    return Value(float(apart + covariance.double().trace() + and_other.double().trace() - 2 * shared))


def _covariance(rows: Tensor) -> Tensor:
    centred = rows - rows.mean(0)
    return centred.T @ centred / (len(rows) - 1)
