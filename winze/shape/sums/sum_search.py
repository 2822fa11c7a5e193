"""Run a network once, live, and list the residual sums in it: each with its place in the source, or why it has none."""

from __future__ import annotations

import ast
import itertools
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import torch
from torch import fx, nn

from winze.shape.junction import Junction
from winze.shape.live.anchors import Anchor, anchors
from winze.shape.live.definition import Position, SourceError, expression_at
from winze.shape.live.foreign_junction import Form
from winze.shape.live.function_source import SumSpot, check
from winze.shape.live.live import CALLS
from winze.shape.sums.bare_run import plain, recorded_run, without_hooks
from winze.shape.sums.call_graph import graph_of
from winze.shape.sums.dataflow import Call, Operation
from winze.shape.sums.example import Example
from winze.shape.sums.forward_graph import is_picked, operands
from winze.shape.sums.residual import ResidualSums, Sum
from winze.shape.sums.runs import names_around, tell_apart

Places = frozenset[tuple[CodeType, Position]]
Identity = tuple[nn.Module, tuple[Position, ...], Any]


@dataclass(eq=False)
class Found:
    """One run of one residual sum: where it stands, and how its operands are its terms."""

    sum: Sum
    call: Call
    operation: Operation
    anchored: Anchor | None = None
    key: tuple[Any, ...] | None = None
    names: tuple[tuple[int, str], ...] = ()
    others: tuple[tuple[Any, ...], ...] = ()
    inner: tuple[Position, ...] = ()
    order: tuple[tuple[bool, int], ...] = ((False, 0), (False, 1))
    reason: str = ""

    @property
    def holder(self) -> nn.Module:
        """The module whose forward makes the sum."""
        return self.call.module

    @property
    def position(self) -> Position:
        """Where in its source."""
        assert self.operation.site is not None
        return self.operation.site.position

    @property
    def spot(self) -> SumSpot:
        """The sum as something to be handed to a rule."""
        assert self.anchored is not None
        return SumSpot(self.position, 0, self.names, self.inner, self.anchored.hops)

    @property
    def identity(self) -> Identity:
        """What is the same whenever this sum runs."""
        assert self.anchored is not None
        return self.anchored.owner, self.spot.path, self.key

    @property
    def way(self) -> tuple[Any, ...]:
        """The calls by which the network came there."""
        return (
            tuple((frame.code, frame.position) for frame in self.operation.site.frames) if self.operation.site else ()
        )

    @property
    def form(self) -> Form:
        """How it is written."""
        shared = self.operation.site is not None and self.operation.site.shared
        return Form(self.order, self.sum.terms.index(self.sum.shortcut), shared, self.overwritten)

    @property
    def root(self) -> nn.Module:
        """The network that ran."""
        return _root(self.call).module

    @property
    def overwritten(self) -> bool:
        """Whether the result is changed in place afterwards."""
        return self.operation.outputs[0] in _root(self.call).overwritten


