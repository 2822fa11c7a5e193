"""Numbers of whole networks along a setting: one that orders the arms (a number of layers, say) or tells them apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from winze.report import style
from winze.report.by_arm import Arms
from winze.report.points import numbers_of
from winze.report.scans import UnreadError

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure


@dataclass(frozen=True)
class Rung:
    """A panel: what stands at its side, and lines by name, each a measure on some data."""

    up: str
    lines: Mapping[str, tuple[str, str]]


def ladder(
    arms: Arms, theme: str = "light", *, at: Mapping[str, float] | Mapping[str, str], rungs: Sequence[Rung], across: str
) -> matplotlib.figure.Figure:
    """Draw panels above each other: a dot a run, a line through the means, and dotted the level of the last arm.

    Where `at` gives texts, which have no order, there are no lines.
    """
    known = {arm: x for arm, x in at.items() if arms.get(arm)}
    read = [
        line for rung in rungs for line in rung.lines.values() if any(numbers_of(arms[arm], *line) for arm in known)
    ]
    if not read:
        raise UnreadError(f"nothing was read along {across}")
    with style.use(theme) as colours:
        drawing = style.figure(height=0.7 + 2.3 * len(rungs))
        grid = drawing.subplots(len(rungs), 1, sharex=True, squeeze=False)[:, 0]
        for axes, rung in zip(grid, rungs, strict=True):
            for spot, (name, line) in enumerate(rung.lines.items()):
                _line(axes, name, {x: numbers_of(arms[arm], *line) for arm, x in known.items()}, spot, colours)
            axes.set_ylabel(rung.up)
        if not _are_texts(known.values()):
            grid[-1].set_xticks(list(known.values()))
        grid[-1].set_xlabel(across)
        style.legend(drawing)
        return drawing


def _line(
    axes: matplotlib.axes.Axes, name: str, values: Mapping[Any, Sequence[float]], spot: int, colours: style.Theme
) -> None:
    means = {x: float(np.mean(values[x])) for x in values if values[x]}
    if not means:
        return
    colour = colours.scans[spot]
    for x, seen in values.items():
        axes.plot([x] * len(seen), seen, ".", color=colour, alpha=0.5, markersize=4)
    drawn: dict[str, Any] = {"marker": style.MARKERS[spot], "color": colour, "label": name}
    if _are_texts(means):
        axes.plot(list(means), list(means.values()), linestyle="none", **drawn)
        return
    ordered = sorted(means)
    axes.plot(ordered, [means[x] for x in ordered], **drawn)
    axes.axhline(means[ordered[-1]], color=colour, lw=1, ls=":")


def _are_texts(values: Iterable[Any]) -> bool:
    return any(isinstance(value, str) for value in values)
