"""Figures 6.3.1, 6.3.2, 6.3.4 and 6.8.2: what networks look like that learnt at different temperatures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from winze.lab.quantities import LAST_OOD, OOD
from winze.lab.recipe import Draw
from winze.readings import Array, Readings
from winze.recipes.temperature.maps import alignment_maps
from winze.report import facts, style
from winze.report.means import layer_numbers
from winze.report.names import data_name, label
from winze.report.scans import UnreadError

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

Arms = Mapping[str, Sequence[Readings]]
NETWORKS = {
    "mlp8": "MLP-8",
    "resnet18": "ResNet-18",
    "resnet20": "ResNet-20",
    "resnet34": "ResNet-34",
    "resnet50": "ResNet-50",
}


@dataclass(frozen=True)
class Row:
    """One row of panels: a measure over depth, on which data (None: the network's own), and how it is drawn."""

    measure: str
    up: str
    data: str | None = None
    logarithmic: bool = False
    output: bool = True
    """show the output layer too"""

    def set_of(self, run: Readings) -> str | None:
        """The set of other data, by name; None: the network's own."""
        others = facts.others(run)
        return None if self.data is None or not others else others[0 if self.data == OOD else -1]


def said(arm: str) -> tuple[str, str]:
    """The network and the temperature that an arm's name tells; other arms are in one panel under their own names."""
    network, _, rest = arm.rpartition("_")
    known = NETWORKS.get(network, "")
    if rest[1:].isdigit():
        return known, f"T = {rest[1:]}"
    return (known, "T = norm") if known and rest == "norm" else ("", arm.replace("_", " "))


def over_depth(
    arms: Arms, theme: str = "light", *, rows: Sequence[Row], ends: bool = False
) -> matplotlib.figure.Figure:
    """Draw measures over depth, a column a network and a line an arm; the band spans the seeds.

    `ends` adds the ranks before training and the highest that are possible.
    """
    panels = _panels(arms, rows[0].measure)
    several = any(len(facts.others(run)) > 1 for runs in arms.values() for run in runs)
    rows = [row for row in rows if row.data != LAST_OOD or several]
    with style.use(theme) as colours:
        wide = 3.4 if len(panels) > 1 else style.WIDE
        drawing = style.figure(wide * len(panels), 0.7 + 2.5 * len(rows))
        grid = drawing.subplots(len(rows), len(panels), squeeze=False, sharex="col")
        for column, (network, inside) in enumerate(panels.items()):
            for axes, row in zip(grid[:, column], rows, strict=True):
                for arm, look in _looks(inside, colours).items():
                    _curve(axes, arms[arm], row, look)
                if ends:
                    _ends(axes, arms[inside[0]], colours)
                _finish(axes, row, arms[inside[0]][0])
            grid[0, column].set_title(network)
            grid[-1, column].set_xlabel("layer")
        style.legend(drawing, columns=4 if ends and len(panels) == 1 else 5 if len(panels) == 1 else 8)
        return drawing


def logits_over_training(arms: Arms, theme: str = "light") -> matplotlib.figure.Figure:
    """Draw the mean norm of a sample's logits over training, a panel a network."""
    panels = _panels(arms, "logits_norm")
    with style.use(theme) as colours:
        wide = 3.4 if len(panels) > 1 else style.WIDE
        drawing = style.figure(wide * len(panels), 3.5)
        row = drawing.subplots(1, len(panels), squeeze=False)[0]
        for axes, (network, inside) in zip(row, panels.items(), strict=True):
            for arm, look in _looks(inside, colours).items():
                found = [[one for one in run.rows if one.measure == "logits_norm"] for run in arms[arm]]
                steps = [one.step or 0 for one in found[0]]
                values = np.array([[one.value for one in rows] for rows in found])
                _line(axes, np.array(steps), values, look)
            axes.set(title=network, xlabel="step", yscale="log")
            axes.yaxis.set_major_formatter(style.power_of_ten)
            axes.yaxis.set_minor_formatter("")
        row[0].set_ylabel("norm of the logits")
        style.legend(drawing, columns=5 if len(panels) == 1 else 8)
        return drawing


def _panels(arms: Arms, measure: str) -> dict[str, list[str]]:
    panels: dict[str, list[str]] = {}
    for arm, runs in arms.items():
        if runs and all(any(row.measure == measure for row in run.rows) for run in runs):
            panels.setdefault(said(arm)[0], []).append(arm)
    if not panels:
        raise UnreadError(f"no {label(measure)} was read")
    return panels


def _looks(arms: Sequence[str], colours: style.Theme) -> dict[str, dict[str, Any]]:
    """Temperatures from dark to bright in their order; what is no fixed temperature has a colour of its own."""
    fixed = [arm for arm in arms if said(arm)[1][-1].isdigit()]
    ramp = dict(zip(fixed, colours.ramp_colours(len(fixed)), strict=True))
    spare = (*colours.others[1:], colours.others[0])  # green last: a ramp ends in it
    rest = dict(zip([arm for arm in arms if arm not in ramp], spare, strict=False))
    return {
        arm: {
            "color": (ramp | rest)[arm],
            "marker": style.MARKERS[number % len(style.MARKERS)],
            "label": said(arm)[1],
            "ls": "-" if arm in ramp or not ramp else "--",
        }
        for number, arm in enumerate(arms)
    }


def _curve(axes: matplotlib.axes.Axes, runs: Sequence[Readings], row: Row, look: dict[str, Any]) -> None:
    curves = []
    for run in runs:
        if row.data is not None and not facts.others(run):
            continue
        curves.append(facts.column(run, row.measure, row.set_of(run)))
    if curves and not np.isnan(curves).all():
        numbers = np.array(list(layer_numbers(runs[0]).values()))
        shown = numbers < np.inf if row.output else numbers < runs[0].conventions["layer_count"]
        _line(axes, numbers[shown], np.array(curves)[:, shown], look)


def _line(axes: matplotlib.axes.Axes, x: Array, values: Array, look: dict[str, Any]) -> None:
    axes.fill_between(x, values.min(0), values.max(0), color=look["color"], alpha=0.12, lw=0)
    axes.plot(x, values.mean(0), markevery=style.sparse(len(x)), **look)


def _ends(axes: matplotlib.axes.Axes, runs: Sequence[Readings], colours: style.Theme) -> None:
    x = list(layer_numbers(runs[0]).values())
    before = np.mean([facts.column(run, "rank_before") for run in runs], axis=0)
    axes.plot(x, before, ls="--", lw=1.2, color=colours.faint, label="before training")
    tested = max((row.n or 0 for row in facts.at(runs[0], "numerical_rank")), default=0)
    most = np.minimum(facts.column(runs[0], "features"), tested - 1)
    axes.plot(x, most, ls=":", lw=1.2, color=colours.rank, label="the most possible")


def _finish(axes: matplotlib.axes.Axes, row: Row, run: Readings) -> None:
    from matplotlib.ticker import MaxNLocator

    other = row.set_of(run)
    axes.set_ylabel(row.up if other is None else f"{row.up}, {data_name(other)}")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if row.logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(style.power_of_ten)
        axes.yaxis.set_minor_formatter("")


OVER_DEPTH: dict[str, Draw] = {
    "Ranks over depth": partial(over_depth, rows=[Row("numerical_rank", "numerical rank")], ends=True),
    "Norms over depth": partial(
        over_depth,
        rows=[
            Row("sample_norm", "norm of the features", logarithmic=True),
            Row("weight_norm", "norm of the weights", output=False),
        ],
    ),
    "Probes over depth": partial(
        over_depth,
        rows=[
            Row("probe", "probe, own data"),
            Row("probe", "probe", OOD),
            Row("probe", "probe", LAST_OOD),
        ],
    ),
    "Norm of the logits during training": logits_over_training,
}
FIGURES: dict[str, Draw] = OVER_DEPTH | {
    f"Alignment in {name}": partial(alignment_maps, arms={f"{network}_t1": "T = 1", f"{network}_t100": "T = 100"})
    for network, name in NETWORKS.items()
}
