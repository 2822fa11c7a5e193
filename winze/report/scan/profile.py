"""The depth profile: probe accuracy and rank over the places, with the tunnel shaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from winze.readings import Readings, facts
from winze.readings.over_seeds import layer_numbers
from winze.readings.wording import data_name, label, percent, short
from winze.report import style
from winze.report.scan.scans import Scans, holding

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure


def depth_profile(
    scans: Scans, second: str = "numerical_rank", threshold: float = 0.95, theme: str = "light"
) -> matplotlib.figure.Figure:
    """Draw the probes and, dashed on a second axis, another measure over depth.

    The tunnel is shaded from the place after its start; a bar at the foot is the 95 % interval of the start, and the
    dotted line the accuracy to reach. Several scans share a panel for each measure, one colour a scan.
    """
    found = holding(scans, lambda one: facts.has(one, "probe") or facts.has(one, second), f"probes or {label(second)}")
    with style.use(theme) as colours:
        if len(found) > 1:
            return _compared(found, second, threshold, colours)
        return _alone(next(iter(found.values())), second, threshold, colours)


def _alone(readings: Readings, second: str, threshold: float, colours: style.Theme) -> matplotlib.figure.Figure:
    sets = facts.others(readings)
    drawing = style.figure(height=style.TALL + 0.17 * ((len(sets) + 3) // 3))
    found = facts.entrance(readings, threshold)
    panel(drawing.add_subplot(), readings, found, second, colours)
    drawing.legend(loc="outside lower center", ncols=2 if len(sets) == 1 else 3)
    return drawing


def panel(
    axes: matplotlib.axes.Axes,
    readings: Readings,
    found: facts.Entrance | None,
    second: str,
    colours: style.Theme,
    level: str = "",
) -> None:
    """Draw one network: probes on the left axis, another measure dashed on the right, its tunnel shaded.

    `level` is the legend's word for the accuracy to reach; left empty, its value.
    """
    places, sets = facts.places(readings), facts.others(readings)
    x = np.array([place.index + 1 for place in places])
    if facts.has(readings, "probe"):
        name = short(data_name(facts.home(readings)), 28)
        _band(axes, readings, x, None, colours.probe)
        axes.plot(
            x,
            facts.column(readings, "probe"),
            "o-",
            color=colours.probe,
            markevery=style.sparse(len(x)),
            label=f"probe, {name}",
            zorder=3,
        )
        for spot, data in enumerate(sets):
            looks = style.look(spot, colours) | {"markevery": style.sparse(len(x))}
            axes.plot(x, facts.column(readings, "probe", data), lw=1.2, label=short(data_name(data), 28), **looks)
        axes.set_ylabel("probe accuracy", color=colours.probe)
        if found is not None:
            _tunnel(axes, found, layer_numbers(readings), colours, level)
    depth_axis(axes, x)
    if facts.has(readings, second):
        right = axes.twinx()
        dots: dict[str, Any] = {"marker": ".", "markevery": style.sparse(len(x)), "color": colours.rank}
        right.plot(x, facts.column(readings, second), "--", label=label(second), **dots)
        right.set_ylabel(label(second), color=colours.rank)
        right.set_ylim(bottom=0)
        right.grid(False)


def _compared(
    scans: dict[str, Readings], second: str, threshold: float, colours: style.Theme
) -> matplotlib.figure.Figure:
    panels = [measure for measure in ("probe", second) if any(facts.has(one, measure) for one in scans.values())]
    drawing = style.figure(height=0.6 + 2.6 * len(panels))
    rows = drawing.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, measure in zip(rows, panels, strict=True):
        longest = np.arange(1)
        for spot, (name, one) in enumerate(scans.items()):
            x = np.array([place.index + 1 for place in facts.places(one)])
            longest = x if x.size and x[-1] > longest[-1] else longest
            colour = colours.scans[spot % len(colours.scans)]
            marker = style.MARKERS[spot % len(style.MARKERS)]
            line: dict[str, Any] = {"color": colour, "marker": marker, "markevery": style.sparse(len(x))}
            dash = "-" if measure == "probe" else "--"
            axes.plot(x, facts.column(one, measure), dash, label=short(name, 40), **line)
            inside = facts.entrance(one, threshold) if measure == "probe" else None
            if inside is not None and inside.tunnel.start is not None:
                axes.axvline(inside.tunnel.start.index + 1, color=colour, lw=1, ls=":", zorder=1)
        axes.set_ylabel(label(measure))
        depth_axis(axes, longest, bottom=axes is rows[-1])
    if "probe" in panels:
        rows[0].set_title("dotted vertical line: the start of each tunnel", color=colours.faint, fontsize=8)
    drawing.legend(*rows[0].get_legend_handles_labels(), loc="outside lower center", ncols=min(3, len(scans)))
    return drawing


def _band(axes: matplotlib.axes.Axes, readings: Readings, x: facts.Array, data: str | None, colour: str) -> None:
    low, high = (facts.column(readings, "probe", data, side) for side in ("low", "high"))
    axes.fill_between(x, low, high, color=colour, alpha=0.15, lw=0)


def _tunnel(
    axes: matplotlib.axes.Axes, found: facts.Entrance, numbers: dict[int, int], colours: style.Theme, level: str
) -> None:
    """Shade the tunnel, and draw the accuracy to reach and the interval of the start."""
    tunnel, total = found.tunnel, max(numbers) + 1
    if found.reference.refused:
        axes.set_title(f"no tunnel: {short(found.reference.refused, 64)}", color=colours.faint, fontsize=8)
        return
    level = level or f"{percent(tunnel.threshold)} of {percent(tunnel.reference)}"
    axes.axhline(tunnel.threshold * tunnel.reference, color=colours.faint, lw=1, ls=":", label=level)
    if tunnel.start is None:
        axes.set_title("no tunnel: no place reaches the level", color=colours.faint, fontsize=8)
        return
    first = tunnel.start.index + 1
    if first < total:
        _shade(axes, first, total, colours)
    if found.bounded and tunnel.low is not None:
        end = total if tunnel.high is None else tunnel.high.index + 1
        looks: dict[str, Any] = {"color": colours.faint, "lw": 0, "zorder": 1, "label": "95 % interval of its start"}
        axes.axvspan(tunnel.low.index + 0.5, end + 0.5, ymax=0.02, **looks)
    where = "tunnel starts after" if first < total else "no tunnel before"
    said = f"{where} layer {numbers[tunnel.start.index]}, {short(tunnel.start.name, 36)}"
    axes.set_title(said, color=colours.faint, fontsize=8)


def shade_tunnel(axes: matplotlib.axes.Axes, readings: Readings, colours: style.Theme, threshold: float = 0.95) -> None:
    """Shade the places behind the start of the tunnel, where probes found one."""
    found, total = facts.entrance(readings, threshold), len(facts.places(readings))
    if found is not None and found.tunnel.start is not None and found.tunnel.start.index + 1 < total:
        _shade(axes, found.tunnel.start.index + 1, total, colours)


def _shade(axes: matplotlib.axes.Axes, first: int, total: int, colours: style.Theme) -> None:
    axes.axvspan(first + 0.5, total + 0.5, color=colours.shade, lw=0, zorder=0, label="tunnel")


def depth_axis(axes: matplotlib.axes.Axes, x: facts.Array, bottom: bool = True) -> None:
    """Number the places, whole numbers only, with half a place of room at both ends; where some lack, those of `x`."""
    from matplotlib.ticker import FixedLocator, MaxNLocator

    axes.set_xlim((x[0] if x.size else 1) - 0.5, (x[-1] if x.size else 1) + 0.5)
    gaps = x.size > 1 and bool((np.diff(x) > 1).any())
    sparse = FixedLocator(x[:: max(1, len(x) // 8)].tolist())
    axes.xaxis.set_major_locator(sparse if gaps else MaxNLocator(nbins=20, integer=True, min_n_ticks=1))
    if bottom:
        axes.set_xlabel("layer")
