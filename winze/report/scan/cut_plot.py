"""What cutting the network after each place costs and saves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from winze.readings import Readings, facts
from winze.readings.wording import label, percent, short
from winze.report import style
from winze.report.scan.scans import Scans, UnreadError, holding

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

COSTS = {
    "seconds": (1e3, "milliseconds per batch"),
    "flops": (1e-6, "million FLOPs"),
    "parameters": (1e-6, "million parameters"),
}

RING: dict[str, Any] = {"marker": "o", "ms": 11, "mfc": "none", "mew": 1.6, "ls": "", "zorder": 4}
DIAMOND: dict[str, Any] = {"marker": "D", "ms": 7, "ls": ""}


def costs(readings: Readings) -> list[str]:
    """The costs that were read at the cuts, time first."""
    probes = facts.has(readings, "probe")
    return [cost for cost in COSTS if probes and facts.has(readings, f"cut_{cost}")]


def cuts(
    scans: Scans, cost: str | None = None, threshold: float = 0.95, theme: str = "light"
) -> matplotlib.figure.Figure:
    """Draw the accuracy of every cut against its cost: `seconds`, `flops` or `parameters`, the first that was read.

    The numbers are places; a ring marks the cut at the tunnel's start, a diamond the whole network.
    """
    found = holding(scans, lambda one: bool(costs(one)), "costs of cuts")
    cost = cost or next(each for each in COSTS if any(each in costs(one) for one in found.values()))
    if cost not in COSTS or not any(cost in costs(one) for one in found.values()):
        raise UnreadError(f"{label(f'cut_{cost}')} was not read")
    with style.use(theme) as colours:
        drawing = style.figure()
        axes = drawing.add_subplot()
        written: list[tuple[float, float]] = []
        for spot, (name, one) in enumerate(found.items()):
            _draw(axes, one, name, cost, threshold, colours.scans[spot % len(colours.scans)], colours)
        _marks(axes, colours, threshold)
        for one in found.values():
            _number(axes, one, cost, threshold, written)
        axes.set_xlabel(COSTS[cost][1])
        axes.set_ylabel("accuracy")
        axes.set_xlim(left=0)
        drawing.legend(loc="outside lower center", ncols=3)
        return drawing


def _draw(
    axes: matplotlib.axes.Axes,
    readings: Readings,
    name: str,
    cost: str,
    threshold: float,
    colour: str,
    colours: style.Theme,
) -> None:
    x, y, start = _points(readings, cost, threshold)
    axes.plot(x, y, "o-", color=colour, lw=1, label=short(name, 24) or "cut after a layer")
    if start is not None:
        axes.plot(x[start], y[start], color=colours.ink, **RING)
    own = COSTS[cost][0] * facts.whole(readings, cost), facts.whole(readings, "accuracy")
    if np.isfinite(own).all():
        axes.plot(*own, color=colour, mec=colours.paper, **DIAMOND)


def _marks(axes: matplotlib.axes.Axes, colours: style.Theme, threshold: float) -> None:
    """Legend entries of the marks, once for all scans."""
    axes.plot([], [], color=colours.ink, label=f"first cut that keeps {percent(threshold)}", **RING)
    axes.plot([], [], color=colours.faint, mec=colours.paper, label="whole network", **DIAMOND)
    axes.margins(y=0.12)


def _points(readings: Readings, cost: str, threshold: float) -> tuple[facts.Array, facts.Array, int | None]:
    """Cost and accuracy by place, and the place of the chosen cut where both were read there."""
    x, y = COSTS[cost][0] * facts.column(readings, f"cut_{cost}"), facts.column(readings, "probe")
    found = facts.entrance(readings, threshold)
    if found is None or found.tunnel.start is None:
        return x, y, None
    spot = facts.places(readings).index(found.tunnel.start)
    return x, y, spot if np.isfinite([x[spot], y[spot]]).all() else None


def _number(
    axes: matplotlib.axes.Axes, readings: Readings, cost: str, threshold: float, written: list[tuple[float, float]]
) -> None:
    """Write place numbers beside points, leaving out those that would run into one already written."""
    x, y, start = _points(readings, cost, threshold)
    wide, high = np.ptp(axes.get_xlim()), np.ptp(axes.get_ylim())
    for spot in [*([] if start is None else [start]), 0, len(x) - 1, *range(len(x))]:
        here = float(x[spot] / wide), float(y[spot] / high)
        clear = all(abs(here[0] - u) > 0.04 or abs(here[1] - v) > 0.07 for u, v in written)
        if np.isfinite(here).all() and clear:
            written.append(here)
            axes.annotate(str(spot + 1), (x[spot], y[spot]), (0, -13), textcoords="offset points", ha="center", size=7)
