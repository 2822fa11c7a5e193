"""Where a scan reads: blocks, layers, or whatever is asked for, in the order in which they are computed."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd

from winze.depth import Place
from winze.modes import unchanged
from winze.observe.events import Event, events_of
from winze.observe.features import LAYOUTS, Layout, Pool, pooled
from winze.shape.capture.example import Example
from winze.shape.find import Discovery, discover

NORMS = (_NormBase, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm, nn.LocalResponseNorm)
CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
Where = str | Sequence[str] | None


@dataclass(frozen=True)
class Spot:
    """A place and how to read it: the `call`-th call of a module, which of its outputs, and how that lies.

    `shape` is what the output was like in the example run.
    """

    place: Place
    module: nn.Module
    call: int = 0
    output: int = 0
    layout: Layout | None = None
    shape: tuple[int, ...] = ()

    def features(self, output: Any, pool: Pool) -> Tensor:
        """One row of features a sample from what the module put out."""
        if not isinstance(output, Tensor):
            output = [t for t in torch.utils._pytree.tree_leaves(output) if isinstance(t, Tensor)][self.output]
        assert self.layout is not None
        return pooled(output, self.layout, pool, self.place.name)

    def width(self, pool: Pool) -> int:
        """How many features that would be for samples like the example's."""
        return self.features(torch.empty(self.shape, device="meta"), pool).shape[1]


def find_spots(net: nn.Module, example: Any = None, where: Where = None, layout: str | None = None) -> list[Spot]:
    """The places of a network.

    `None`: the outputs of the blocks that hold junctions, and `"layers"` where there are none. `"layers"`: every
    convolution and linear layer of the main stream after its norm and activation; the last of a block is the block's
    output, the insides of attention do not count. Else module names or globs.
    """
    for each in [where] if isinstance(where, str) else where or ():
        if not isinstance(each, str):
            raise TypeError(f"places are module names, globs or 'layers', such as 'layer3.*'; got {each!r}")
    asked = where is not None and where != "layers"
    found = None if asked and example is not None else discover(net, example)
    sample = Example(example) if found is None else found.example
    with unchanged(net, training=False):
        events = events_of(net, sample)
        chosen = _chosen(net, where, found, events)
        windowed = {e.module for e in chosen if any(shape[:1] != (sample.batch,) for _, shape in e.outputs)}
        larger = events_of(net, sample.with_batch(sample.batch + 1), windowed) if windowed else []
    shapes = {(e.module, e.call): e.outputs for e in larger}
    spots = []
    for index, event in enumerate(chosen):
        name = event.name if event.call == 0 else f"{event.name}:{event.call + 1}"
        if found is None and len(event.outputs) > 1:
            found = discover(net, example)
        output = 0 if found is None else _output_index(found, event)
        spot = Spot(Place(index, len(chosen), name), event.module, event.call, output)
        lies = _layout(spot, event, shapes.get((event.module, event.call)), sample.batch, events, layout)
        spots.append(replace(spot, layout=lies, shape=event.outputs[output][1]))
    return spots


def _chosen(net: nn.Module, where: Where, found: Discovery | None, events: list[Event]) -> list[Event]:
    if where is not None and where != "layers":
        chosen = _asked([where] if isinstance(where, str) else list(where), events)
    else:
        assert found is not None
        chosen = (_blocks(net, found, events) if where is None else []) or _layers(net, found, events)
    if not chosen:
        raise ValueError(f"{type(net).__name__} has no place to read: name modules with places=")
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


def _blocks(net: nn.Module, found: Discovery, events: list[Event]) -> list[Event]:
    holders = set(_holders(net, found))
    return [event for event in events if event.module in holders and event.outputs]


def _layers(net: nn.Module, found: Discovery, events: list[Event]) -> list[Event]:
    """Each weight layer of the main stream, moved on to the norm and activation that follow it."""
    names = {module: name for name, module in net.named_modules()}
    left_out = {names[m] for m in _side_modules(found)}
    holders = _holders(net, found)
    chosen: dict[int, Event] = {}
    last_in: dict[nn.Module, int] = {}
    for number, event in enumerate(events):
        if not _is_weight_layer(event.module) or _is_inside(event.name, left_out) or not event.outputs:
            continue
        end = _followed(number, event, events)
        chosen[end] = events[end]
        for holder in holders:
            if event.name.startswith(names[holder] + "."):
                last_in[holder] = end
    for number, event in enumerate(events):
        if event.module in last_in and event.call == 0:
            chosen.pop(last_in[event.module], None)
            chosen[number] = event
    return [chosen[number] for number in sorted(chosen)]


