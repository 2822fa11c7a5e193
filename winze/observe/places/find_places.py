"""Find the places of a scan: blocks, layers, or named modules, in the order in which they are computed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.conv import _ConvNd

from winze.hints import nearest
from winze.modes import rng_unchanged, unchanged
from winze.observe.places.calls import Event, events_of, tensors_of
from winze.observe.places.channel_axis import NORMS, channel_axis, is_activation
from winze.observe.places.pooling import LAYOUTS, Layout, Pool, pooled
from winze.place import Place
from winze.shape.find import Discovery, branch_modules, discover
from winze.shape.sums.example import Example
from winze.shape.sums.sum_search import Found

CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
BEFORE = "before "
"""The prefix of the name of a place that is the input of a module."""
TIME_FIRST = "the first axis is time, not samples: make it with batch_first=True"
PlaceNames = str | Sequence[str] | None


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


@dataclass(frozen=True)
class Chosen:
    """The tensor of a place: an output of a call, or with `before` one of its inputs."""

    event: Event
    output: int = 0
    before: bool = False

    @property
    def name(self) -> str:
        """The module's name, with the number of the call from the second on."""
        again = f":{self.event.call + 1}" if self.event.call else ""
        return f"{BEFORE if self.before else ''}{self.event.name}{again}"

    @property
    def seen(self) -> tuple[int, tuple[int, ...]]:
        """Identity and shape of the tensor in the example run."""
        return (self.event.given if self.before else self.event.outputs)[self.output]

    def when(self, events: list[Event]) -> float:
        """Its number among the calls, in the order in which they finish."""
        return self.event.begun - 0.5 if self.before else float(events.index(self.event))


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
        chosen = _chosen(net, where, found, events)
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


def _chosen(net: nn.Module, where: PlaceNames, found: Discovery | None, events: list[Event]) -> list[Chosen]:
    if where is not None and where != "layers":
        chosen = _asked([where] if isinstance(where, str) else list(where), events)
    else:
        assert found is not None
        chosen = (_blocks(net, found, events) if where is None else []) or _layers(net, found, events)
    if not chosen:
        raise ValueError(f"{type(net).__name__} has no place to scan: name modules with places=")
    return chosen


def _holders(net: nn.Module, found: Discovery) -> list[nn.Module]:
    """The blocks: modules whose forward holds a junction, other than the network itself."""
    parents = {child: module for module in net.modules() for child in module.children()}
    holders = [site.holder for site in found.sites.values()]
    for junction in found.evaluating.natives:
        parent = parents.get(junction)
        outer = parent is not None and parent is not net and not isinstance(parent, CONTAINERS)
        holders.append(parent if outer and parent is not None else junction)
    return [holder for holder in dict.fromkeys(holders) if holder is not net]


def _blocks(net: nn.Module, found: Discovery, events: list[Event]) -> list[Chosen]:
    """The outputs of blocks, or the stream after each sum where one forward holds them all."""
    holders = set(_holders(net, found))
    of_blocks = [Chosen(event) for event in events if event.module in holders and event.outputs]
    return of_blocks if len(of_blocks) > 1 else _streams(net, found, events) or of_blocks


def _streams(net: nn.Module, found: Discovery, events: list[Event]) -> list[Chosen]:
    """The stream after each residual sum of a forward that holds several, or of the network's own.

    It is read as the next module's input, or as the forward's output.
    """
    read: dict[tuple[nn.Module, int, bool], tuple[float, Chosen]] = {}
    holders = {site.holder for site in found.sites.values()}
    for site in found.sites.values():
        if len(holders) == 1 and (site.holder is net or len(found.sites) > 1):
            reader = _reader_of(site, events)
            if reader is not None:
                read[reader.event.module, reader.event.call, reader.before] = reader.when(events), reader
    return [reader for _, reader in sorted(read.values(), key=lambda each: each[0])]


def _reader_of(site: Found, events: list[Event]) -> Chosen | None:
    """The call that takes a residual sum, or the result of operations on it alone; else the end of the forward."""
    graph, node = site.sum.node.graph, site.sum.node
    others = {s for s in graph.nodes if s.op == "call_module"}
    while True:
        users = sorted(node.users, key=list(graph.nodes).index)
        call = next((user for user in users if user in others), None)
        if call is not None:
            return _call(call, node, events)
        onward = [user for user in users if user.op in ("call_function", "call_method")]
        if any(user.op == "output" for user in users):
            ends = [event for event in events if event.module is site.holder and event.outputs]
            return Chosen(ends[0]) if len(ends) == 1 else None
        if not onward:
            return None
        node = onward[0]


def _call(call: fx.Node, node: fx.Node, events: list[Event]) -> Chosen | None:
    """The event of a node that calls a child, and which of its inputs is the other node."""
    module = call.meta["module"]
    same = [n for n in call.graph.nodes if n.op == "call_module" and n.meta["module"] is module]
    happened = [event for event in events if event.module is module]
    if len(same) != len(happened):  # it is also called from elsewhere
        return None
    event = happened[same.index(call)]
    index = call.meta["given"].index(node) if node in call.meta["given"] else 0
    return Chosen(event, index, before=True) if index < len(event.given) else None


