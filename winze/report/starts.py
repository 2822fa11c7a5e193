"""Where tunnels start: a bar for each arm, the extractor coloured and the tunnel shaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from winze.report import facts, style
from winze.report.by_arm import Arms
from winze.report.means import layer_numbers, mean_tunnel
from winze.report.names import percent, short
from winze.report.scans import UnreadError

if TYPE_CHECKING:
    import matplotlib.figure


def tunnel_starts(
    arms: Arms,
    theme: str = "light",
    *,
    threshold: float = 0.95,
    told: Mapping[str, float] | None = None,
    whose: str = "the paper's",
    within: float = 1.0,
) -> matplotlib.figure.Figure:
    """Draw each arm's layers as a bar: curves are averaged over seeds first, the thin line is the 95 % interval.

    What the paper told of an arm is a diamond. An arm that never reaches the threshold has no tunnel and a hatched bar,
    one that reaches it later than `within` this share of its layers has none either.
    """
    from matplotlib.ticker import MaxNLocator

    read = {arm: runs for arm, runs in arms.items() if runs and all(facts.has(one, "probe") for one in runs)}
    if not read:
        raise UnreadError("no probes were read, so no tunnel has a start")
    with style.use(theme) as colours:
        drawing = style.figure(height=1.1 + 0.3 * len(read))
        axes = drawing.add_subplot()
        for row, (arm, runs) in enumerate(read.items()):
            numbers, found = layer_numbers(runs[0]), mean_tunnel(runs, threshold)
            total = runs[0].conventions.get("layer_count") or max(numbers.values())
            start, low, high = (
                total if place is None else numbers[place.index] for place in (found.start, found.low, found.high)
            )
            if found.start is None:
                edge = colours.probe
                axes.barh(row, total, color="none", edgecolor=edge, hatch="//", height=0.6, label="no probe gets there")
            else:
                axes.barh(row, start, color=colours.probe, height=0.6, alpha=0.75, label="extractor")
                if start <= within * total:
                    axes.barh(row, total - start, left=start, color=colours.shade, height=0.6, label="tunnel")
                else:
                    said = f"no tunnel: it would begin after {percent(within)} of the layers"
                    looks: dict[str, Any] = {"color": "none", "edgecolor": colours.faint, "linestyle": ":"}
                    axes.barh(row, total - start, left=start, height=0.6, label=said, **looks)
                axes.plot([low, high], [row, row], color=colours.ink, lw=1.4, label="95 % interval of the start")
            if arm in (told or {}):
                axes.plot((told or {})[arm], row, "D", mfc=colours.paper, color=colours.rank, markersize=5, label=whose)
        axes.set_yticks(np.arange(len(read)), [short(arm.replace("_", " "), 30) for arm in read])
        axes.invert_yaxis()
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(False, axis="y")
        axes.set(xlabel="layer", title=f"start of the tunnel at {percent(threshold)} of the accuracy")
        style.legend(drawing)
        return drawing
