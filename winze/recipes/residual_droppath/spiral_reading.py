"""What is read of one network of the spiral: numbers of its node maps, and what its figures are drawn from."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor

from winze import measure
from winze.depth import Place
from winze.measure import Value, missing
from winze.networks import SpiralMLP
from winze.readings import Array, Readings, Row
from winze.train.evaluate import judge

SIDE = 50  # points along each side of the grid on which maps are read
DRAWN, SHADES = 20, 36  # points along each side of a map that is kept for figures, and its shades
ROWS, COLUMNS = 6, 9  # the most nodes and layers that a figure shows
SHOWN = 400  # training points in a picture
GUESS = math.log(2)  # the loss of a network that knows nothing
LOST = missing("its features are no longer numbers")
DATA = "spiral"


def grid(side: int = SIDE) -> Tensor:
    """Points at equal distances on [-1, 1]², row by row from below."""
    ends = torch.linspace(-1, 1, side)
    return torch.stack(torch.meshgrid(ends, ends, indexing="xy"), -1).flatten(0, 1)


@torch.no_grad()
def streams(net: SpiralMLP, points: Tensor) -> list[Tensor]:
    """The stream before the first layer, h_0, and after each layer."""
    found = [net.input(points)]
    for layer in net.layers:
        found.append(layer(found[-1]))
    return found


def branches(seen: list[Tensor]) -> list[Tensor]:
    """What each layer adds to the stream."""
    return [after - before for before, after in pairwise(seen)]


def knowledge(net: SpiralMLP, test: tuple[Tensor, Tensor], step: int) -> list[Row]:
    """How much it knows; it is lost where its loss is no number, or higher than that of guessing."""
    told = judge(net, [test])
    readings = Readings()
    for name, value in {"accuracy": told["accuracy"], "lost": not told["test_loss"] <= GUESS}.items():
        readings.add(name, _short(value), data=DATA, split="test", step=step, n=len(test[1]))
    return readings.rows


def recurring(net: SpiralMLP, step: int) -> list[Row]:
    """How many maps of streams and of branches are seen again."""
    seen = streams(net, grid())
    values = {name: _read(measure.recurring_maps, of) for name, of in (("", seen), ("_branches", branches(seen)))}
    return _rows({f"recurring_maps{name}": value for name, value in values.items()}, step)


def between(net: SpiralMLP, step: int) -> list[Row]:
    """How its layers relate, by three readings of their features: streams, their patterns alone, and branches."""
    seen = streams(net, grid())
    read = {"": seen, "_normalised": [_normalised(one) for one in seen], "_branches": branches(seen)}
    values: dict[str, Value] = {}
    for name, places in read.items():
        values[f"feature_reuse{name}"] = _read(lambda of: measure.feature_reuse(measure.distances(of)), places)
        values[f"non_monotonicity{name}"] = _read(lambda of: measure.non_monotonicity(measure.distances(of)), places)
    values["alike_share"] = _read(lambda of: Value(fmean(measure.alike_nodes(one).share for one in of)), seen)
    return _rows(values, step)


def each_place(net: SpiralMLP, step: int) -> list[Row]:
    """What every stream keeps of the input, and how many of its nodes show the same."""
    points = grid()
    seen = streams(net, points)
    readings = Readings()
    for index, one in enumerate(seen):
        place = Place(index, len(seen), "input" if index == 0 else f"layers.{index - 1}")
        for name, value in _kept(one, points).items():
            where: dict[str, Any] = {"place": place, "data": DATA, "split": "grid", "step": step}
            readings.add(name, _short(value), **where, n=len(points), note=value.note)
    return readings.rows


def pictures(net: SpiralMLP, step: int) -> dict[str, Array]:
    """Node maps and weights of some layers and nodes, as small arrays by name.

    `maps/STEP` has bytes [layer, node, y, x], each map spread over 0-255; `weights/STEP` [layer, node, node] has the
    weights into these layers from the same nodes one layer before, `weights_in/STEP` those from the input.
    """
    seen = streams(net, grid(DRAWN))
    layers, nodes = _some(len(seen), COLUMNS), _some(seen[0].shape[1], ROWS)
    maps = torch.stack([seen[layer][:, nodes].T for layer in layers]).view(len(layers), len(nodes), DRAWN, DRAWN)
    low, high = maps.amin((2, 3), keepdim=True), maps.amax((2, 3), keepdim=True)
    shades = ((maps - low) / (high - low).clamp(min=1e-12)).nan_to_num().mul(SHADES - 1).round()
    inner = [_weight(net, layer)[nodes][:, nodes] for layer in layers if layer]
    return {
        f"maps/{step}": (shades * 255 / (SHADES - 1)).to(torch.uint8).numpy(),
        f"weights/{step}": torch.stack(inner).detach().half().numpy(),
        f"weights_in/{step}": net.input.weight[nodes].detach().half().numpy(),
        "maps_layers": np.array(layers, dtype=np.int16),
        "maps_nodes": np.array(nodes, dtype=np.int16),
    }


def tables(net: SpiralMLP) -> dict[str, Array]:
    """The distances between all streams on the grid, h_0 included, and between all branches."""
    seen = streams(net, grid())
    found = {"distances": measure.distances(seen), "distances_branches": measure.distances(branches(seen))}
    return {name: table.half().numpy() for name, table in found.items()}


def scatter(train: tuple[Tensor, Tensor]) -> dict[str, Array]:
    """The first training points, for a picture."""
    points, labels = (part[:SHOWN] for part in train)
    return {"points": points.half().numpy(), "points_labels": labels.to(torch.uint8).numpy()}


def _kept(features: Tensor, points: Tensor) -> dict[str, Value]:
    return {
        "cka_to_input": _read(lambda of: measure.linear_cka(of[0], points), [features]),
        "input_reconstruction": _read(lambda of: measure.linear_reconstruction(of[0], points), [features]),
        "alike_groups": _read(lambda of: measure.alike_nodes(of[0]).groups, [features]),
    }


def _read(number: Callable[[list[Tensor]], Value], places: list[Tensor]) -> Value:
    """A number of some places, where their features are numbers themselves."""
    return number(places) if all(bool(torch.isfinite(one).all()) for one in places) else LOST


def _rows(values: dict[str, Value], step: int) -> list[Row]:
    readings = Readings()
    for name, value in values.items():
        readings.add(name, _short(value), data=DATA, split="grid", step=step, n=SIDE**2, note=value.note)
    return readings.rows


def _weight(net: SpiralMLP, layer: int) -> Tensor:
    """The weights [node, node before] into a layer, counted from 1."""
    return net.get_parameter(f"layers.{layer - 1}.branch.0.weight")


def _normalised(features: Tensor) -> Tensor:
    """Centred, and of mean squared length 1: what is left is the pattern."""
    spread = features.double() - features.double().mean(0)
    return spread / spread.square().sum(1).mean().sqrt().clamp(min=1e-12)


def _some(count: int, most: int) -> list[int]:
    """All of them, or some at equal distances from the first to the last."""
    return sorted({round(one) for one in np.linspace(0, count - 1, min(count, most)).tolist()})


def _short(value: float) -> float:
    """Four digits: results/ keeps many such numbers."""
    return float(f"{value:.4g}")
