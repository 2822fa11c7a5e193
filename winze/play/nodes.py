"""What every node of a network shows over the plane of its inputs, and what each layer adds to the stream."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from winze.networks import SpiralMLP

SIDE, LARGE = 18, 56  # points along a side of a node's map, and of a large map
DECISION, FINE = 36, 90  # of the decision map while it trains, and paused
COLUMNS, ROWS = 24, 16  # the most layers and nodes of a view

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class View:
    """How many layers and nodes the page has room for."""

    columns: int = 12
    rows: int = 8

    def layers(self, net: SpiralMLP) -> list[int]:
        """The streams that are shown, h_0 and the last among them, at equal distances."""
        return spread(len(net.layers) + 1, self.columns)

    def nodes(self, net: SpiralMLP) -> list[int]:
        """The nodes that are shown."""
        return spread(net.input.out_features, self.rows)


@dataclass(frozen=True)
class Focus:
    """The node under the pointer."""

    net: int
    layer: int
    node: int


def spread(count: int, most: int) -> list[int]:
    """At most `most` of `count` numbers from 0, at equal distances, the first and the last among them."""
    return sorted({round(float(x)) for x in np.linspace(0, count - 1, min(count, max(most, 1)))})


@lru_cache(maxsize=8)
def grid(side: int) -> Float[Tensor, "point 2"]:
    """Points at equal distances on [-1, 1]², row by row from above, as an image has them."""
    ends = torch.linspace(-1, 1, side)
    across, up = torch.meshgrid(ends, ends.flip(0), indexing="xy")
    return torch.stack([across, up], -1).flatten(0, 1)


@torch.no_grad()
def streams(net: SpiralMLP, points: Float[Tensor, "point 2"]) -> list[Tensor]:
    """The stream before the first layer, h_0, and after each layer, as the trained network computes it."""
    before = net.training
    net.eval()
    found = [net.input(points)]
    for layer in net.layers:
        found.append(layer(found[-1]))
    net.train(before)
    return found


def node_maps(net: SpiralMLP, view: View) -> dict[str, Array]:
    """Maps of the shown nodes as bytes around 128, their largest sizes, and the weights into them.

    `maps` [layer, node, y, x] has 128 + 127 v / max|v|, `sizes` [layer, node] the max|v|; `weights` [layer, node, node]
    those into each shown layer from the same nodes one layer before, its first entry unused; `weights_in` [node, input]
    and `weights_out` [class, node].
    """
    layers, nodes = view.layers(net), view.nodes(net)
    seen = streams(net, grid(SIDE))
    maps = torch.stack([seen[layer][:, nodes].T for layer in layers])
    sizes = maps.abs().amax(2)
    weights = torch.zeros(len(layers), len(nodes), len(nodes))
    for row, layer in enumerate(layers):
        if layer:
            weights[row] = _weight(net, layer)[nodes][:, nodes]
    return {
        "maps": _bytes(maps, sizes[..., None]).reshape(len(layers), len(nodes), SIDE, SIDE),
        "sizes": sizes.numpy(),
        "weights": weights.numpy(),
        "weights_in": net.input.weight.detach()[nodes].numpy(),
        "weights_out": net.output.weight.detach()[:, nodes].numpy(),
    }


@torch.no_grad()
def decisions(net: SpiralMLP, objective: str, side: int = DECISION) -> UInt8[np.ndarray, "class y x"]:
    """The share of each class over the plane, as bytes: softmax, or the clamped outputs where these are regressed."""
    outputs = net.output(streams(net, grid(side))[-1])
    if objective == "mse":
        kept = outputs.clamp(0, 1)
        shares = kept / kept.sum(1, keepdim=True).clamp(min=1e-6)
    else:
        shares = outputs.softmax(1)
    scaled = (shares.nan_to_num().T * 255).round().to(torch.uint8)
    return scaled.reshape(-1, side, side).numpy()


def focused(net: SpiralMLP, focus: Focus) -> dict[str, Array]:
    """The large map of one node, its incoming weights with the bias last, and what its values are."""
    layer, node = min(focus.layer, len(net.layers)), min(focus.node, net.input.out_features - 1)
    values = streams(net, grid(LARGE))[layer][:, node]
    into = "input" if layer == 0 else f"layers.{layer - 1}.branch.0"
    weight, bias = (net.get_parameter(f"{into}.{part}").detach() for part in ("weight", "bias"))
    weights = torch.cat([weight[node], bias[node : node + 1]])
    facts = torch.stack([values.mean(), values.std(), values.min(), values.max(), (values > 0).float().mean()])
    return {
        "focus_map": _bytes(values, values.abs().max()).reshape(LARGE, LARGE),
        "focus_weights": weights.numpy().astype(np.float32),
        "focus_facts": facts.numpy().astype(np.float32),
    }


def _weight(net: SpiralMLP, layer: int) -> Tensor:
    return net.get_parameter(f"layers.{layer - 1}.branch.0.weight").detach()


def _bytes(values: Tensor, sizes: Tensor) -> Array:
    scaled = (values / sizes.clamp(min=1e-12)).nan_to_num(0.0).clamp(-1, 1)
    return (scaled * 127 + 128).round().to(torch.uint8).numpy()
