"""Figures 6.2.1 to 6.2.4: ranks, singular values and robustness of the linear toy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from winze.readings import Array, Readings
from winze.report import style
from winze.report.scans import UnreadError

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

Arms = Mapping[str, Sequence[Readings]]
NAMES = {
    "mse": "squared error",
    "ce": "cross-entropy",
    "dynamic": "dynamic temperature",
    "detached": "dynamic temperature, no gradient through T",
    "ce_larger_start": "cross-entropy from larger weights",
}
MAIN = ("mse", "ce", "dynamic")


def ranks(arms: Arms, theme: str = "light") -> matplotlib.figure.Figure:
    """Draw the rank of the logits over training: the mean over all networks, and the range of the middle 80 %."""
    found = _holding(arms, "toy/rank")
    with style.use(theme) as colours:
        drawing = style.figure()
        axes = drawing.add_subplot()
        for arm, runs in found.items():
            colour = _colour(arm, colours)
            mean, low, high = np.mean([one.arrays["toy/rank"] for one in runs], axis=0).T
            x = _iterations(runs)
            if arm in MAIN:
                axes.fill_between(x, low, high, color=colour, alpha=0.12, lw=0)
            axes.plot(x, mean, color=colour, label=NAMES[arm], lw=1.8 if arm in MAIN else 1, **_points(arm, x))
        _over_iterations(axes)
        axes.set(ylabel="rank of the logits", ylim=(0.8, 5.2), yticks=range(1, 6))
        drawing.legend(loc="outside lower center", ncols=2)
        return drawing


def robustness(arms: Arms, theme: str = "light") -> matplotlib.figure.Figure:
    """Draw the accuracy on samples with noise on them."""
    found = _holding(arms, "toy/noisy_accuracy")
    with style.use(theme) as colours:
        drawing = style.figure()
        axes = drawing.add_subplot()
        for arm, runs in found.items():
            sigmas = runs[0].arrays["toy/noise"]
            values = np.array([one.arrays["toy/noisy_accuracy"] for one in runs])
            dash = "--" if arm == "dynamic" else "-"  # it lies on squared error's line
            axes.plot(sigmas, values.mean(0), dash, color=_colour(arm, colours), label=NAMES[arm], **_points(arm))
        axes.set(xscale="log", xlabel="standard deviation of the noise", ylabel="accuracy")
        axes.xaxis.set_major_formatter(style.power_of_ten)
        axes.xaxis.set_minor_formatter("")
        drawing.legend(loc="outside lower center", ncols=2)
        return drawing


def singular_values(arms: Arms, theme: str = "light") -> matplotlib.figure.Figure:
    """Draw the singular values of one network's logits over training, a panel a loss."""
    found = _holding({arm: arms[arm] for arm in MAIN if arm in arms}, "toy/before_softmax")
    with style.use(theme) as colours:
        drawing = style.figure(3.1 * len(found) + 0.4, 3.2)
        row = drawing.subplots(1, len(found), squeeze=False)[0]
        for axes, (arm, runs) in zip(row, found.items(), strict=True):
            _spectrum(axes, runs, "toy/before_softmax", colours)
            axes.set_title(NAMES[arm])
        row[0].set_ylabel("singular values of the logits")
        drawing.legend(*row[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
        return drawing


def before_and_after(arms: Arms, theme: str = "light") -> matplotlib.figure.Figure:
    """Draw the singular values of one network's logits, and of their softmax, during training with cross-entropy."""
    runs = _holding({arm: arms[arm] for arm in ("ce",) if arm in arms}, "toy/after_softmax")["ce"]
    with style.use(theme) as colours:
        drawing = style.figure(height=4.6)
        top, bottom = drawing.subplots(2, 1, sharex=True)
        _spectrum(top, runs, "toy/before_softmax", colours)
        _spectrum(bottom, runs, "toy/after_softmax", colours)
        top.set(title="before softmax", xlabel="", ylabel="singular values")
        bottom.set(title="after softmax", ylabel="singular values")
        drawing.legend(*top.get_legend_handles_labels(), loc="outside lower center", ncols=5)
        return drawing


def _spectrum(axes: matplotlib.axes.Axes, runs: Sequence[Readings], name: str, colours: style.Theme) -> None:
    values = runs[0].arrays[name]
    axes.axhline(1, color=colours.faint, lw=1, ls=":")
    for number, (curve, colour) in enumerate(zip(values.T, colours.ramp_colours(values.shape[1]), strict=True), 1):
        axes.plot(_iterations(runs), curve, color=colour, label=f"σ{number}")
    _over_iterations(axes)
    axes.set_ylim(bottom=0)


def _iterations(runs: Sequence[Readings]) -> Array:
    """The iterations that were looked at; the start is put where a logarithmic axis can show it."""
    return np.maximum(runs[0].arrays["toy/iterations"], 0.5)


def _over_iterations(axes: matplotlib.axes.Axes) -> None:
    axes.set(xscale="log", xlabel="iteration")
    axes.xaxis.set_major_formatter(style.power_of_ten)
    axes.xaxis.set_minor_formatter("")


def _holding(arms: Arms, array: str) -> dict[str, Sequence[Readings]]:
    found = {arm: runs for arm, runs in arms.items() if runs and all(array in one.arrays for one in runs)}
    if not found:
        raise UnreadError(f"no run kept {array}")
    return found


def _colour(arm: str, colours: style.Theme) -> str:
    return colours.scans[list(NAMES).index(arm)]


def _points(arm: str, x: Array | None = None) -> dict[str, Any]:
    every = 1 if x is None else style.sparse(len(x))
    return {"marker": style.MARKERS[list(NAMES).index(arm)], "markevery": every}


FIGURES = {
    "Rank during training": ranks,
    "Accuracy on noisy samples": robustness,
    "Singular values during training": singular_values,
    "Singular values before and after softmax": before_and_after,
}
