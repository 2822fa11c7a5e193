"""Depth profiles: probes, rank and the tunnel, a panel per point."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from winze.readings import Readings, facts
from winze.readings.over_seeds import layer_numbers, mean_readings, mean_tunnel
from winze.readings.wording import label, percent, short
from winze.report import style
from winze.report.experiment.drawing import AxisNames, Drawing, PointRuns, PointsAt, as_axes, chosen, grouped, seeds_of
from winze.report.scan.profile import panel as draw_panel
from winze.report.scan.scans import UnreadError

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure


def profiles(
    panel: AxisNames | None = None,
    *,
    second: str = "numerical_rank",
    threshold: float = 0.95,
    at: PointsAt | None = None,
    title: str = "Depth profile",
) -> Drawing:
    """Every point's mean probes and, dashed, another measure over depth; the band spans the seeds.

    The tunnel of the mean curve is shaded, and the bar at its foot is the 95 % interval of its start. Where the
    readings have the paper's layer numbers, those stand at the axis.
    """

    def draw(runs: PointRuns, theme: str = "light") -> matplotlib.figure.Figure:
        there = chosen(runs, at)
        means = {point: mean_readings(seeds) for point, seeds in there.items()}
        drawn = {point: one for point, one in means.items() if facts.has(one, "probe") or facts.has(one, second)}
        if not drawn:
            raise UnreadError(f"no probes or {label(second)} were read")
        with style.use(theme) as colours:
            three = len(drawn) == 3  # in one row
            drawing, grid = style.panels(len(drawn), 3 if three else 2, 4.2 if three else 4.6, shared=True)
            for axes, (name, (point,)) in zip(grid, grouped(drawn, panel).items(), strict=True):
                one, found = drawn[point], None
                own = isfinite(facts.whole(there[point][0], "accuracy"))
                reference = "the network's accuracy" if own else "the last probe"
                against = f"{percent(threshold)} of {reference}"
                if facts.has(one, "probe"):
                    tunnel = mean_tunnel(there[point], threshold)
                    found = facts.Entrance(tunnel, True, facts.Reference(tunnel.reference, own=True))
                draw_panel(axes, one, found, second, colours, against)
                count = seeds_of([len(there[point])])
                lines = [short(f"{name}, {count}" if name else count, 44), axes.get_title(loc="left")]
                axes.set_title("\n".join(filter(None, lines)), color=colours.ink, fontsize=9)
                if three:
                    axes.locator_params(axis="x", nbins=10)
                _number(axes, one)
            style.legend(drawing)
            return drawing

    return Drawing(title, draw, as_axes(panel, tuple(at or ())))


def _number(axes: matplotlib.axes.Axes, readings: Readings) -> None:
    """Write the paper's layer numbers under the places, where they differ from 1, 2, 3..."""
    numbers = layer_numbers(readings)
    if all(layer == index + 1 for index, layer in numbers.items()):
        return
    some = list(numbers.items())[:: max(1, len(numbers) // 8)]
    axes.set_xticks([index + 1 for index, _ in some], [str(layer) for _, layer in some])
    axes.set_xlabel(f"layer, counted {next(iter(readings.conventions['layers']))}")
