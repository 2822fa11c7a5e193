"""Where tunnels start: a bar per point, the extractor coloured and the tunnel shaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from winze.readings import facts
from winze.readings.over_seeds import layer_numbers, mean_tunnel
from winze.readings.wording import percent, short
from winze.report import style
from winze.report.experiment.drawing import AxisNames, Drawing, PointRuns, PointsAt, as_axes, chosen, grouped
from winze.report.scan.scans import UnreadError

if TYPE_CHECKING:
    import matplotlib.figure


def tunnel_starts(
    rows: AxisNames | None = None,
    *,
    threshold: float = 0.95,
    paper: Mapping[Any, float] | None = None,
    whose: str = "paper",
    within: float = 1.0,
    at: PointsAt | None = None,
    title: str | None = None,
) -> Drawing:
    """The layers of every point as a bar: curves are averaged over seeds first, the thin line is the 95 % interval.

    Rows are named by the axes `rows` and by all others on which the points differ. `paper` has published starts by the
    values on `rows`, drawn as diamonds. A point that never reaches the threshold has a hatched bar; one that reaches it
    behind the share `within` of its layers has no tunnel.
    """

    def draw(runs: PointRuns, theme: str = "light") -> matplotlib.figure.Figure:
        from matplotlib.ticker import MaxNLocator

        read = {p: seeds for p, seeds in chosen(runs, at).items() if all(facts.has(one, "probe") for one in seeds)}
        if not read:
            raise UnreadError("no probes were read, so no tunnel has a start")
        names = grouped(read, rows)
        with style.use(theme) as colours:
            drawing = style.figure(height=1.1 + 0.3 * len(names))
            axes = drawing.add_subplot()
            for row, (point,) in enumerate(names.values()):
                seeds = read[point]
                numbers, found = layer_numbers(seeds[0]), mean_tunnel(seeds, threshold)
                total = seeds[0].conventions.layer_count or max(numbers.values())
                ends = (found.start, found.low, found.high)
                start, low, high = (total if end is None else numbers[end.index] for end in ends)
                bar: Any = {"height": 0.6}
                if found.start is None:
                    bar |= {"edgecolor": colours.probe, "hatch": "//", "label": "no probe reaches the threshold"}
                    axes.barh(row, total, color="none", **bar)
                else:
                    axes.barh(row, start, color=colours.probe, alpha=0.75, label="extractor", **bar)
                    bar |= {"left": start, "color": colours.shade, "label": "tunnel"}
                    if start > within * total:
                        bar |= {"color": "none", "edgecolor": colours.faint, "linestyle": ":"}
                        bar["label"] = f"no tunnel: it would begin after {percent(within)} of the layers"
                    axes.barh(row, total - start, **bar)
                    axes.plot([low, high], [row, row], color=colours.ink, lw=1.4, label="95 % interval of the start")
                key = tuple(point[axis] for axis in as_axes(rows))
                told = (paper or {}).get(key[0] if len(key) == 1 else key)
                if told is not None:
                    axes.plot(told, row, "D", mfc=colours.paper, color=colours.rank, markersize=5, label=whose)
            axes.set_yticks(np.arange(len(names)), [short(name, 40) or "all" for name in names])
            axes.invert_yaxis()
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            axes.grid(False, axis="y")
            axes.set(xlabel="layer", title=f"start of the tunnel at {percent(threshold)} of the accuracy")
            style.legend(drawing)
            return drawing

    return Drawing(title or "Start of the tunnel", draw, as_axes(rows, tuple(at or ())))
