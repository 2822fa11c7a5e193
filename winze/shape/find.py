"""Find the junctions of any network: the native ones, and the residual sums in forwards that somebody else wrote."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import fx, nn

from winze.depth import Place
from winze.shape.capture.program import Capture, CapturedJunction
from winze.shape.capture.example import Example, accepted
from winze.shape.junction import Junction, describe
from winze.shape.capture.residual import Sum, upstream
from winze.shape.capture.survey import Record, Survey, survey


class Junctions(list[Junction]):
    """Junctions in depth order; printed, a table. `unread` names modules whose forward could not be read, and why."""

    def __init__(self, found: Iterable[Junction], unread: dict[str, str] | None = None) -> None:
        super().__init__(found)
        self.unread = unread or {}

    def __repr__(self) -> str:
        if not self:
            return "no junctions"
        header = ("index", "name", "shortcut", "rule", "branch holds")
        rows = [(str(j.place.index), j.place.name, j.kind, str(j.rule), j.holds) for j in self]
        widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header) - 1)]
        padded = [[c.ljust(w) for c, w in zip(row, [*widths, 0], strict=True)] for row in [header, *rows]]
        return "\n".join("  ".join(cells) for cells in padded)


@dataclass(frozen=True)
class Site:
    """A residual sum of a foreign module, before anything is rewritten: the `i`-th of its holder."""

    holder: nn.Module
    i: int
    sum: Sum
    tick: int


@dataclass
class Discovery:
    """All junctions of a network in execution order, and what their forwards looked like in both modes."""

    net: nn.Module
    example: Example
    junctions: Junctions
    sites: dict[Junction, Site]
    evaluating: Survey
    training: Survey | None
    shapes: dict[Junction, tuple[int, ...]]


def junctions(net: nn.Module, example: Any = None) -> Junctions:
    """The junctions of a network in depth order; an empty list where there is none.

    `example` is a batch the network takes (a tensor, a tuple of arguments, a dict of keyword arguments); left out, it
    is worked out from the network's configuration or first layer. The network is run on it, and left as it was.
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
    """The junctions that carry a rule of ours, in the order of their places, without running anything."""
    found = [m for m in net.modules() if isinstance(m, Junction)]
    for module in net.modules():
        capture = capture_of(module)
        if capture is not None:
            found.extend(capture.junctions)
    return sorted(found, key=lambda j: j.place.index)


def capture_of(module: nn.Module) -> Capture | None:
    """The capture that stands in for this module's forward, if one does."""
    owner = getattr(vars(module).get("forward"), "__self__", None)
    return owner if isinstance(owner, Capture) else None


def discover(net: nn.Module, given: Any = None) -> Discovery:
    """Run the network in both modes, each with its own batch size, and put its junctions in execution order."""
    example, evaluating = accepted(net, given, lambda example: (example, survey(net, example, training=False)))
    try:
        training = survey(net, example.with_batch(example.batch + 1), training=True)
    except Exception:
        training = None
    names = {module: name for name, module in net.named_modules()}
    entries: list[tuple[int, Junction, str]] = []
    sites: dict[Junction, Site] = {}
    shapes: dict[Junction, tuple[int, ...]] = {}
    for junction, (tick, shape) in evaluating.natives.items():
        entries.append((tick, junction, names[junction]))
        shapes[junction] = shape
    for holder, record in evaluating.records.items():
        carried = capture_of(holder)
        for i, found in enumerate(record.sums):
            site = Site(holder, i, found, found.node.meta["tick"])
            junction = carried.junctions[i] if carried else _captured(site)
            sites[junction] = site
            shapes[junction] = found.node.meta["shape"]
            entries.append((site.tick, junction, _name(site, record, names[holder])))
    entries.sort(key=lambda entry: entry[0])
    unread = {names[m]: f"{type(m).__name__} at {r.reason}" for m, r in evaluating.records.items() if r.reason}
    found_all = _numbered([(j, name) for _, j, name in entries], unread)
    return Discovery(net, example, found_all, sites, evaluating, training, shapes)


def _captured(site: Site) -> CapturedJunction:
    branch = [site.holder.get_submodule(str(n.target)) for n in branch_modules(site)]
    return CapturedJunction(site.holder, site.i, Place(0, 1, ""), site.sum.kind, describe(branch))


def branch_modules(site: Site) -> list[fx.Node]:
    """The nodes of the branch that call a child."""
    inside = set().union(*(upstream(term) for term in site.sum.branch)) - upstream(site.sum.stream)
    return [node for node in site.sum.node.graph.nodes if node in inside and node.op == "call_module"]


def _name(site: Site, record: Record, holder: str) -> str:
    """The holder's name; where it holds several sums or is the network itself, with the branch's largest child."""
    if len(record.sums) == 1 and holder:
        return holder
    children = [str(n.target) for n in branch_modules(site)]
    if not children:
        return f"{holder}.{site.i}" if holder else str(site.i)
    largest = max(children, key=lambda c: sum(p.numel() for p in site.holder.get_submodule(c).parameters()))
    return f"{holder}.{largest}" if holder else largest


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