@dataclass
class Search:
    """What one run showed: residual sums in order, native junctions with tick and shape, and graphs of the holders.

    `seen` are the places of all sums that ran, residual or not; `elsewhere` modules that ran in threads of others;
    `joining` the calls inside which there are residual sums.
    """

    sums: list[Found] = field(default_factory=list)
    natives: dict[Junction, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    graphs: dict[nn.Module, fx.Graph] = field(default_factory=dict)
    hidden: list[Found] = field(default_factory=list)
    scripted: list[nn.Module] = field(default_factory=list)
    seen: set[tuple[CodeType, Position]] = field(default_factory=set)
    elsewhere: list[nn.Module] = field(default_factory=list)
    joining: set[Call] = field(default_factory=set)


def search(net: nn.Module, example: Example, training: bool, apart: Places = frozenset()) -> Search:
    """Run the network in the given mode and look for its residual sums; afterwards it is as before.

    Sums at the places `apart` are not taken as part of a larger one.
    """
    with plain(net):
        return _search(net, example, training, apart)


def entangled(*searches: Search) -> Places:
    """Where a sum is residual by itself in some runs, and part of a larger sum in others."""
    own: set[Any] = set()
    inner: set[Any] = set()
    for one in (one for found in searches for one in found.sums if not one.reason):
        assert one.anchored is not None
        code = one.anchored.codes[-1]
        own.add((code, one.position))
        inner.update((code, position) for position in one.inner)
    return frozenset(own & inner)


def _search(net: nn.Module, example: Example, training: bool, apart: Places) -> Search:
    flow = without_hooks(net, lambda: recorded_run(net, example, training))
    members = set(net.modules())
    result = Search(elsewhere=flow.elsewhere)
    openings: dict[Call, bool] = {}
    for top in flow.calls:
        result.seen.update((o.site.code, o.site.position) for o in top.inside() if o.site is not None)
        for call in reversed(list(top.calls())):
            _read(call, members, result, openings, apart)
    result.sums.sort(key=lambda found: found.operation.tick)
    return result


def _read(call: Call, members: set[nn.Module], result: Search, openings: dict[Call, bool], apart: Places) -> None:
    module = call.module
    openings[call] = False
    if isinstance(module, Junction):
        made = call.outputs[0].shape if call.outputs else ()
        if module not in result.natives or result.natives[module][0] > call.tick:
            result.natives[module] = call.tick, made
        return
    if isinstance(module, torch.jit.ScriptModule):
        if module not in result.scripted and _adds_in_script(module):
            result.scripted.append(module)
        return
    children = [item for item in call.items if isinstance(item, Call)]
    own = any(isinstance(item, Operation) and item.site is not None for item in call.items)
    opened = [child for child in children if openings[child]]
    if any(child in result.joining for child in children):
        result.joining.add(call)
    if not own and not opened:
        return
    graph = graph_of(call, lambda child: openings[child])
    reading = ResidualSums(graph, module, apart, result.joining)
    openings[call] = reading.open_sums
    if opened:
        known = [f for f in (*result.sums, *result.hidden) if any(_is_inside(f.call, child) for child in opened)]
        if sum(found.node.meta["inlined"] for found in (*reading.sums, *reading.fused)) > len(known):
            result.sums = [f for f in result.sums if f not in known]
            result.hidden = [f for f in result.hidden if f not in known]
        else:
            graph = graph_of(call)
            reading = ResidualSums(graph, module, apart, result.joining)
    result.graphs.setdefault(module, graph)
    result.sums.extend(_anchored(reading.sums, call, members, reading, graph))
    if reading.sums:
        result.joining.add(call)
    for residual in reading.fused:
        if not _chooses_a_sum(residual, reading, result.sums):
            result.hidden.append(Found(residual, call, reading.written(residual.node)))


def _chooses_a_sum(residual: Sum, reading: ResidualSums, known: list[Found]) -> bool:
    """Whether a `where` chooses between a stream and one to which a residual sum has added: that sum is known."""
    if residual.node.target != "where":
        return False
    way = {node for term in residual.branch for node in reading.ancestors[term] | {term}}
    way -= reading.ancestors[residual.stream]
    calls = [node.meta["call"] for node in way if "call" in node.meta]
    inside = any(_is_inside(found.call, call) for found in known for call in calls)
    return inside or any(found.node in way for found in reading.sums)


def _anchored(
    sums: list[Sum], call: Call, members: set[nn.Module], reading: ResidualSums, graph: fx.Graph, out: int = 0
) -> list[Found]:
    """The sums with the functions that hold them: further `out` where nothing nearer tells runs of a line apart."""
    found = [_found(residual, call, members, reading, out) for residual in sums]
    alike = tell_apart([f for f in found if not f.reason], graph)
    _check_source([f for f in found if not f.reason])
    again = {
        id(one.sum): one
        for one in (_anchored([f.sum for f in alike], call, members, reading, graph, out + 1) if alike else [])
        if not one.reason
    }
    return [again.get(id(one.sum), one) for one in found]


def _found(residual: Sum, call: Call, members: set[nn.Module], reading: ResidualSums, out: int) -> Found:
    operation: Operation = residual.node.meta["operation"]
    found = Found(residual, call, operation)
    try:
        if operation.site is None:
            raise SourceError("it is not made by Python code")
        if "out" in operation.scalars:
            raise SourceError("it is written with out=")
        if is_picked(residual.shortcut):
            raise SourceError("it adds to the rows that an index picks")
        found.anchored = next(itertools.islice(anchors(operation.site, members, call.module), out, None))
        found.inner, found.order = _terms(found, found.anchored)
    except SourceError as error:
        simpler = reading.of_two_terms(residual) if len(residual.terms) > 2 else None
        if simpler is not None and len(simpler.terms) == 2:
            return _found(simpler, call, members, reading, out)
        found.reason = str(error)
    return found


def _terms(found: Found, anchored: Anchor) -> tuple[tuple[Position, ...], tuple[tuple[bool, int], ...]]:
    """Positions of the sums inside a sum of several terms, and for each term which operand of which it is."""
    node, terms = found.sum.node, found.sum.terms
    if _is_call_of_sum(found, anchored):
        if _added_at(node, found.position, terms) != len(terms):
            raise SourceError("its terms cannot be distinguished")
        return (), tuple((False, i) for i in range(len(terms)))
    if node.target in ("addcmul", "addcmul_"):
        return (), ((False, 0), (False, 1))
    if node.target == "rsub":
        raise SourceError("it is written as a reversed difference")
    inner: list[fx.Node] = []
    at: dict[fx.Node, tuple[bool, int]] = {}

    def open_up(one: fx.Node, first: int) -> None:
        for i, operand in enumerate(operands(one)):
            if operand in terms:
                at[operand] = one is not node, first + i
            elif one is node and i and node.target != "add" and node.target != "add_":
                raise SourceError("it takes several terms away at once")
            elif operand.target == "add":
                inner.append(operand)
                open_up(operand, 2 * len(inner) - 2)
            else:
                raise SourceError("it has more terms than can be distinguished")

    open_up(node, 0)
    if inner and isinstance(expression_at(anchored.codes[-1], found.position), ast.Call):
        raise SourceError("it is a call that adds to another sum")
    positions: list[Position] = []
    for one in inner:
        site = one.meta["operation"].site
        if names_around(site, found) is None:
            raise SourceError("its terms are added up in several functions")
        if site.position in (found.position, *positions):
            raise SourceError("its terms are added up in a loop")
        positions.append(site.position)
    return tuple(positions), tuple(at[term] for term in terms)


def _added_at(node: fx.Node, position: Position, terms: tuple[fx.Node, ...]) -> int:
    """How many tensors one call of `sum` adds up."""
    operation: Operation | None = node.meta.get("operation")
    here = operation is not None and operation.site is not None and operation.site.position == position
    return sum(_added_at(o, position, terms) for o in operands(node)) if here and node not in terms else 1


def _is_call_of_sum(found: Found, anchored: Anchor) -> bool:
    """Whether it is written `sum([...])`, which adds all terms at one place."""
    assert found.operation.site is not None
    node = expression_at(anchored.codes[-1], found.position)
    if not isinstance(node, ast.Call):
        return False
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    if name not in CALLS:
        raise SourceError(f"it is made by {ast.unparse(node.func)}()")
    return getattr(node.func, "id", "") == "sum"


def _check_source(found: list[Found]) -> None:
    """Mark the sums that are written in a way that cannot be handed to a rule."""
    for one in found:
        assert one.anchored is not None
        try:
            check(one.anchored, one.spot)
        except SourceError as error:
            one.reason = str(error)


def _is_inside(call: Call, outer: Call) -> bool:
    current: Call | None = call
    while current is not None:
        if current is outer:
            return True
        current = current.outer
    return False


def _root(call: Call) -> Call:
    while call.outer is not None:
        call = call.outer
    return call


def _adds_in_script(module: torch.jit.ScriptModule) -> bool:
    graph = str(getattr(module, "inlined_graph", ""))
    return "aten::add" in graph and any(True for _ in module.parameters())
