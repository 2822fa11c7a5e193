"""Arms side by side: one measure over training or over depth, a panel for each network and data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from winze.readings import Readings
from winze.report import facts, style
from winze.report.names import data_name, label, short
from winze.report.profile import depth_axis
from winze.report.scans import UnreadError

if TYPE_CHECKING:
    import matplotlib.figure

Arms = Mapping[str, Sequence[Readings]]
Line = tuple[facts.Array, facts.Array]
"""Where a line has points, and its values [run, point]."""
Said = Mapping[str, tuple[str, str]]
"""The panel of every arm and its name there, of arms in an order: colours run from dark to bright along it."""


def training_by_arm(
    arms: Arms, theme: str = "light", measure: str = "accuracy", said: Said | None = None
) -> matplotlib.figure.Figure:
    """Draw a number of the whole network over training, the mean of each arm; the band spans the seeds.

    Where all runs tell `epoch_steps`, training is counted in epochs, else in steps.
    """
    lines = {arm: line for arm, runs in arms.items() if (line := _over_training(runs, measure)) is not None}
    epoch = {arm: facts.whole(arms[arm][0], "epoch_steps") for arm in lines}
    epochs = bool(lines) and bool(np.isfinite(list(epoch.values())).all())
    if epochs:
        lines = {arm: (x / epoch[arm], values) for arm, (x, values) in lines.items()}
    return _drawn(arms, lines, theme, "epoch" if epochs else "training step", f"test {label(measure)}", said)


def depth_by_arm(
    arms: Arms,
    theme: str = "light",
    measure: str = "numerical_rank",
    other: bool = False,
    said: Said | None = None,
) -> matplotlib.figure.Figure:
    """Draw a measure over depth, the mean of each arm; the band spans the seeds. `other`: on the first other data."""
    lines = {arm: line for arm, runs in arms.items() if (line := _over_depth(runs, measure, other)) is not None}
    sets = {facts.others(arms[arm][0])[0] for arm in lines} if other else set()
    named = f", {data_name(sets.pop())}" if len(sets) == 1 else ", other data" if other else ""
    return _drawn(arms, lines, theme, "block", label(measure) + named, said)


def _drawn(
    arms: Arms, lines: dict[str, Line], theme: str, across: str, up: str, said: Said | None
) -> matplotlib.figure.Figure:
    if not lines:
        raise UnreadError(f"no {up} was read")
    panels: dict[str, list[str]] = {}
    for arm in lines:
        panels.setdefault(_title(arms[arm][0]) if said is None else said[arm][0], []).append(arm)
    with style.use(theme) as colours:
        drawing, grid = style.panels(len(panels), shared=said is not None)
        for axes, (title, inside) in zip(grid, panels.items(), strict=True):
            own = _own_names(inside) if said is None else [said[arm][1] for arm in inside]
            names = dict(zip(inside, own, strict=True))
            palette = colours.scans if said is None else colours.ramp_colours(len(inside))
            for spot, arm in enumerate(inside):
                x, values = lines[arm]
                colour = palette[spot % len(palette)]
                axes.fill_between(x, values.min(0), values.max(0), color=colour, alpha=0.12, lw=0)
                looks: dict[str, Any] = {"color": colour, "marker": style.MARKERS[spot % len(style.MARKERS)]}
                axes.plot(x, values.mean(0), label=names[arm], markevery=style.sparse(len(x)), **looks)
            if across == "block":
                depth_axis(axes, lines[inside[0]][0])
            axes.set(xlabel=across, ylabel=up, title=title)
            if said is None:
                axes.legend(ncols=2)
        if said is not None:
            style.legend(drawing, columns=5)
        return drawing


def _over_training(runs: Sequence[Readings], measure: str) -> Line | None:
    found = [
        {
            row.step: row.value
            for row in one.rows
            if row.measure == measure and row.index is None and row.step is not None
        }
        for one in runs
    ]
    steps = sorted(set.intersection(*(set(one) for one in found))) if found else []
    return (np.array(steps), np.array([[one[step] for step in steps] for one in found])) if steps else None


def _over_depth(runs: Sequence[Readings], measure: str, other: bool) -> Line | None:
    curves = []
    for one in runs:
        sets = facts.others(one)
        if (other and not sets) or not facts.has(one, measure, sets[0] if other else None):
            return None
        curves.append(facts.column(one, measure, sets[0] if other else None))
    if not curves or len({len(curve) for curve in curves}) > 1:
        return None
    return np.arange(1, len(curves[0]) + 1), np.stack(curves)


def _title(readings: Readings) -> str:
    network, data = readings.conventions.get("network", ""), facts.home(readings)
    return short(f"{network} on {data}" if network and data else network or data, 40)


def _own_names(arms: list[str]) -> list[str]:
    """What tells the arms of a panel apart: their names without the words that all begin with."""
    words = [arm.split("_") for arm in arms]
    shared = 0
    while all(len(one) > shared + 1 for one in words) and len({one[shared] for one in words}) == 1 < len(arms):
        shared += 1
    return [", ".join(one[shared:]) for one in words]
