"""HSIC from Gram matrices: the sum under every CKA."""

from __future__ import annotations

from functools import lru_cache

import torch
from jaxtyping import Float, Float64, Integer
from torch import Tensor

from winze.measure.features import detached, is_slow_in_float64, product
from winze.measure.streaming.block import CentredBatch

LEAST = 4  # samples that HSIC₁ needs
WIDE = 4096  # features from which float32 products are worth their rounding, 1e-7 of the result
ENOUGH = 1 / 16  # of a product must be left by centring: four bits of rounding more


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


@lru_cache(maxsize=32)
def _above(places: int, n: int, device: torch.device) -> Integer[Tensor, " pair"]:
    """Where the entries above the diagonals of n x n matrices, one after the other, lie in one row."""
    row, column = torch.triu_indices(n, n, 1, device=device)
    index = torch.arange(places, device=device)[:, None] * n * n + row * n + column
    return index.flatten().to(torch.int32 if places * n * n < 1 << 31 else torch.int64)


def _is_wide(block: CentredBatch) -> bool:
    """Whether float32 features are so many that products in float64 would take longer than the network."""
    return block.width >= WIDE and block.features.dtype == torch.float32


def _rounded_grams(block: CentredBatch, grams: Float64[Tensor, "place sample sample"]) -> bool:
    """Write centred Gram matrices from products in float32; False where these leave its range, or are no numbers.

    What centring leaves of a product has the product's rounding: if that is little, since the mean is large, the
    first sample goes off the others before they are multiplied.
    """
    half = block.n // 2
    for shifted in (False, True):
        rows = block.features - block.features[:, :1] if shifted else block.features
        grams[:, :half] = rows[:, :half] @ rows.mT
        grams[:, half:, :half] = grams[:, :half, half:].mT
        grams[:, half:, half:] = rows[:, half:] @ rows[:, half:].mT
        whole = grams.diagonal(dim1=1, dim2=2).sum(1)
        means = grams.mean(1, keepdim=True)
        grams.sub_(means).sub_(means.mT).add_(means.mean(2, keepdim=True))
        left = grams.diagonal(dim1=1, dim2=2).sum(1)
        if bool((left > ENOUGH * whole).all()):
            return True
    return bool(left.isfinite().all())


class GramTable:
    """The centred Gram matrices K of one batch, a row for each place, as far as HSIC of all pairs needs them.

        n(n−3) HSIC₁ = Σ_{i≠j} K_ij L_ij − 2/(n−2) Σ_i K_ii L_ii + tr K tr L/((n−1)(n−2))
        (n−1)² HSIC₀ = Σ_ij K_ij L_ij

    Features are centred first, so that K has the size of the spread; its rows then sum to 0, which makes HSIC₁ this
    short. K is symmetric: the entries above the diagonal are enough. Whole matrices exist for the places of one block
    only, in one workspace that is used again.
    """

    def __init__(self, places: int, n: int, device: torch.device) -> None:
        self.n, self.device = n, device
        new = torch.zeros(places, dtype=torch.float64, device=device)
        self.pairs: Float64[Tensor, "place pair"] = new.new_empty(places, n * (n - 1) // 2)
        self.diagonal: Float64[Tensor, "place sample"] = new.new_empty(places, n)
        self.noise: Float64[Tensor, " place"] = new
        self.broken: Float64[Tensor, " place"] = new.clone()
        self.above: dict[int, Tensor] = {}  # by the number of places; a recording reads them, whatever a cache forgets
        self._whole = new.new_empty(0, n, n)

    def write(self, first: int, block: CentredBatch) -> None:
        """Reduce the features of a block's places to their rows, from `first` on."""
        block = block.to(self.device)
        rows = slice(first, first + len(block))
        if len(self._whole) < len(block):
            self._whole = self._whole.new_empty(len(block), self.n, self.n)
        grams = self._whole[: len(block)]
        rounded = _is_wide(block) and _rounded_grams(block, grams)
        if not rounded:
            if is_slow_in_float64(self.device):
                grams.copy_(product(block.centred, block.centred.mT))
            else:
                torch.bmm(block.centred, block.centred.mT, out=grams)
        if len(block) not in self.above:
            self.above[len(block)] = _above(len(block), self.n, self.device)
        torch.index_select(grams.view(-1), 0, self.above[len(block)], out=self.pairs[rows].view(-1))
        self.diagonal[rows] = grams.diagonal(dim1=1, dim2=2)
        self.noise[rows] = block.features[:, 0].double().square().sum(1) * (self.n * block.rounding**2)
        self.broken[rows] = 0.0 if rounded else block.broken

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
        return inner.masked_fill_(still[:, None] | still, 0.0) * share, torch.stack([scale, self.broken])
