"""Lines over rank, depth and training: spectra, class variances, a measure during training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from winze.readings import facts
from winze.readings.wording import label, short
from winze.report import style
from winze.report.scan.profile import depth_axis, shade_tunnel
from winze.report.scan.scans import Scans, holding

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure


def spectra(scans: Scans, theme: str = "light") -> matplotlib.figure.Figure:
    """Draw the covariance eigenvalues of each place, as shares of the largest, one colour a depth."""
    found = holding(scans, lambda one: bool(facts.spectra(one)), "spectra")
    with style.use(theme) as colours:
        drawing, grid = _panels(len(found))
        for axes, (name, one) in zip(grid, found.items(), strict=True):
            places, lines = facts.places(one), facts.spectra(one)
            total = places[-1].total if places else max(lines) + 1
            ramp = colours.ramp_colours(total)
            for index, values in lines.items():
                axes.plot(np.arange(1, len(values) + 1), values / values[0], color=ramp[index], lw=1.1)
            axes.set(xscale="log", yscale="log", xlabel="eigenvalue, by size", title=short(name, 36))
            axes.set_ylim(bottom=max(1e-8, min(float((v / v[0]).min()) for v in lines.values()) / 2))
            axes.set_ylabel("share of the largest")
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_formatter(style.power_of_ten)
                axis.set_minor_formatter("")
            _depth_bar(drawing, axes, total, colours)
        return drawing


def class_variances(scans: Scans, theme: str = "light") -> matplotlib.figure.Figure:
    """Draw the variance within classes (solid) and between them (dashed) over depth.

    They are those of a feature: layers differ in width, and a sum over features would tell of that.
    The axis is logarithmic, so the gap between two lines is their ratio. The tunnel of a network alone is shaded.
    """
    both = facts.VARIANCES
    found = holding(scans, lambda one: any(facts.has(one, measure) for measure in both), "class variances")
    with style.use(theme) as colours:
        drawing = style.figure()
        axes = drawing.add_subplot()
        longest = np.arange(1)
        for spot, (name, one) in enumerate(found.items()):
            x = np.array([place.index + 1 for place in facts.places(one)])
            longest = x if x[-1] > longest[-1] else longest
            for measure, dash in zip(both, ("-", "--"), strict=True):
                one_colour = colours.probe if measure == both[0] else colours.rank
                colour = colours.scans[spot % len(colours.scans)] if len(found) > 1 else one_colour
                said = label(measure) if len(found) == 1 else f"{short(name, 24)}, {label(measure)}"
                marker = style.MARKERS[spot % len(style.MARKERS)]
                if facts.has(one, measure):
                    looks: dict[str, Any] = {"marker": marker, "markevery": style.sparse(len(x)), "color": colour}
                    axes.plot(x, facts.a_feature(one, measure), dash, label=said, **looks)
        if len(found) == 1:
            shade_tunnel(axes, next(iter(found.values())), colours)
        depth_axis(axes, longest)
        axes.set(yscale="log", ylabel="variance per feature")
        axes.yaxis.set_major_formatter(style.power_of_ten)
        axes.yaxis.set_minor_formatter("")
        drawing.legend(loc="outside lower center", ncols=3 if len(found) == 1 else 2)
        return drawing


def curves_over_training(
    scans: Scans, measure: str = "numerical_rank", data: str | None = None, theme: str = "light"
) -> matplotlib.figure.Figure:
    """Draw a measure over the training step, one line per place, coloured by depth."""
    found = holding(scans, lambda one: bool(facts.over_steps(one, measure, data)[0]), f"{label(measure)} over steps")
    with style.use(theme) as colours:
        drawing, grid = _panels(len(found))
        for axes, (name, one) in zip(grid, found.items(), strict=True):
            when, values = facts.over_steps(one, measure, data)
            ramp = colours.ramp_colours(len(values))
            for curve, colour in zip(values, ramp, strict=True):
                axes.plot(when, curve, marker="o" if len(when) < 30 else "", color=colour, lw=1.2, markersize=2.5)
            axes.set(xlabel="training step", ylabel=label(measure), title=short(name, 36))
            _depth_bar(drawing, axes, len(values), colours)
        return drawing


def _panels(count: int) -> tuple[matplotlib.figure.Figure, list[matplotlib.axes.Axes]]:
    """A figure with this many panels, two to a row."""
    across = min(2, count)
    down = -(-count // across)
    drawing = style.figure(style.WIDE if across == 1 else 4.4 * across, style.TALL if down == 1 else 3.2 * down)
    grid = drawing.subplots(down, across, squeeze=False)
    for axes in grid.flat[count:]:
        axes.set_axis_off()
    return drawing, list(grid.flat[:count])


def _depth_bar(drawing: Any, axes: matplotlib.axes.Axes, total: int, colours: style.Theme) -> None:
    """A bar that says which colour is which layer."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.ticker import MaxNLocator

    if total < 2:
        return
    scale = ScalarMappable(Normalize(1, total), colours.ramp_map())
    bar = drawing.colorbar(scale, ax=axes, label="layer", ticks=MaxNLocator(8, integer=True), aspect=30)
    bar.outline.set_visible(False)
