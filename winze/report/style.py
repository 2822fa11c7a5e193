"""The house style: one colour an entity in light and dark, fonts and sizes, and files that differ only where they must.

Every colour has a contrast of at least 3 to its background, and any two of one theme stay apart for readers who see
no red or no green. Markers tell apart what a seventh colour would not.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from winze.atomic import write_atomically

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.colors
    import matplotlib.figure

SALT = "winze"
WIDE, TALL = 6.4, 3.8  # inches of a figure with one panel
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
MARKERS = ("o", "s", "D", "^", "v", "P", "X")


@dataclass(frozen=True)
class Theme:
    """Colours by what they stand for. `others` is for OOD sets, `scans` the networks of a comparison."""

    paper: str
    ink: str
    faint: str
    grid: str
    shade: str
    probe: str
    rank: str
    others: tuple[str, ...]
    ramp: tuple[float, float]  # the part of viridis that can be seen as a line

    @property
    def scans(self) -> tuple[str, ...]:
        """Colours of several scans in one plot, the first two farthest apart."""
        return (self.probe, self.rank, *self.others)

    def ramp_colours(self, count: int, whole: bool = False) -> list[str]:
        """Colours from the first place to the last; `whole` takes the full range, as a map does."""
        import matplotlib
        from matplotlib.colors import to_hex

        low, high = (0.0, 1.0) if whole else self.ramp
        steps = [low + (high - low) * i / max(count - 1, 1) for i in range(count)]
        return [to_hex(matplotlib.colormaps["viridis"](step)) for step in steps]

    def ramp_map(self) -> matplotlib.colors.LinearSegmentedColormap:
        """Give the ramp as a colour map, for the bar beside lines coloured by depth."""
        from matplotlib.colors import LinearSegmentedColormap

        return LinearSegmentedColormap.from_list("depth", self.ramp_colours(32))


THEMES = {
    "light": Theme(
        paper="#ffffff",
        ink="#1b1f24",
        faint="#57606a",
        grid="#e3e6ea",
        shade="#e9ebee",
        probe="#0067b1",
        rank="#c8321b",
        others=("#2f9e70", "#7a1fe0", "#422816", "#0099a8", "#58004f"),
        ramp=(0.0, 0.72),
    ),
    "dark": Theme(
        paper="#14181d",
        ink="#e8eaed",
        faint="#a4adb8",
        grid="#2b3138",
        shade="#262c33",
        probe="#5ab0ff",
        rank="#ff7a5c",
        others=("#7df0bb", "#ffc94a", "#e8418f", "#a06bff", "#7fe9f5"),
        ramp=(0.32, 1.0),
    ),
}


@contextmanager
def use(theme: str = "light") -> Iterator[Theme]:
    """Draw in the house style inside a `with`, and leave matplotlib as it was."""
    import matplotlib

    with matplotlib.rc_context(cast(Any, _settings(THEMES[theme]))):
        yield THEMES[theme]


def figure(width: float = WIDE, height: float = TALL) -> matplotlib.figure.Figure:
    """Make an empty figure that no window system knows of, laid out so that labels never overlap the axes."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def panels(
    count: int, across: int = 2, wide: float = 4.6, tall: float = 3.0, shared: bool = False
) -> tuple[matplotlib.figure.Figure, list[matplotlib.axes.Axes]]:
    """Make a figure with so many panels of these inches, `across` in a row; one alone is as wide as a figure is.

    `shared`: all have one scale upwards, whose numbers stand at each.
    """
    across = min(across, count)
    down = -(-count // across)
    drawing = figure(WIDE if count == 1 else wide * across, 0.7 + tall * down)
    grid = drawing.subplots(down, across, squeeze=False, sharey=shared)
    for axes in grid.flat[:count]:
        axes.tick_params(labelleft=True)
    for axes in grid.flat[count:]:
        axes.set_axis_off()
    return drawing, list(grid.flat[:count])


def legend(drawing: matplotlib.figure.Figure, columns: int = 4) -> None:
    """Put one legend below all panels, with each label once, in as many columns as fit, at most the given."""
    found: dict[str, Any] = {}
    for axes in drawing.axes:
        for handle, said in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(said, handle)
    if found:
        inches = 0.75 + 0.066 * max(map(len, found))  # of a column, in the legend's font
        fitting = max(1, min(columns, len(found), int(drawing.get_figwidth() / inches)))
        lines = -(-len(found) // fitting)
        where: dict[str, Any] = {"loc": "outside lower center", "ncols": -(-len(found) // lines), "handlelength": 2.8}
        drawing.legend(found.values(), found.keys(), **where)


def save(drawing: matplotlib.figure.Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure so that the same readings give the same bytes: a fixed hash salt, no date, no version."""
    write_atomically(Path(path), rendered(drawing, Path(path).suffix.removeprefix(".")))


def rendered(drawing: matplotlib.figure.Figure, kind: str = "svg") -> bytes:
    """The bytes of a figure's file, `svg` or `png`; a figure is laid out once, for whichever comes first."""
    import matplotlib

    metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    body = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": SALT, "svg.fonttype": "none"}):
        drawing.savefig(body, format=kind, metadata=metadata, dpi=160)
    drawing.set_layout_engine("none")
    return body.getvalue()


def look(number: int, theme: Theme) -> dict[str, Any]:
    """Colour and marker of the `number`-th OOD set."""
    return {"color": theme.others[number % len(theme.others)], "marker": MARKERS[1:][number % (len(MARKERS) - 1)]}


def power_of_ten(value: float, _: object = None) -> str:
    """A tick of a logarithmic axis as text: matplotlib's own is a formula, and slow to set."""
    from math import log10

    return f"{value:g}" if 0.01 < value < 10_000 else "10" + str(round(log10(value))).translate(RAISED)


def sparse(count: int) -> int:
    """Which points of a long line get a marker: every so many, so that dashes stay dashes."""
    return max(1, count // 16)


def _settings(theme: Theme) -> dict[str, Any]:
    return {
        "figure.facecolor": theme.paper,
        "savefig.facecolor": theme.paper,
        "axes.facecolor": theme.paper,
        "axes.edgecolor": theme.faint,
        "axes.labelcolor": theme.ink,
        "axes.titlecolor": theme.ink,
        "axes.titlesize": 10,
        "axes.titlelocation": "left",
        "axes.labelsize": 9,
        "axes.linewidth": 0.8,
        "axes.spines.top": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": theme.grid,
        "grid.linewidth": 0.7,
        "text.color": theme.ink,
        "text.parse_math": False,  # a place may be called `$x`
        "xtick.color": theme.faint,
        "ytick.color": theme.faint,
        "xtick.labelsize": 8,
        "ytick.labelsize": 8,
        "lines.linewidth": 1.6,
        "lines.markersize": 3.5,
        "legend.fontsize": 8,
        "legend.frameon": False,
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib: the same on every machine
        "font.size": 9,
        "hatch.linewidth": 0.5,
    }