def _layers(net: nn.Module, found: Discovery, events: list[Event]) -> list[Chosen]:
    """Each weight layer of the main stream, with the norm and activation that follow it."""
    names = {module: name for name, module in net.named_modules()}
    left_out = {names[m] for m in _side_modules(found)}
    holders = _holders(net, found)
    chosen: dict[float, Chosen] = {}
    last_in: dict[nn.Module, int] = {}
    for number, event in enumerate(events):
        if not _is_weight_layer(event.module) or _is_inside(event.name, left_out) or not event.outputs:
            continue
        end = _followed(number, event, events)
        chosen[end] = Chosen(events[end])
        for holder in holders:
            if event.name.startswith(names[holder] + "."):
                last_in[holder] = end
    for number, event in enumerate(events):
        if event.module in last_in and event.call == 0:
            chosen.pop(last_in[event.module], None)
            chosen[number] = Chosen(event)
    for site in found.sites.values():
        _move_to_stream(site, net, events, chosen)
    return [chosen[number] for number in sorted(chosen)]


def _time_first(events: list[Event]) -> dict[str, str]:
    """Recurrent layers whose output begins with time instead of samples."""
    recurrent = [
        event.name for event in events if isinstance(event.module, nn.RNNBase) and not event.module.batch_first
    ]
    return dict.fromkeys(recurrent, TIME_FIRST)


def _move_to_stream(site: Found, net: nn.Module, events: list[Event], chosen: dict[float, Chosen]) -> None:
    """Read the stream after a sum of the network's own forward instead of the last layer of its branch."""
    reader = _reader_of(site, events) if site.holder is net else None
    if reader is None:
        return
    paths = {module: name for name, module in net.named_modules()}
    names = {paths[module] for module in branch_modules(site)}
    inside = [n for n, one in chosen.items() if not one.before and _is_inside(one.event.name, names)]
    earlier = [number for number in inside if number < reader.when(events)]
    if earlier:
        del chosen[max(earlier)]
        chosen[reader.when(events)] = reader


def _followed(number: int, event: Event, events: list[Event]) -> int:
    """The index of the event that ends the layer: its norm or activation, where these are modules."""
    end, current = number, event
    seen_activation = False
    for later in range(number + 1, len(events)):
        candidate = events[later]
        if current.outputs[0][0] not in candidate.inputs[:1]:
            continue
        is_norm = isinstance(candidate.module, NORMS)
        if isinstance(candidate.module, nn.Identity | nn.Dropout):
            current = candidate
            continue
        if not (is_norm or is_activation(candidate.module)) or (is_norm and seen_activation):
            if any(True for _ in candidate.module.children()):
                continue  # a container that only starts with this layer's output
            break
        seen_activation = not is_norm
        end, current = later, candidate
    return end


def _side_modules(found: Discovery) -> list[nn.Module]:
    """Modules off the main stream: projections on shortcuts, attention, gates."""
    side = []
    for site in found.sites.values():
        node = site.sum.shortcut
        while node is not site.sum.stream:
            if node.op == "call_module":
                side.append(node.meta["module"])
            inputs = [i for i in node.all_input_nodes if i.meta.get("tensor") and i.op != "get_attr"]
            if not inputs:
                break
            node = inputs[0]
    side.extend(j.shortcut for j in found.evaluating.natives if j.shortcut is not None)
    for module in found.net.modules():
        kind = type(module).__name__.lower()
        if any(word in kind for word in ("attention", "attn", "squeezeexcit", "semodule", "sqexc", "classattn")):
            side.append(module)
    return side


def _asked(patterns: list[str], events: list[Event]) -> list[Chosen]:
    names = list(dict.fromkeys(event.name for event in events if event.name))
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern.removeprefix(BEFORE)) for name in names):
            near = nearest(pattern, names)
            raise ValueError(f"no module {pattern!r} is called in this network; the nearest names: {', '.join(near)}")
    entering = [pattern.removeprefix(BEFORE) for pattern in patterns if pattern.startswith(BEFORE)]
    leaving = [pattern for pattern in patterns if not pattern.startswith(BEFORE)]
    chosen = []
    for event in events:
        if event.outputs and any(fnmatchcase(event.name, pattern) for pattern in leaving):
            chosen.append(Chosen(event))
        if event.given and any(fnmatchcase(event.name, pattern) for pattern in entering):
            chosen.append(Chosen(event, before=True))
    return sorted(chosen, key=lambda one: one.when(events))


def _is_inside(name: str, others: set[str]) -> bool:
    return any(name == other or name.startswith(other + ".") for other in others)


def _is_weight_layer(module: nn.Module) -> bool:
    if isinstance(module, nn.RNNBase):
        return module.batch_first
    return isinstance(module, _ConvNd | nn.Linear) or type(module).__name__ == "Conv1D"


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
