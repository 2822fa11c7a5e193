"""Find the junctions of any network: native ones, and residual sums in the forwards of other libraries."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import fx, nn
from torch.nn.parameter import is_lazy

from winze.memory import is_out_of_memory
from winze.place import Place
from winze.shape.junction import Junction, describe
from winze.shape.live.foreign_junction import ForeignJunction
from winze.shape.live.live import live_of
from winze.shape.sums.bare_run import is_own
from winze.shape.sums.example import Example, accepted, small
from winze.shape.sums.forward_graph import upstream
from winze.shape.sums.hook_sums import adding_hook
from winze.shape.sums.runs import agree
from winze.shape.sums.sum_search import Found, Identity, Search, entangled, search


class Junctions(list[Junction]):
    """Junctions in depth order; printed, a table. `unread`: residual sums that cannot take a rule, with reasons."""

    def __init__(self, found: Iterable[Junction], unread: dict[str, str] | None = None) -> None:
        super().__init__(found)
        self.unread = unread or {}

    def __repr__(self) -> str:
        lines = [f"unread: {name or 'the network itself'}: {why}" for name, why in self.unread.items()]
        if not self:
            return "\n".join(["no junctions", *lines])
        header = ("index", "name", "shortcut", "rule", "branch holds")
        rows = [(str(j.place.index), j.place.name, j.kind, str(j.rule), j.holds) for j in self]
        widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header) - 1)]
        padded = [[c.ljust(w) for c, w in zip(row, [*widths, 0], strict=True)] for row in [header, *rows]]
        return "\n".join(["  ".join(cells) for cells in padded] + lines)


@dataclass
class Discovery:
    """All junctions of a network in execution order, found by one run in each mode.

    `sites` has the sum of each junction, in eval mode where it runs there; `also` the sum that is at another line in
    train mode; `trained` those that ran in train mode.
    """

    net: nn.Module
    example: Example
    junctions: Junctions
    sites: dict[Junction, Found]
    also: dict[Junction, Found]
    trained: dict[Junction, Found]
    evaluating: Search
    training: Search | None
    shapes: dict[Junction, tuple[int, ...]]

    @property
    def written_to(self) -> dict[Identity, tuple[bool, bool]]:
        """Whether, in any run of a sum, something else refers to what it writes into, and its result is changed."""
        found: dict[Identity, tuple[bool, bool]] = {}
        for one in (*self.evaluating.sums, *(self.training.sums if self.training else [])):
            if not one.reason:
                form, (shared, overwritten) = one.form, found.get(one.identity, (False, False))
                found[one.identity] = shared or form.shared, overwritten or form.overwritten
        return found


def junctions(net: nn.Module, example: Any = None) -> Junctions:
    """The junctions of a network in depth order; an empty list where there is none.

    `example` is a batch the network takes (a tensor, a tuple of arguments, a dict of keyword arguments); by default it
    is derived from the network's configuration or first layer. The network is run on it and not changed.
    """
    natives = [m for m in net.modules() if isinstance(m, Junction)]
    try:
        return discover(net, example).junctions
    except ValueError:
        if example is not None or not natives:
            raise
        names = {m: name for name, m in net.named_modules()}
        return _numbered([(j, names[j]) for j in natives], {})


def wired(net: nn.Module) -> list[Junction]:
    """The junctions that have a rule of winze, in the order of their places; nothing is run."""
    found = [m for m in net.modules() if isinstance(m, Junction)]
    for module in net.modules():
        live = live_of(module)
        if live is not None:
            found.extend(live.all_junctions)
    return sorted(found, key=lambda j: j.place.index)


def discover(net: nn.Module, given: Any = None) -> Discovery:
    """Run the network in both modes, each with its own batch size, and put its junctions in execution order."""
    example, evaluating, training = _searched(net, given)
    larger = example.with_batch(example.batch + 1)
    apart = entangled(evaluating, *([training] if training else []))
    if apart:
        evaluating = search(net, example, False, apart)
        training = search(net, larger, True, apart) if training else None
    searches = [evaluating, *([training] if training else [])]
    agree(*searches)
    for each in searches:
        _check_shared([one for one in each.sums if not one.reason])
    names = {module: name for name, module in net.named_modules()}
    wired_ones = {i: j for m in net.modules() if (live := live_of(m)) for i, j in live.identities().items()}
    entries: list[tuple[float, Junction, str]] = []
    sites: dict[Junction, Found] = {}
    shapes: dict[Junction, tuple[int, ...]] = {}
    for junction, (began, shape) in evaluating.natives.items():
        entries.append((began, junction, names[junction]))
        shapes[junction] = shape
    unread: dict[str, str] = {}
    twins = _twins(evaluating, training)
    also: dict[Junction, Found] = {}
    merged = [(tick, one) for tick, one in _merged(evaluating, training) if one not in twins.values()]
    in_holder: dict[nn.Module, int] = {}
    for _, one in merged:
        in_holder[one.holder] = in_holder.get(one.holder, 0) + 1
    seen: dict[nn.Module, int] = {}
    for tick, one in merged:
        number = seen[one.holder] = seen.get(one.holder, -1) + 1
        name = _name(one, names.get(one.holder, ""), number, in_holder[one.holder])
        if one.reason:
            unread[name] = f"{_where(one)}: {one.reason}"
            continue
        other = twins.get(one)
        known = wired_ones.get(one.identity) or (wired_ones.get(other.identity) if other else None)
        junction = known or _foreign(one, number)
        sites[junction] = one
        if other is not None:
            also[junction] = other
        shapes[junction] = one.sum.node.meta["shape"]
        entries.append((tick, junction, name))
    for one in (*evaluating.hidden, *(training.hidden if training else ())):
        unread.setdefault(names.get(one.holder, ""), f"{_where(one)}: it is part of a {one.operation.name}")
    for module in evaluating.scripted:
        unread.setdefault(names[module], f"{type(module).__name__}: sums inside TorchScript cannot be read")
    for module in evaluating.elsewhere:
        unread.setdefault(names[module], f"{type(module).__name__}: it runs in a thread in which sums cannot be read")
    for module, name in names.items():
        at = adding_hook(module, is_own)
        if at:
            unread.setdefault(
                name, f"{type(module).__name__}: a hook adds to its input ({at}): make the sum in forward"
            )
    by_identity = {site.identity: junction for junction, site in (*sites.items(), *also.items())}
    trained = {by_identity[one.identity]: one for one in reversed(training.sums if training else []) if not one.reason}
    entries.sort(key=lambda entry: entry[0])
    found_all = _numbered([(j, name) for _, j, name in entries], unread)
    return Discovery(net, example, found_all, sites, also, trained, evaluating, training, shapes)


def _searched(net: nn.Module, given: Any) -> tuple[Example, Search, Search | None]:
    """The example that the network accepts, and its sums in both modes; None for train mode where that fails.

    Without `example`, a small one is tried first and used only where the network runs on it in both modes.
    """
    if any(map(is_lazy, itertools.chain(net.parameters(), net.buffers()))):
        raise ValueError(
            f"{type(net).__name__} has lazy layers, which get their weights at the first call: run it once on a batch"
        )
    tiny = small(net) if given is None else None
    if tiny is not None:
        try:
            return tiny, search(net, tiny, training=False), search(net, tiny.with_batch(tiny.batch + 1), training=True)
        except Exception as error:
            if is_out_of_memory(error):
                raise
    example, evaluating = accepted(net, given, lambda example: (example, search(net, example, training=False)))
    try:
        return example, evaluating, search(net, example.with_batch(example.batch + 1), training=True)
    except Exception:
        return example, evaluating, None


def _merged(evaluating: Search, training: Search | None) -> list[tuple[float, Found]]:
    """The sums of both modes, each once; a sum of train mode alone follows the one that precedes it there."""
    ticks: dict[Identity, float] = {}
    merged: list[tuple[float, Found]] = []
    for one in evaluating.sums:
        if one.reason or one.identity not in ticks:
            merged.append((one.operation.tick, one))
        if not one.reason:
            ticks.setdefault(one.identity, one.operation.tick)
    known = {_where(one) for _, one in merged if one.reason}
    last = -1.0
    for one in training.sums if training else ():
        if one.reason:
            if _where(one) not in known:
                known.add(_where(one))
                merged.append((last, one))
        elif one.identity in ticks:
            last = ticks[one.identity]
        else:
            last += 1e-3
            ticks[one.identity] = last
            merged.append((last, one))
    return sorted(merged, key=lambda entry: entry[0])


def _twins(evaluating: Search, training: Search | None) -> dict[Found, Found]:
    """Sums of eval mode with their equivalents in train mode: `x + drop(f(x)) if training else x + f(x)`."""
    sums = {
        mode: [one for one in found.sums if not one.reason]
        for mode, found in enumerate((evaluating, training))
        if found
    }
    known = {mode: {one.identity for one in found} for mode, found in sums.items()}
    pairs: dict[Found, Found] = {}
    for holder in {one.holder for one in sums[0]} if training else ():
        alone = [
            {o.identity: o for o in reversed(sums[mode]) if o.holder is holder and o.identity not in known[1 - mode]}
            for mode in (0, 1)
        ]
        here, there = (sorted(found.values(), key=lambda one: one.operation.tick) for found in alone)
        if len(here) == len(there) and all(
            set(branch_modules(a)) & set(branch_modules(b)) for a, b in zip(here, there, strict=True)
        ):
            pairs.update(zip(here, there, strict=True))
    return pairs


def _check_shared(sums: list[Found]) -> None:
    """Mark the sums that modules with branches of their own make at one place, where one rule would stand for all."""
    first: dict[Identity, Found] = {}
    shared = set()
    for one in sums:
        other = first.setdefault(one.identity, one)
        if other.holder is not one.holder and not set(branch_modules(one)) & set(branch_modules(other)):
            shared.add(one.identity)
    for one in [one for one in sums if one.identity in shared]:
        one.reason = "several modules make their sums there, which nothing around it tells apart"


def _where(one: Found) -> str:
    return f"{type(one.holder).__name__} at {one.operation.site or 'a place without source'}"


def _foreign(one: Found, number: int) -> ForeignJunction:
    junction = ForeignJunction(one.holder, one.sum.kind, describe(branch_modules(one)))
    junction.gate_name = "highway" if number == 0 else f"highway_{number}"
    modules = [m for module in branch_modules(one) for m in module.modules()]
    loose = [n.meta["value"].path for n in _branch(one) if n.op == "get_attr" and n.meta.get("parameter")]
    junction.slots = [
        *((m, name) for m in dict.fromkeys(modules) for name, p in m._parameters.items() if p is not None),
        *(_slot(one.root, path) for path in loose),
    ]
    return junction


def _slot(net: nn.Module, path: str) -> tuple[nn.Module, str]:
    owner, _, name = path.rpartition(".")
    return net.get_submodule(owner), name


def _branch(one: Found) -> list[fx.Node]:
    inside = set().union(*(upstream(term) for term in one.sum.branch)) - upstream(one.sum.stream)
    return [node for node in one.sum.node.graph.nodes if node in inside]


def branch_modules(one: Found) -> list[nn.Module]:
    """The children that the branch calls."""
    return [node.meta["module"] for node in _branch(one) if node.op == "call_module"]


def _name(one: Found, holder: str, number: int, count: int) -> str:
    """The holder's name; where it holds several sums or is the network itself, with the branch's largest child."""
    if count == 1 and holder:
        return holder
    children = [n for n in _branch(one) if n.op == "call_module" and n.target != "stranger"]
    if not children:
        return f"{holder}.{number}" if holder else str(number)
    largest = max(children, key=lambda n: sum(p.numel() for p in n.meta["module"].parameters()))
    return f"{holder}.{largest.target}" if holder else str(largest.target)


def _numbered(entries: list[tuple[Junction, str]], unread: dict[str, str]) -> Junctions:
    seen: dict[str, int] = {}
    for index, (junction, name) in enumerate(entries):
        seen[name] = seen.get(name, 0) + 1
        unique = name if seen[name] == 1 else f"{name}:{seen[name]}"
        place = Place(index, len(entries), unique)
        if junction.seat == junction.place:
            junction.seat = place
        junction.place = place
    return Junctions([junction for junction, _ in entries], unread)
