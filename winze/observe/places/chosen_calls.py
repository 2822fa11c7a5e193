"""Choose the calls of a network that are places: blocks, streams after their sums, layers, or named modules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from torch import fx, nn
from torch.nn.modules.conv import _ConvNd

from winze.hints import nearest
from winze.observe.places.calls import Event
from winze.observe.places.channel_axis import NORMS, is_activation
from winze.shape.find import Discovery, branch_modules
from winze.shape.sums.sum_search import Found

CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
BEFORE = "before "
"""The prefix of the name of a place that is the input of a module."""
PlaceNames = str | Sequence[str] | None


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


def chosen_calls(net: nn.Module, where: PlaceNames, found: Discovery | None, events: list[Event]) -> list[Chosen]:
    """The tensors of the places, in the order in which they are computed."""
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
