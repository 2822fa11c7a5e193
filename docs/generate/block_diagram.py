"""The three ways in which a residual network runs under ResidualDroppath, as a drawing of its blocks (figure 5)."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from winze.report import style

PLAIN, DROPPED, FROZEN, LEARNS = "", "dropped", "frozen", "learns"
PANELS = {
    "(a) plain, and for inference": ("y = x + f(x)", (PLAIN, PLAIN, PLAIN)),
    "(b) stage 1: some blocks are dropped": ("y = x + m f(x)", (LEARNS, DROPPED, LEARNS)),
    "(c) stage 2: only these learn": ("y = x + m sg[f](x) + (1 − m) f(x)", (FROZEN, LEARNS, FROZEN)),
}


def block_diagram(theme: str = "light") -> Figure:
    """Draw a stack of three blocks, whose middle one is dropped and then taught."""
    with style.use(theme) as colours:
        drawing = style.figure(9.2, 4.6)
        for axes, (title, (equation, states)) in zip(drawing.subplots(1, 3), PANELS.items(), strict=True):
            _stack(axes, states, colours)
            axes.set_title(title, loc="center")
            axes.text(0, -0.75, equation, ha="center", va="top", fontsize=9)
            axes.set(xlim=(-1.6, 1.9), ylim=(-1.0, 6.6))
            axes.set_axis_off()
        return drawing


def _stack(axes: Axes, states: Sequence[str], colours: style.Theme) -> None:
    """Blocks from below to above, each with its shortcut around it and the sum on top."""
    for number, state in enumerate(states):
        foot = 2.0 * number
        _arrow(axes, (0, foot - 0.3), (0, foot + 0.35), colours, state != DROPPED)
        _block(axes, number + 1, foot + 0.35, state, colours)
        _arrow(axes, (0, foot + 0.95), (0, foot + 1.33), colours, state != DROPPED)
        axes.plot([0, 1.15, 1.15], [foot, foot, foot + 1.5], color=colours.ink, lw=1.2)
        _arrow(axes, (1.15, foot + 1.5), (0.17, foot + 1.5), colours, True)
        axes.plot(0, foot + 1.5, "o", markersize=13, mfc=colours.paper, mec=colours.ink, zorder=3)
        axes.text(0, foot + 1.48, "+", ha="center", va="center", fontsize=11, zorder=4)
    axes.text(0, -0.4, "x", ha="center", va="center", fontsize=9)
    _arrow(axes, (0, 2.0 * len(states) - 0.33), (0, 2.0 * len(states) + 0.25), colours, True)


def _block(axes: Axes, number: int, foot: float, state: str, colours: style.Theme) -> None:
    looks: dict[str, dict[str, Any]] = {
        PLAIN: {"fc": colours.shade, "ec": colours.ink},
        LEARNS: {"fc": colours.paper, "ec": colours.probe, "lw": 2.0},
        FROZEN: {"fc": colours.shade, "ec": colours.faint, "hatch": "////"},
        DROPPED: {"fc": "none", "ec": colours.faint, "ls": (0, (3, 2))},
    }
    axes.add_patch(FancyBboxPatch((-0.62, foot), 1.24, 0.6, "round,pad=0,rounding_size=0.1", **looks[state]))
    back = {"boxstyle": "round,pad=0.15", "fc": colours.shade, "ec": "none"} if state == FROZEN else None
    name = f"f{number}".translate(str.maketrans("123", "₁₂₃"))
    axes.text(0, foot + 0.3, name, bbox=back, ha="center", va="center", fontsize=9)
    colour = colours.probe if state == LEARNS else colours.faint
    axes.text(-0.75, foot + 0.3, state, ha="right", va="center", fontsize=8, color=colour)


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], colours: style.Theme, runs: bool) -> None:
    looks = {"color": colours.ink, "lw": 1.2} if runs else {"color": colours.faint, "lw": 1.0, "ls": (0, (3, 2))}
    axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0, **looks})
