"""Find the places of a scan: blocks, layers, or named modules, in the order in which they are computed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from winze.modes import rng_unchanged, unchanged
from winze.observe.places.calls import Event, events_of, tensors_of
from winze.observe.places.channel_axis import channel_axis
from winze.observe.places.chosen_calls import Chosen, PlaceNames, chosen_calls
from winze.observe.places.pooling import LAYOUTS, Layout, Pool, pooled
from winze.place import Place
from winze.shape.find import Discovery, discover
from winze.shape.sums.example import Example

TIME_FIRST = "the first axis is time, not samples: make it with batch_first=True"


@dataclass(frozen=True)
class Spot:
    """A place and how to read it: the `call`-th call of a module, which of its outputs, and its layout. With `before`
    it is one of its inputs: the stream, where no module returns it. `shape` is the tensor's shape in the example run.
    """

    place: Place
    module: nn.Module
    call: int = 0
    output: int = 0
    layout: Layout | None = None
    shape: tuple[int, ...] = ()
    before: bool = False

    def features(self, output: Any, pool: Pool) -> Tensor:
        """One row of features per sample, from the module's output or input."""
        if not isinstance(output, Tensor):
            output = tensors_of(output)[self.output]
        assert self.layout is not None
        return pooled(output, self.layout, pool, self.place.name)

    def width(self, pool: Pool) -> int:
        """The number of features, for samples like the example's."""
        return self.features(torch.empty(self.shape, device="meta"), pool).shape[1]


class Spots(list[Spot]):
    """The places of a network; `unread` names modules that may hold places but could not be read, and why."""

    def __init__(self, found: Iterable[Spot], unread: dict[str, str] | None = None) -> None:
        super().__init__(found)
        self.unread = unread or {}


def find_spots(net: nn.Module, example: Any = None, where: PlaceNames = None, layout: str | None = None) -> Spots:
    """The places of a network.

    `None`: the outputs of the blocks that hold junctions; the stream after each sum, where the network's own forward
    holds them; and `"layers"` where there are none. `"layers"`: every convolution and linear layer of the main stream
    after its norm and activation; the last of a block is the block's output, the insides of attention do not count.
    Else module names or globs; `before NAME` is the input of a module.
    """
    for each in [where] if isinstance(where, str) else where or ():
        if not isinstance(each, str):
            raise TypeError(f"places are module names, globs or 'layers', such as 'layer3.*'; got {each!r}")
    if layout is not None and layout not in LAYOUTS:
        raise ValueError(f"layout must be one of {', '.join(LAYOUTS)}, got {layout!r}")
    asked = where is not None and where != "layers"
    found = None if asked and example is not None else discover(net, example)
    sample = Example(example) if found is None else found.example
    with unchanged(net, training=False):
        events = events_of(net, sample)
        chosen = chosen_calls(net, where, found, events)
        windowed = {c.event.module for c in chosen if c.seen[1][:1] != (sample.batch,)}
        larger = events_of(net, sample.with_batch(sample.batch + 1), windowed) if windowed else []
        again = {(e.module, e.call): e for e in larger}
        spots = []
        for index, one in enumerate(chosen):
            if found is None and len(one.event.outputs) > 1 and not one.before:
                found = discover(net, example)
            if found is not None and not one.before:
                one = replace(one, output=_output_index(found, one.event))
            spot = Spot(Place(index, len(chosen), one.name), one.event.module, one.event.call, one.output)
            spot = replace(spot, shape=one.seen[1], before=one.before)
            other = again.get((one.event.module, one.event.call))
            scale = _rows_of_a_sample(spot, sample.batch, replace(one, event=other) if other else None)
            axis = 1 if len(spot.shape) == 2 else LAYOUTS[layout] if layout and len(layout) == len(spot.shape) else None
            axis = _axis(net, sample, spot, one, events) if axis is None else axis
            spots.append(replace(spot, layout=Layout(axis, scale)))
    if layout is not None and not any(len(spot.shape) == len(layout) for spot in spots):
        shape = spots[0].shape
        raise ValueError(
            f"layout must be one of {', '.join(LAYOUTS)} and fit {shape} at {chosen[0].name!r}, got {layout!r}"
        )
    return Spots(spots, {} if asked or found is None else dict(found.junctions.unread) | _time_first(events))


