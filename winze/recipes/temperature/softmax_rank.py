"""Softmax raises the rank of a scaled rank-1 matrix, at some temperatures (thesis, figures 6.2.5 and 6.8.1).

    winze run temperature/softmax_rank --scale paper    # a minute on one core

The matrix is A = x yᵀ with x, y ~ U(-1, 1), and softmax is taken of the columns of c A: c = 1 / T.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor

from winze.lab import Axis, Bench, Claim, Question, Recipe, Scale, Whole, at_least, at_most, level, several
from winze.measure import column_softmax, singular_gap
from winze.recipes.temperature import _figures
from winze.recipes.temperature._settings import ABOUT
from winze.train.seeds import generator

MEDIUM = {
    "high": level(Whole("rank_at_small_c"), 1, within=0.5),
    "medium": at_least(Whole("highest_rank"), 8),
    "log10 c of the peak": level(Whole("peak"), 1.5, within=1.5),
    "low": at_most(Whole("rank_at_large_c"), 2),
}
EDGE = 0.1  # inner products have parted, or a gap has grown, after this share of their way


@dataclass(frozen=True)
class RankOne:
    """Random rank-1 matrices, and the scales c that they are multiplied by: 10^low to 10^high."""

    size: int = 32
    members: int = 64
    low: float = -5.0
    high: float = 9.0
    points: int = 57


def work(config: RankOne, bench: Bench) -> None:
    """Read ranks, singular values and inner products of columns at every scale; numbers are means over matrices."""
    draw = generator("cpu", bench.seed, "rank one")
    x, y = (2 * torch.rand(config.members, config.size, generator=draw, dtype=torch.float64) - 1 for _ in range(2))
    outer = x[:, :, None] * y[:, None, :]
    one, other = torch.triu_indices(config.size, config.size, 1)
    same = outer.argmax(1)[:, one] == outer.argmax(1)[:, other]
    exponents = torch.linspace(config.low, config.high, config.points, dtype=torch.float64)
    soft = [column_softmax(outer, 10**exponent) for exponent in exponents.tolist()]
    # as the thesis counts: PyTorch's own rank, in the precision that networks have
    ranks = torch.stack([torch.linalg.matrix_rank(each.float()).double() for each in soft])
    gaps = torch.stack([singular_gap(each) for each in soft])
    values = torch.stack([torch.linalg.svdvals(each[0]) for each in soft])
    inner = torch.stack([(each.mT @ each)[:, one, other] for each in soft])
    both = same.any(1) & (~same).any(1)  # matrices that have pairs of both kinds
    alike, unlike = ((inner * kind).sum(2)[:, both] / kind.sum(1)[both] for kind in (same.double(), (~same).double()))
    split, gap = _first(alike - unlike, exponents), gaps[:, both]
    numbers = {
        "rank_at_small_c": ranks.mean(1)[0],
        "highest_rank": ranks.mean(1).max(),
        "peak": exponents[ranks.mean(1).argmax()],  # positions are decades of c
        "rank_at_large_c": ranks.mean(1)[-1],
        "alike": alike[-1].mean(),
        "unlike": unlike[-1].mean(),
        "gap_smallest_to_split": (split - exponents[gap.argmin(0)]).mean(),
        "gap_growth_to_split": (split - _first(gap - gap[0], exponents)).mean(),
    }
    for name, number in numbers.items():
        bench.readings.add(name, float(number), n=config.members)
    arrays = {"rank": ranks.mean(1), "gap": gaps[:, 0], "values": values[:, :16], "inner": inner[:, 0, :10]}
    bench.readings.arrays |= {f"c/{name}": array.float().numpy() for name, array in arrays.items()}
    bench.readings.arrays |= {"c/exponents": exponents.numpy(), "c/same": same[0, :10].to(torch.int8).numpy()}
    bench.readings.arrays["c/rank_of_first"] = ranks[:, 0].to(torch.int8).numpy()


def _first(grown: Float64[Tensor, "c member"], exponents: Float64[Tensor, " c"]) -> Float64[Tensor, " member"]:
    return exponents[(grown > EDGE * grown[-1]).int().argmax(0)]


recipe = Recipe(
    "temperature/softmax_rank",
    **ABOUT,
    shows="softmax raises the rank of a rank-1 matrix at medium temperatures, and at no others",
    study=RankOne(),
    axes={"size": Axis("size", (32, 5))},
    scales={
        "smoke": Scale({"members": 8, "points": 29}, departures=("8 matrices at 29 scales",)),
        "cpu": Scale(seeds=4),
        "paper": Scale({"members": 256, "points": 141}, seeds=4),
    },
    work=work,
    claims=(
        Claim(
            "softmax raises the rank of a rank-1 matrix only at medium temperatures",
            "fig. 6.2.5",
            several("temperature", MEDIUM),
            paper={"high": 1, "medium": "a peak", "low": "low again"},
            scales=("paper",),
            headline=True,
        ),
        Claim(
            "inner products of columns with and without a shared largest row part where σ₁ - σₙ is smallest",
            "fig. 6.8.1",
            level(Whole("gap_smallest_to_split").named("decades of c in between"), 0, within=1),
            at={"size": 5},
            scales=("paper",),
        ),
    ),
    questions=(
        Question(
            "do inner products of columns with and without a shared largest row part where σ₁ - σₙ begins to grow "
            "(within a decade of c)?",
            level(Whole("gap_growth_to_split").named("decades of c in between"), 0, within=1),
            at={"size": 5},
            scales=("paper",),
        ),
    ),
    figures=_figures.SOFTMAX,
    departures=(
        "a run reads 256 matrices, and its numbers are means over them; figures show the first",
        "ranks are PyTorch's own in float32; in float64 the highest is twice as large",
        "inner products have parted, and a gap has grown, after a tenth of their way",
    ),
    measures=("*", "c/*"),
)
