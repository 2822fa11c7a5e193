"""README's figure: three networks over their depth, drawn to be read at a glance."""

from pathlib import Path
from typing import Any

import numpy as np
from kept_runs import largest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from winze import lab
from winze.readings import Readings, facts
from winze.readings.over_seeds import layer_numbers, mean_readings, mean_tunnel
from winze.report import style

NAMES = {"mlp12": "MLP-12", "vgg19": "VGG-19", "resnet34": "ResNet-34"}
LABELLED = "vgg19"
"""The panel whose lines are named."""


def opening_figure(results: Path) -> Figure:
    """Probe accuracy, OOD probe accuracy and rank over the depth of three networks on CIFAR-10, means over seeds."""
    recipe = lab.recipe("tunnel/main")
    sound = recipe.sound(largest(recipe.name, results)[1])
    runs = {point["network"]: list(seeds.values()) for point, seeds in sound.items() if point["data"] == "cifar10"}
    with style.use() as colours:
        figure = style.figure(9.0, 2.8)
        grid = figure.subplots(1, len(NAMES), sharey=True)
        for axes, (network, name) in zip(grid, NAMES.items(), strict=True):
            _panel(axes, runs[network], colours, named=network == LABELLED)
            axes.set_title(name, fontsize=11, fontweight="bold", color=colours.ink)
        grid[0].set_yticks(np.linspace(0, 1, 6), [f"{share} %" for share in range(0, 101, 20)], fontsize=9)
        return figure


def _panel(axes: Axes, runs: list[Readings], colours: style.Theme, named: bool) -> None:
    """One network; its rank is drawn as a share of its highest, so that one axis serves all three lines."""
    mean, tunnel = mean_readings(runs), mean_tunnel(runs)
    layers = list(layer_numbers(mean).values())
    rank = facts.column(mean, "numerical_rank")
    others = facts.column(mean, "probe", facts.others(mean)[0])
    looks: dict[str, Any] = {"lw": 2.2, "solid_capstyle": "round"}
    axes.plot(layers, facts.column(mean, "probe"), color=colours.probe, **looks)
    axes.plot(layers, others, color=colours.others[0], **looks)
    axes.plot(layers, rank / np.nanmax(rank), color=colours.rank, ls=(0, (3, 1.5)), lw=2)
    start = tunnel.start.index
    edge = (layers[start] + layers[start + 1]) / 2
    axes.axvspan(edge, layers[-1] + 0.5, color=colours.shade, lw=0, zorder=0)
    axes.set(xlim=(layers[0] - 0.5, layers[-1] + 0.5), ylim=(0, 1.04))
    axes.set_xlabel("layer", fontsize=10)
    axes.tick_params(labelsize=9)
    axes.grid(visible=False, axis="x")
    if named:
        words = (
            (0.85, "probe accuracy", colours.probe),
            (0.29, "OOD accuracy", colours.others[0]),
            (0.08, "rank", colours.rank),
        )
        for height, text, colour in words:
            axes.text(layers[-1], height, text, color=colour, fontsize=10, ha="right", va="center", fontweight="bold")
        axes.text(
            (edge + 2 * layers[-1]) / 3, 0.63, "tunnel", color=colours.faint, fontsize=11, ha="center", style="italic"
        )