def _time_first(events: list[Event]) -> dict[str, str]:
    """Recurrent layers whose output begins with time instead of samples."""
    recurrent = [
        event.name for event in events if isinstance(event.module, nn.RNNBase) and not event.module.batch_first
    ]
    return dict.fromkeys(recurrent, TIME_FIRST)


def _output_index(found: Discovery, event: Event) -> int:
    """Which of several outputs carries the stream: the last that grows from the module's last residual sum."""
    graph = found.evaluating.graphs.get(event.module)
    sums = [site.sum.node for site in found.sites.values() if site.sum.node.graph is graph]
    if len(event.outputs) == 1 or graph is None or not sums:
        return 0
    output = next(node for node in graph.nodes if node.op == "output")
    leaves = [n for n in torch.utils._pytree.tree_leaves(output.args[0]) if getattr(n, "meta", {}).get("tensor")]
    last = sums[-1]
    for index in range(len(leaves) - 1, -1, -1):
        waiting, seen = [leaves[index]], set()
        while waiting:
            node = waiting.pop()
            if node is last:
                return index
            fresh = [i for i in node.all_input_nodes if i.meta.get("tensor") and i not in seen]
            seen.update(fresh)
            waiting.extend(fresh)
    return 0


def _rows_of_a_sample(spot: Spot, batch: int, larger: Chosen | None) -> int:
    """How many rows a sample has at a place; `larger` is what it holds for one sample more, where that was tried."""
    shape = spot.shape
    scale = shape[0] // batch if shape else 0
    more = larger.seen[1][0] if larger and scale else batch + 1
    if not scale or (shape[0], more) != (scale * batch, scale * (batch + 1)):
        raise ValueError(
            f"place {spot.place.name!r}: the first axis of {shape} does not hold samples; leave it out with places="
        )
    return scale


def _axis(net: nn.Module, sample: Example, spot: Spot, one: Chosen, events: list[Event]) -> int:
    """The channel axis; an error asks for `layout=` where it cannot be known."""
    identity, shape = one.seen
    count = one.event.begun if one.before else events.index(one.event) + 1
    made = next((e for e in reversed(events[:count]) if identity in {i for i, _ in e.outputs}), None)
    unmoved: list[Tensor | None] = []

    def changed(layer: Event, axis: int, channel: int) -> Tensor | None:
        if not unmoved:
            unmoved.append(_tensor_at(net, sample, spot))
        plain, other = unmoved[0], _tensor_at(net, sample, spot, (layer, axis, channel))
        if other is None or plain is None or other.shape != plain.shape:
            return None
        moved = (other - plain).abs().amax(0)
        return moved > 1e-6 * moved.max()

    axis = channel_axis(made if one.before else one.event, shape, events[:count], changed)
    if axis is None:
        raise ValueError(
            f"place {spot.place.name!r}: which axis of {shape} holds channels? Say so with layout=, e.g. 'BCHW', or "
            "leave the place out with places="
        )
    return axis


def _tensor_at(
    net: nn.Module, sample: Example, spot: Spot, raised: tuple[Event, int, int] | None = None
) -> Tensor | None:
    """The tensor of a place in the example run, optionally with one channel of a layer's output raised."""
    found: list[Tensor] = []
    calls: dict[nn.Module, int] = {}

    def take(module: nn.Module, args: Any, kwargs: Any, output: Any = None) -> None:
        tensors = tensors_of((args, kwargs) if spot.before else output)
        found.append(tensors[spot.output].detach().double())

    def lift(module: nn.Module, args: Any, output: Any) -> Any:
        assert raised is not None
        calls[module] = calls.get(module, -1) + 1
        layer, axis, channel = raised
        if calls[module] != layer.call or not isinstance(output, Tensor):
            return None
        higher = output.clone()
        higher.select(axis, channel).add_(10 * output.abs().max() + 1)
        return higher

    handles = [raised[0].module.register_forward_hook(lift)] if raised is not None else []
    if spot.before:
        handles.append(spot.module.register_forward_pre_hook(take, with_kwargs=True))
    else:
        handles.append(spot.module.register_forward_hook(take, with_kwargs=True))
    try:
        with torch.no_grad(), rng_unchanged():
            net(*sample.args, **sample.kwargs)
    finally:
        for handle in handles:
            handle.remove()
    return found[spot.call] if spot.call < len(found) else None