def _followed(number: int, event: Event, events: list[Event]) -> int:
    """The number of the event that ends the layer: its norm and its activation, where modules do them."""
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
        if not (is_norm or _is_activation(candidate.module)) or (is_norm and seen_activation):
            if any(True for _ in candidate.module.children()):
                continue  # a container that merely begins with this layer's output
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


def _asked(patterns: list[str], events: list[Event]) -> list[Event]:
    names = list(dict.fromkeys(event.name for event in events if event.name))
    for pattern in patterns:
        if not any(_matches(pattern, name) for name in names):
            near = difflib.get_close_matches(pattern, names, n=3, cutoff=0.0)
            raise ValueError(f"no module {pattern!r} is called in this network; the nearest names: {', '.join(near)}")
    return [e for e in events if e.outputs and any(_matches(pattern, e.name) for pattern in patterns)]


def _matches(pattern: str, name: str) -> bool:
    return fnmatchcase(name, pattern)


def _is_inside(name: str, others: set[str]) -> bool:
    return any(name == other or name.startswith(other + ".") for other in others)


def _is_weight_layer(module: nn.Module) -> bool:
    return isinstance(module, _ConvNd | nn.Linear) or type(module).__name__ == "Conv1D"


def _is_activation(module: nn.Module) -> bool:
    return type(module).__module__.startswith("torch.nn.modules.activation") or "act" in type(module).__module__


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


def _layout(spot: Spot, event: Event, larger: Any, batch: int, events: list[Event], given: str | None) -> Layout:
    """How a place lies; `larger` is what it puts out for one sample more, where its rows are not the samples."""
    shape = event.outputs[spot.output][1]
    scale = shape[0] // batch if shape else 0
    name = spot.place.name
    more = larger[spot.output][1][0] if larger and scale else batch + 1
    if not scale or (shape[0], more) != (scale * batch, scale * (batch + 1)):
        raise ValueError(f"place {name!r}: the first axis of {shape} does not hold samples; leave it out with places=")
    if given is not None:
        if LAYOUTS.get(given, 99) >= len(shape):
            raise ValueError(f"layout must be one of {', '.join(LAYOUTS)} and fit {shape} at {name!r}, got {given!r}")
        return Layout(LAYOUTS[given], scale)
    if len(shape) == 2:
        return Layout(1, scale)
    axis = _channel_axis(event, shape, events)
    if axis is None:
        raise ValueError(f"place {name!r}: which axis of {shape} holds channels? Say so with layout=, e.g. 'BCHW'")
    return Layout(axis, scale)


def _channel_axis(event: Event, shape: tuple[int, ...], events: list[Event]) -> int | None:
    """From the last layer before the place whose width fits: convolutions put channels first, linear layers last."""
    end = events.index(event)
    for earlier in reversed(events[: end + 1]):
        module = earlier.module
        kind = type(module).__name__
        if isinstance(module, _ConvNd) or (isinstance(module, _NormBase | nn.GroupNorm) or kind.endswith("Norm2d")):
            width = getattr(module, "out_channels", None) or _width_of_norm(module)
            if len(shape) > 2 and shape[1] == width:
                return 1
        elif isinstance(module, nn.Linear | nn.LayerNorm | nn.RMSNorm) or kind in ("Conv1D", "LlamaRMSNorm"):
            width = getattr(module, "out_features", None) or _width_of_norm(module) or getattr(module, "nf", None)
            if shape[-1] == width:
                return len(shape) - 1
    return _axis_by_company(shape, events[: end + 1])


def _axis_by_company(shape: tuple[int, ...], events: list[Event]) -> int | None:
    """Where no width fits, as after a concatenation: from the last layer whose positions are the same."""
    for earlier in reversed(events):
        other = earlier.outputs[0][1] if earlier.outputs else ()
        if len(other) != len(shape):
            continue
        if isinstance(earlier.module, _ConvNd) and other[2:] == shape[2:]:
            return 1
        if isinstance(earlier.module, nn.Linear) and other[:-1] == shape[:-1]:
            return len(shape) - 1
    return None


def _width_of_norm(module: nn.Module) -> int | None:
    weight = getattr(module, "weight", None)
    return len(weight) if isinstance(weight, Tensor) and weight.ndim == 1 else getattr(module, "num_features", None)
