"""Figures 6.2.5 and 6.8.1: what softmax does to a rank-1 matrix at every scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from winze.readings import Readings
from winze.report import style
from winze.report.scans import UnreadError

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

Arms = Mapping[str, Sequence[Readings]]


def rank_over_scale(arms: Arms, theme: str = "light") -> matplotlib.figure.Figure:
    """Draw the singular values of the softmax of one 32 x 32 matrix over c, and the mean rank over matrices."""
    from matplotlib.ticker import MaxNLocator

    runs = _runs(arms, "n32")
    with style.use(theme) as colours:
        drawing = style.figure(height=5.2)
        top, bottom = drawing.subplots(2, 1, sharex=True)
        c = 10.0 ** runs[0].arrays["c/exponents"]
        values = runs[0].arrays["c/values"]
        for curve, colour in zip(values.T, colours.ramp_colours(values.shape[1]), strict=True):
            top.plot(c, np.maximum(curve, 1e-9), color=colour, lw=1.1)
        top.set(yscale="log", ylabel="singular values", ylim=(1e-8, 10))
        top.yaxis.set_major_formatter(style.power_of_ten)
        top.yaxis.set_minor_formatter("")
        top.set_title(f"softmax(c x yᵀ), 32 x 32: the {values.shape[1]} largest singular values")
        _mean(bottom, [one.arrays["c/rank"] for one in runs], c, colours)
        bottom.set(ylabel="rank after softmax", ylim=(0, None))
        bottom.yaxis.set_major_locator(MaxNLocator(integer=True))
        _over_scale(bottom)
        return drawing


def columns_over_scale(arms: Arms, theme: str = "light") -> matplotlib.figure.Figure:
    """Draw gap and rank of the softmax of one 5 x 5 matrix over c, and the inner products of its columns."""
    first = _runs(arms, "n5")[0].arrays
    with style.use(theme) as colours:
        drawing = style.figure(height=5.2)
        top, bottom = drawing.subplots(2, 1, sharex=True)
        c = 10.0 ** first["c/exponents"]
        top.plot(c, first["c/gap"], color=colours.probe, label="σ₁ − σₙ")
        top.set(ylabel="σ₁ − σₙ", ylim=(0, None))
        right = top.twinx()
        right.plot(c, first["c/rank_of_first"], "--", color=colours.rank, label="rank")
        right.set(ylabel="rank after softmax", ylim=(0, 5.3))
        right.grid(False)
        for kind, colour, dash in ((1, colours.probe, "-"), (0, colours.rank, "--")):
            said = "largest entries in one row" if kind else "largest entries in different rows"
            for number, curve in enumerate(first["c/inner"].T[first["c/same"] == kind]):
                bottom.plot(c, curve, dash, color=colour, lw=1.1, label=said if number == 0 else None)
        bottom.set(ylabel="inner product of two columns", ylim=(-0.03, 1.03))
        bottom.legend(loc="center left")
        top.set_title("softmax(c x yᵀ), 5 x 5: solid σ₁ − σₙ, dashed the rank")
        _over_scale(bottom)
        return drawing


def _mean(axes: matplotlib.axes.Axes, curves: list[np.ndarray], c: np.ndarray, colours: style.Theme) -> None:
    values = np.array(curves)
    axes.fill_between(c, values.min(0), values.max(0), color=colours.rank, alpha=0.15, lw=0)
    axes.plot(c, values.mean(0), color=colours.rank)


def _over_scale(axes: matplotlib.axes.Axes) -> None:
    axes.set(xscale="log", xlabel="c = 1 / T")
    axes.xaxis.set_major_formatter(style.power_of_ten)
    axes.xaxis.set_minor_formatter("")


def _runs(arms: Arms, arm: str) -> Sequence[Readings]:
    if not arms.get(arm) or "c/rank" not in arms[arm][0].arrays:
        raise UnreadError(f"no run of {arm} kept its curves")
    return arms[arm]


FIGURES = {
    "Rank of a softmax over its scale": rank_over_scale,
    "Columns of a softmax over its scale": columns_over_scale,
}
