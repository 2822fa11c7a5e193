"""An ensemble that is trained on the spiral, and what is read of each network: numbers and arrays of its node maps."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from winze import measure
from winze.data import load
from winze.lab import Bench, Study
from winze.measure import Value, missing
from winze.networks import SpiralMLP, build, describe
from winze.place import Place
from winze.readings import Array, Readings
from winze.recipes.residual_droppath._gradients import StatesSeen
from winze.shape import Alternation
from winze.train import Epochs, fit_ensemble
from winze.train.ensemble import spread
from winze.train.seeds import mix, seed_all

SIDE, DRAWN, SHADES = 50, 20, 36  # points along a side of the grid and of a map that is kept, and the shades of a map
ROWS, COLUMNS = 6, 9  # the most nodes and layers in a figure
SHOWN = 400  # training points in a figure


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


def read_maps(net: SpiralMLP, step: int, readings: Readings) -> None:
    """Add the shares of maps of streams and of branches that recur."""
    seen = streams(net, grid())
    read = {"recurring_maps": seen, "recurring_maps_branches": branches(seen)}
    _add(readings, {name: _of(measure.recurring_maps, one) for name, one in read.items()}, step=step)


def read_end(net: SpiralMLP, test: tuple[Tensor, Tensor], step: int, readings: Readings) -> None:
    """Add accuracy, whether the loss is above that of guessing, how layers relate, and what each keeps of the input."""
    with torch.no_grad():
        outputs = net(test[0])
    lost = not float(F.cross_entropy(outputs, test[1])) <= math.log(2)
    right = float((outputs.argmax(1) == test[1]).double().mean())
    _add(readings, {"accuracy": Value(right), "lost": Value(lost)}, step=step, split="test", n=len(test[1]))
    points, values = grid(), dict[str, Value]()
    seen = streams(net, points)
    for name, places in {"": seen, "_branches": branches(seen)}.items():
        values[f"feature_reuse{name}"] = _of(lambda of: measure.feature_reuse(measure.distances(of)), places)
        values[f"non_monotonicity{name}"] = _of(lambda of: measure.non_monotonicity(measure.distances(of)), places)
    values["alike_share"] = _of(lambda of: Value(fmean(measure.alike_nodes(one).share for one in of)), seen)
    _add(readings, values, step=step)
    for index, one in enumerate(seen):
        kept = {
            "cka_to_input": _of(lambda of: measure.linear_cka(of[0], points), [one]),
            "input_reconstruction": _of(lambda of: measure.linear_reconstruction(of[0], points), [one]),
            "alike_groups": _of(lambda of: measure.alike_nodes(of[0]).groups, [one]),
        }
        _add(readings, kept, step=step, place=Place(index, len(seen), f"layers.{index - 1}" if index else "input"))


def maps_at(net: SpiralMLP, step: int) -> dict[str, Array]:
    """Node maps and weights of some layers and nodes, as small arrays by name.

    `maps/STEP` has bytes [layer, node, y, x], each map spread over 0-255; `weights/STEP` [layer, node, node] has the
    weights into these layers from the same nodes one layer before, `weights_in/STEP` those from the input.
    """
    seen = streams(net, grid(DRAWN))
    counts = (len(seen), COLUMNS), (seen[0].shape[1], ROWS)
    layers, nodes = (sorted({round(x) for x in np.linspace(0, n - 1, min(n, most))}) for n, most in counts)
    maps = torch.stack([seen[layer][:, nodes].T for layer in layers]).view(len(layers), len(nodes), DRAWN, DRAWN)
    low, high = maps.amin((2, 3), keepdim=True), maps.amax((2, 3), keepdim=True)
    shades = ((maps - low) / (high - low).clamp(min=1e-12)).nan_to_num().mul(SHADES - 1).round()
    inner = [net.get_parameter(f"layers.{layer - 1}.branch.0.weight")[nodes][:, nodes] for layer in layers if layer]
    return {
        f"maps/{step}": (shades * 255 / (SHADES - 1)).to(torch.uint8).numpy(),
        f"weights/{step}": torch.stack(inner).detach().half().numpy(),
        f"weights_in/{step}": net.input.weight[nodes].detach().half().numpy(),
        "maps_layers": np.array(layers, dtype=np.int16),
        "maps_nodes": np.array(nodes, dtype=np.int16),
    }


def _of(number: Callable[[list[Tensor]], Value], places: list[Tensor]) -> Value:
    """A number of some places, where their features are numbers themselves."""
    sound = all(bool(torch.isfinite(one).all()) for one in places)
    return number(places) if sound else missing("its features are no longer numbers")


def _add(readings: Readings, values: Mapping[str, Value], split: str = "grid", n: int = SIDE**2, **where: Any) -> None:
    for name, value in values.items():  # four digits: results/ keeps many such numbers
        readings.add(name, float(f"{value:.4g}"), data="spiral", split=split, n=n, note=value.note, **where)


@dataclass(frozen=True)
class Spirals(Study):
    """An ensemble on the spiral: how many networks, after which epochs they are read besides the last.

    Of ten per run, run 0 has networks 0 to 9, run 1 those from 10 on. With `drawn` the maps of the first are kept.
    """

    networks: int = 10
    looks: tuple[int, ...] = ()
    drawn: bool = True


def work(study: Spirals, bench: Bench) -> None:
    """Train all networks at once, and read each as it was at every look."""
    data, training, rule = load("spiral", limit=study.data.limit, download=False), study.training, study.network.rule
    numbers = range(bench.seed * study.networks, (bench.seed + 1) * study.networks)
    spec, nets = describe(study.network.name, 2, rule), dict[int, Any]()
    for number in numbers:
        seed_all(mix(number, "work"))
        nets[number] = build(spec)
    per_epoch = -(-len(data.train[1]) // training.batch)
    looks = StatesSeen(one.steps(per_epoch) for one in (*map(Epochs, study.looks), training.length))
    staged = nets if rule is not None and rule.staged else {}
    stages = [Alternation(net, 1, training.batch, mix(number, "alternation")) for number, net in staged.items()]
    fit_ensemble(
        list(nets.values()),
        data.train,
        training,
        seeds=[mix(number, "train") for number in numbers],
        alternations=stages or None,
        by=bench.train,
        followers={"looks": looks},
    )
    if not bench.writes:
        return
    first = bench.readings_of(numbers[0])
    for step, state in sorted(looks.states.items()):
        for (number, net), own in zip(nets.items(), state["weights"], strict=True):
            spread(own, net.eval())
            read_maps(net, step, bench.readings_of(number))
        first.arrays |= maps_at(nets[numbers[0]], step) if study.drawn else {}
    for number, net in nets.items():
        read_end(net, data.test, max(looks.states), bench.readings_of(number))
        bench.readings_of(number).declare(data="spiral", network=study.network.name)
        bench.keep(net, spec, f"net-{number}")
    seen = streams(nets[numbers[0]], grid())
    tables = {"distances": measure.distances(seen), "distances_branches": measure.distances(branches(seen))}
    points = {"points": data.train[0][:SHOWN].half(), "points_labels": data.train[1][:SHOWN].to(torch.uint8)}
    first.arrays |= {name: table.half().numpy() for name, table in tables.items()}
    first.arrays |= {name: one.numpy() for name, one in points.items()} if study.drawn else {}
