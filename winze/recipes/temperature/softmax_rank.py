"""Softmax raises the rank of a scaled rank-1 matrix, at some temperatures (figures 6.2.5 and 6.8.1).

    winze run temperature/softmax_rank --scale cpu    # seconds

The matrix is A = x yᵀ with x, y ~ U(−1, 1), and softmax is taken of the columns of c A: c = 1 / T.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from winze.lab import Claim, Recipe, Scale, at_least, at_most, level
from winze.lab.bench import Bench
from winze.lab.quantities import Whole
from winze.measure import column_softmax, singular_gap
from winze.recipes.temperature import softmax_figures
from winze.train.seeds import generator

EDGE = 0.1  # inner products have parted, or a gap has grown, where they have gone this share of their way
THESIS = "Unpacking Softmax: How Temperature Drives Representation Collapse; thesis, sections 6.2 and 6.8"
QUANTITIES = (
    "rank_at_small_c",
    "highest_rank",
    "peak",
    "rank_at_large_c",
    "alike",
    "unlike",
    "gap_smallest_to_split",
    "gap_growth_to_split",
)


@dataclass(frozen=True)
class RankOne:
    """Random rank-1 matrices, and the scales c that they are multiplied by: 10^low to 10^high."""

    size: int = 32
    members: int = 64
    low: float = -5.0
    high: float = 9.0
    points: int = 57


def work(config: RankOne, bench: Bench) -> None:
    """Read ranks, singular values and inner products of columns at every scale; curves are means over matrices."""
    shape = config.members, config.size
    draw = generator("cpu", bench.seed, "rank one")
    x, y = (2 * torch.rand(shape, generator=draw, dtype=torch.float64) - 1 for _ in range(2))
    outer = x[:, :, None] * y[:, None, :]
    chosen = outer.argmax(1)
    pairs = torch.triu_indices(config.size, config.size, 1)
    same = chosen[:, pairs[0]] == chosen[:, pairs[1]]
    exponents = torch.linspace(config.low, config.high, config.points, dtype=torch.float64)
    ranks, gaps, values, inner = [], [], [], []
    for exponent in exponents.tolist():
        soft = column_softmax(outer, 10**exponent)
        # as the thesis counts: PyTorch's own rank, in the precision that networks have
        ranks.append(torch.linalg.matrix_rank(soft.float()).double())
        gaps.append(singular_gap(soft))
        values.append(torch.linalg.svdvals(soft[0]))
        inner.append((soft.mT @ soft)[:, pairs[0], pairs[1]])
    curves = torch.stack(ranks).mean(1), torch.stack(gaps), torch.stack(inner)
    numbers = _numbers(exponents, curves[0], curves[1], curves[2], same)
    for name in QUANTITIES:
        bench.readings.add(name, numbers[name], n=config.members)
    bench.readings.arrays |= {
        "c/exponents": exponents.numpy(),
        "c/rank": curves[0].float().numpy(),
        "c/gap": curves[1][:, 0].float().numpy(),
        "c/values": torch.stack(values)[:, : min(config.size, 16)].float().numpy(),
        "c/rank_of_first": torch.stack(ranks)[:, 0].to(torch.int8).numpy(),
        "c/inner": curves[2][:, 0, :10].float().numpy(),
        "c/same": same[0, :10].numpy().astype(np.int8),
    }


def _numbers(
    exponents: Float64[Tensor, " c"],
    ranks: Float64[Tensor, " c"],
    gaps: Float64[Tensor, "c member"],
    inner: Float64[Tensor, "c member pair"],
    same: Bool[Tensor, "member pair"],
) -> dict[str, float]:
    """What the claims speak of; decades of c where it is about a position."""
    both = same.any(1) & (~same).any(1)  # matrices that have pairs of both kinds
    alike, unlike = ((inner * kind).sum(2)[:, both] / kind.sum(1)[both] for kind in (same.double(), (~same).double()))
    split = _first(alike - unlike > EDGE * (alike - unlike)[-1], exponents)
    smallest = exponents[gaps[:, both].argmin(0)]
    grown = gaps - gaps[0]
    growth = _first((grown > EDGE * grown[-1])[:, both], exponents)
    return {
        "rank_at_small_c": float(ranks[0]),
        "highest_rank": float(ranks.max()),
        "peak": float(exponents[ranks.argmax()]),
        "rank_at_large_c": float(ranks[-1]),
        "alike": float(alike[-1].mean()),
        "unlike": float(unlike[-1].mean()),
        "gap_smallest_to_split": float((split - smallest).mean()),
        "gap_growth_to_split": float((split - growth).mean()),
    }


def _first(reached: Bool[Tensor, "c member"], exponents: Float64[Tensor, " c"]) -> Float64[Tensor, " member"]:
    return exponents[reached.int().argmax(0)]


recipe = Recipe(
    name="temperature/softmax_rank",
    system="S9",
    shows="softmax raises the rank of a rank-1 matrix at medium temperatures, and at no others",
    paper=THESIS,
    url="https://arxiv.org/abs/2506.01562",
    arms={"n32": {"size": 32}, "n5": {"size": 5}},
    scales={
        "smoke": Scale(RankOne(members=8, points=29), seeds=(0,), departures=("8 matrices at 29 scales",)),
        "cpu": Scale(RankOne(), seeds=(0, 1, 2, 3)),
        "paper": Scale(RankOne(members=256, points=141), seeds=(0, 1, 2, 3)),
    },
    work=work,
    quantities={name: Whole(name) for name in QUANTITIES},
    claims=(
        Claim(
            "at high temperature softmax leaves a rank of 1", level("rank_at_small_c", "n32", 1, within=0.5), paper=1
        ),
        Claim(
            "at medium temperatures the rank is far higher (8 or more of 32)",
            at_least("highest_rank", "n32", 8),
            paper="peak",
        ),
        Claim("the highest rank is at c of 1 or more", at_least("peak", "n32", 0), paper="medium c"),
        Claim("and at c of 1,000 or less", at_most("peak", "n32", 3), paper="medium c"),
        Claim(
            "at low temperature a rank of 2 at most is left, that of the largest entries",
            at_most("rank_at_large_c", "n32", 2),
            paper="low again",
        ),
        Claim(
            "inner products of columns with their largest entry in one row rise to 1",
            at_least("alike", "n5", 0.99),
            paper="rise",
        ),
        Claim("those of other pairs fall to 0", at_most("unlike", "n5", 0.01), paper="fall"),
        Claim(
            "they part where σ₁ − σₙ is smallest (within a decade of c)",
            level("gap_smallest_to_split", "n5", 0, within=1),
            paper="the same point",
        ),
        Claim(
            "they part where σ₁ − σₙ begins to grow (within a decade of c)",
            level("gap_growth_to_split", "n5", 0, within=1),
            paper="not in the thesis",
        ),
    ),
    departures=(
        "a run reads 64 matrices, and its numbers are means over them; pictures show the first",
        "ranks are PyTorch's own in float32; in float64 the highest is twice as large",
        "inner products have parted, and a gap has grown, where they have gone a tenth of their way",
    ),
    measures=("*", "c/*"),
    figures=softmax_figures.FIGURES,
)
