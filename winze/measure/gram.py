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
def _above(n: int, device: torch.device) -> Int32[Tensor, " pair"]:
    """Where the entries above the diagonal lie in a matrix seen as one row."""
    row, column = torch.triu_indices(n, n, 1, device=device, dtype=torch.int32)
    index: Tensor = row * n + column
    return index


class GramTable:
    """The centred Gram matrices K of one batch, a row for each place, as far as HSIC of all pairs needs them.

        n(n−3) HSIC₁ = Σ_{i≠j} K_ij L_ij − 2/(n−2) Σ_i K_ii L_ii + tr K tr L/((n−1)(n−2))
        (n−1)² HSIC₀ = Σ_ij K_ij L_ij

    Features are centred first, so that K has the size of the spread; its rows then sum to 0, which makes HSIC₁ this
    short. K is symmetric: the entries above the diagonal are enough. Little is done for each place, and what can wait
    is done for all at once, since on a GPU the number of operations is the cost.
    """

    def __init__(self, places: int, n: int, device: torch.device) -> None:
        self.n, self.device = n, device
        new = torch.zeros(places, dtype=torch.float64, device=device)
        self.pairs: Float64[Tensor, "place pair"] = new.new_empty(places, n * (n - 1) // 2)
        self.diagonal: Float64[Tensor, "place sample"] = new.new_empty(places, n)
        self.sums: Float64[Tensor, "place sample"] = new.new_empty(places, n)
        self.noise: Float64[Tensor, " place"] = new

    def write(self, index: int, features: Float[Tensor, "sample feature"]) -> None:
        """Reduce one place's features to its row."""
        exact = features.double()
        torch.sum(exact, 1, out=self.sums[index])
        first = exact[0]
        spread = exact - first  # of the spread's size, so its mean is exact enough; equal samples leave zeros
        spread -= spread.mean(0)
        gram = spread @ spread.T
        self.pairs[index] = gram.view(-1).index_select(0, _above(self.n, gram.device))
        self.diagonal[index] = gram.diagonal()
        self.noise[index] = first.dot(first) * (self.n * rounding(features.dtype) ** 2)

    def hsic(self, unbiased: bool) -> tuple[Float64[Tensor, "place place"], Float64[Tensor, "2 place"]]:
        """Give HSIC of all pairs, and for each place the scale of its own and its samples with NaN or inf.

        A place that is constant up to rounding has HSIC and scale 0.
        """
        n = self.n
        trace = self.diagonal.sum(1)
        inner, ends = 2 * (self.pairs @ self.pairs.T), self.diagonal @ self.diagonal.T
        if unbiased:
            inner += torch.outer(trace, trace) / ((n - 1) * (n - 2)) - 2 / (n - 2) * ends
        else:
            inner += ends
        share = 1 / (n * (n - 3) if unbiased else (n - 1) ** 2)
        still = trace <= self.noise
        scale = trace.square().masked_fill(still, 0.0) * share
        broken = (~torch.isfinite(self.sums)).sum(1).double()
        return inner.masked_fill_(still[:, None] | still, 0.0) * share, torch.stack([scale, broken])
