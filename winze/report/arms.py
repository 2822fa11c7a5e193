"""Depth profiles of an experiment: one panel an arm, the mean over its seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from winze.readings import Readings
from winze.report import facts, style
from winze.report.means import layer_numbers, mean_readings, mean_tunnel
from winze.report.names import label, percent, short
from winze.report.profile import panel
from winze.report.scans import UnreadError

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure


def arm_profiles(
    arms: Mapping[str, Sequence[Readings]],
    theme: str = "light",
    second: str = "numerical_rank",
    threshold: float = 0.95,
) -> matplotlib.figure.Figure:
    """Draw each arm's mean probes and, dashed, another measure over depth.

    The band spans the seeds; the tunnel of the mean curve is shaded, and the bar at its foot is the 95 % interval of
    its start. Where the readings know the paper's layer numbers, those stand at the axis.
    """
    means = {arm: mean_readings(runs) for arm, runs in arms.items() if runs}
    drawn = {arm: one for arm, one in means.items() if facts.has(one, "probe") or facts.has(one, second)}
    if not drawn:
        raise UnreadError(f"no probes or {label(second)} were read")
    with style.use(theme) as colours:
        drawing, grid = style.panels(len(drawn), shared=True)
        for axes, (arm, one) in zip(grid, drawn.items(), strict=True):
            probed = facts.has(one, "probe")
            found = _entrance(arms[arm], threshold) if probed else None
            panel(axes, one, found, second, colours, f"{percent(threshold)} of the network's accuracy")
            _name(axes, f"{short(arm, 30)}, {_seeds(len(arms[arm]))}", colours)
            _number(axes, one)
        style.legend(drawing)
        return drawing


def _entrance(runs: Sequence[Readings], threshold: float) -> facts.Entrance:
    found = mean_tunnel(runs, threshold)
    return facts.Entrance(found, True, facts.Reference(found.reference, own=True))


def _seeds(count: int) -> str:
    return f"{count} seed{'s' if count > 1 else ''}"


def _name(axes: matplotlib.axes.Axes, name: str, colours: style.Theme) -> None:
    """Put the arm's name above what the panel already says of the tunnel."""
    said = axes.get_title(loc="left")
    axes.set_title(f"{name}\n{said}" if said else name, color=colours.ink, fontsize=9)


def _number(axes: matplotlib.axes.Axes, readings: Readings) -> None:
    """Write the paper's layer numbers under the places, where they differ from 1, 2, 3..."""
    numbers = layer_numbers(readings)
    if all(layer == index + 1 for index, layer in numbers.items()):
        return
    shown = list(numbers.items())[:: max(1, len(numbers) // 8)]
    axes.set_xticks([index + 1 for index, _ in shown], [str(layer) for _, layer in shown])
    counting = next(iter(readings.conventions["layers"]))
    axes.set_xlabel(f"layer, counted {counting}")
