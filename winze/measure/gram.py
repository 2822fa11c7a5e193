"""HSIC from Gram matrices: the sum under every CKA."""

from __future__ import annotations

from functools import lru_cache

import torch
from jaxtyping import Float, Float64, Int32
from torch import Tensor

from winze.measure.centre import detached, rounding

LEAST = 4  # samples that HSIC₁ needs


@detached
def hsic1(k: Float[Tensor, "sample sample"], l: Float[Tensor, "sample sample"]) -> float:  # noqa: E741
    """Estimate HSIC without bias from two Gram matrices; needs four samples, may be negative.

        HSIC₁ = [ tr(K̃L̃) + 1ᵀK̃1 · 1ᵀL̃1 / ((n−1)(n−2)) − 2/(n−2) · 1ᵀK̃L̃1 ] / (n(n−3)),   K̃: zero diagonal

    Song et al., "Feature Selection via Dependence Maximization", 2012.
    """
    n = len(k)
    if n < 4:
        raise ValueError(f"unbiased HSIC needs at least 4 samples, got {n}")
    a, b = k.double().clone().fill_diagonal_(0), l.double().clone().fill_diagonal_(0)
    rows, columns = a.sum(0), b.sum(1)
    total = (a * b.T).sum() + a.sum() * b.sum() / ((n - 1) * (n - 2)) - 2 / (n - 2) * (rows @ columns)
    return float(total / (n * (n - 3)))


@lru_cache(maxsize=4)
def _triangle(n: int, device: torch.device) -> Int32[Tensor, " pair"]:
    row, column = torch.triu_indices(n, n, device=device, dtype=torch.int32)
    flat: Tensor = row * n + column
    return flat


def gram_row(
    features: Float[Tensor, "sample feature"], unbiased: bool
) -> tuple[Float64[Tensor, " pair"], Float64[Tensor, " 2"]]:
    """Give the centred Gram matrix of a batch as one row, whose products with other rows are n(n−3) HSIC₁ / 2.

        unbiased   U_ij = K_ij + (K_ii + K_jj)/(n−2) − tr K/((n−1)(n−2)),   U_ii = 0
        biased     K,   products are (n−1)² HSIC₀ / 2

    Features are centred first, so K has the size of the spread; rows of K then sum to 0, which makes U this short.
    Half of the symmetric matrix is enough. Beside the row: tr K and the number of samples with NaN or inf.
    """
    n = len(features)
    exact = features.double()
    broken = (~torch.isfinite(exact.sum(1))).sum()
    first = exact[0]
    spread = exact - first
    spread -= spread.mean(0)
    gram = spread @ spread.T
    diagonal = gram.diagonal()
    trace = diagonal.sum()
    still = trace <= n * rounding(features.dtype) ** 2 * first.square().sum()
    if unbiased:
        shift = diagonal / (n - 2) - trace / (2 * (n - 1) * (n - 2))
        gram += shift[:, None] + shift
        diagonal.zero_()
    else:
        diagonal.mul_(0.5**0.5)
    row = gram.view(-1).index_select(0, _triangle(n, gram.device)).masked_fill_(still, 0.0)
    return row, torch.stack([trace.masked_fill(still, 0.0), broken.double()])
