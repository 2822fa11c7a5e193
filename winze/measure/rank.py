"""How many directions the features of a place use: ranks read from the spectrum of their covariance."""

from __future__ import annotations

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from winze.measure.features import Features, centred, check_finite, detached, few_threads, flat
from winze.measure.value import CONSTANT, Value, missing

Spectrum = Float[Tensor, " direction"]


@detached
def singular_values(features: Features, centre: bool = True) -> Float64[Tensor, " direction"]:
    """Give the singular values of a feature matrix, largest first, in float64."""
    rows = centred(features) if centre else flat(features).double()
    check_finite(rows)
    with few_threads(rows):
        values: Tensor = torch.linalg.svdvals(rows)
    return values


def spectrum(features: Features) -> Float64[Tensor, " direction"]:
    """Give the eigenvalues of the covariance of features, largest first.

    λ_i = s_i² / n,   s = singular values of the centred features
    """
    return singular_values(features).square() / len(features)


def numerical_rank(features: Features, threshold: float = 1e-3) -> Value:
    """Count the directions whose variance is above a share of the largest.

        #{ i : s_i² > threshold · s_1² }

    Masarczyk et al., "The Tunnel Effect", 2023, arXiv 2305.19753.
    """
    return numerical_rank_of(spectrum(features), threshold)


def numerical_rank_of(spectrum: Spectrum, threshold: float = 1e-3) -> Value:
    """Give `numerical_rank` from a covariance spectrum."""
    if not spectrum.numel() or not bool(spectrum.max() > 0):
        return missing(CONSTANT)
    return Value(float((spectrum > threshold * spectrum.max()).sum()))


def effective_rank(features: Features, exp: bool = False) -> Value:
    """Measure how evenly variance spreads over directions, by entropy.

        ρ = − Σ p_i log p_i,   p_i = s_i² / Σ s_j²

    From 0 (one direction) to log min(n, d). Roy & Vetterli, 2007, define exp(ρ): `exp=True`.
    """
    return effective_rank_of(spectrum(features), exp)


def effective_rank_of(spectrum: Spectrum, exp: bool = False) -> Value:
    """Give `effective_rank` from a covariance spectrum."""
    if not spectrum.numel() or not bool(spectrum.max() > 0):
        return missing(CONSTANT)
    share = spectrum.double().clamp(min=0)
    entropy = torch.special.entr(share / share.sum()).sum()
    return Value(float(entropy.exp() if exp else entropy))


def participation_ratio(features: Features) -> Value:
    """Count directions, each weighted by its variance.

    (Σ λ_i)² / Σ λ_i²
    """
    return participation_ratio_of(spectrum(features))


def participation_ratio_of(spectrum: Spectrum) -> Value:
    """Give `participation_ratio` from a covariance spectrum."""
    if not spectrum.numel() or not bool(spectrum.max() > 0):
        return missing(CONSTANT)
    share = spectrum.double().clamp(min=0) / spectrum.max()
    return Value(float(share.sum() ** 2 / share.square().sum()))


@detached
def matrix_rank(matrix: Float[Tensor, "row column"], relative: float = 0.05) -> Value:
    """Count the singular values of a plain matrix (not centred) above a share of the largest.

        #{ i : s_i > relative · s_1 }

    A zero matrix has rank 0.
    """
    values = singular_values(matrix, centre=False)
    return Value(float((values > relative * values.max()).sum()))
