"""Cut one forward at its residual sums, so that shortcut and branch become calls of their own.

The result is a `Plan`: the forward as a function in which each residual sum is a call of `join`, handed the shortcut
and the branch as functions of the tensors that flow into them. The functions look modules and parameters up on the
module they are run for, so one plan serves every copy of it.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from winze.shape.sums.forward_graph import operands, upstream
from winze.shape.sums.residual import Sum

PieceFunction = Callable[..., Any]


@dataclass(frozen=True)
class Piece:
    """A piece of a forward as a function `run(module, *inputs)`, and what it uses of the module.

    `scales` tells for each input how many of its rows belong to one sample (0: its rows are no samples), `sides` how
    many further results it hands on, `apart` whether it may be run on some samples only.
    """

    run: PieceFunction
    scales: tuple[int, ...]
    modules: tuple[str, ...]
    parameters: tuple[str, ...]
    sides: int
    apart: bool


@dataclass(frozen=True)
class SplitSum:
    """One residual sum: how to compute its shortcut and its branch.

    `overwritten`: something changes its result in place. `branch_first`: the network adds the shortcut to the branch,
    so that the result lies in memory as the branch does.
    """

    shortcut: Piece
    branch: Piece
    overwritten: bool
    branch_first: bool


@dataclass(frozen=True)
class Plan:
    """A forward whose residual sums are handed to `join`: `run(module, join, constants, *tensors)`.

    `bound`: it holds for the shapes it was read with only. `apart`: none of its numbers depends on the batch size.
    """

    run: PieceFunction
    cuts: tuple[SplitSum, ...]
    constants: tuple[Any, ...]
    bound: bool
    apart: bool


def split(graph: fx.Graph, sums: list[Sum], constants: list[Any], *, bound: bool, apart: bool) -> Plan:
    """Cut `graph` (which is changed) at `sums`."""
    join = _first_placeholder(graph, "join")
    _erase(graph, set())
    cuts = []
    moved: dict[fx.Node, fx.Node] = {}
    for i, residual in enumerate(sums):
        cuts.append(_cut(graph, join, i, _moved(residual, moved), moved))
    return Plan(_compile(graph), tuple(cuts), tuple(constants), bound, apart)


def _moved(residual: Sum, moved: dict[fx.Node, fx.Node]) -> Sum:
    """The same sum after earlier cuts have put new nodes in the place of old ones."""

    def now(node: fx.Node) -> fx.Node:
        return moved.get(node, node)

    terms = tuple(now(term) for term in residual.terms)
    return Sum(residual.node, terms, now(residual.shortcut), now(residual.stream), residual.kind)


def _cut(graph: fx.Graph, join: fx.Node, i: int, residual: Sum, moved: dict[fx.Node, fx.Node]) -> SplitSum:
    total = residual.node
    branch_end = _sum_of(graph, residual)
    gone = {total, *_inner_sums(residual)}
    branch = _region(branch_end, residual.stream, gone)
    sides = [n for n in graph.nodes if n in branch and n is not branch_end and _escapes(n, branch | gone)]
    branch_part, branch_inputs = _extract(graph, branch, [branch_end, *sides], residual.stream)
    shortcut = _region(residual.shortcut, residual.stream, gone)
    if any(_escapes(n, shortcut | gone) for n in shortcut):
        shortcut = set()
    shortcut_part, shortcut_inputs = _extract(graph, shortcut, [residual.shortcut], residual.stream)
    overwritten = any(total in user.meta.get("mutates", ()) for user in total.users)
    with graph.inserting_before(total):
        joined = graph.call_function(_join, (join, i, tuple(shortcut_inputs), tuple(branch_inputs)))
        results = [joined]
        if sides:
            results = [graph.call_function(operator.getitem, (joined, k)) for k in range(1 + len(sides))]
    joined.meta.update(tensor=not sides, holds_tensors=bool(sides), shape=total.meta["shape"])
    for old, new in zip([total, *sides], results, strict=True):
        moved[old] = new
        new.meta.update(old.meta)
        for user in [u for u in old.users if u not in branch and u is not joined]:
            user.replace_input_with(old, new)
    _erase(graph, branch | shortcut | gone)
    _sort(graph)
    return SplitSum(shortcut_part, branch_part, overwritten, residual.terms[0] is not residual.shortcut)


def _join(join: PieceFunction, i: int, shortcut_inputs: tuple[Any, ...], branch_inputs: tuple[Any, ...]) -> Any:
    return join(i, shortcut_inputs, branch_inputs)


def _sum_of(graph: fx.Graph, residual: Sum) -> fx.Node:
    """One node for the branch: the term itself, or the sum of the terms other than the shortcut."""
    first, *rest = residual.branch
    for term in rest:
        with graph.inserting_before(residual.node):
            total = graph.call_function(operator.add, (first, term))
        total.meta.update(residual.node.meta)
        first = total
    return first


def _inner_sums(residual: Sum) -> set[fx.Node]:
    found, waiting = set(), [residual.node]
    while waiting:
        inner = [n for n in operands(waiting.pop()) if n not in residual.terms]
        found.update(inner)
        waiting.extend(inner)
    return found


def _region(end: fx.Node, stream: fx.Node, gone: set[fx.Node]) -> set[fx.Node]:
    """The tensors computed for `end` beyond the stream, less those that others need and that do not come from it."""
    region = {n for n in upstream(end) - upstream(stream) if _is_data(n) and n.op not in ("placeholder", "get_attr")}
    while True:
        shared = {n for n in region if n is not end and _escapes(n, region | gone) and stream not in upstream(n)}
        if not shared:
            return region
        region -= set().union(*(upstream(n) for n in shared))


def _escapes(node: fx.Node, region: set[fx.Node]) -> bool:
    """Whether something outside the region needs this tensor, be it through its size."""
    outside = [user for user in node.users if user not in region]
    return any(_is_data(user) or user.op == "output" or _escapes(user, region) for user in outside)


def _extract(
    graph: fx.Graph, region: set[fx.Node], ends: list[fx.Node], stream: fx.Node
) -> tuple[Piece, list[fx.Node]]:
    """A graph of its own that computes `ends` from the tensors flowing into `region`; the stream comes first."""
    wanted = [n for n in graph.nodes if n in region]
    outer: list[fx.Node] = [stream]
    copied: dict[fx.Node, fx.Node] = {}
    part = fx.Graph()
    feed: dict[fx.Node, fx.Node] = {stream: part.placeholder("stream")}

    def bring(node: fx.Node) -> fx.Node:
        if node in feed:
            return feed[node]
        if node in copied:
            return copied[node]
        is_input = node.op == "placeholder" or (_is_data(node) and node.op != "get_attr" and node not in region)
        if is_input:
            outer.append(node)
            feed[node] = part.placeholder(node.name)
            feed[node].meta.update(node.meta)
            return feed[node]
        for needed in node.all_input_nodes:
            bring(needed)
        copied[node] = part.node_copy(node, lambda n: feed.get(n) or copied[n])
        return copied[node]

    for node in wanted:
        bring(node)
    outputs = [bring(end) for end in ends]
    part.output(outputs[0] if len(outputs) == 1 else tuple(outputs))
    nodes = [n for n in copied if n.op in ("call_module", "get_attr")]
    modules = tuple(dict.fromkeys(str(n.target) for n in nodes if n.op == "call_module"))
    parameters = tuple(dict.fromkeys(str(n.target) for n in nodes if n.meta.get("parameter")))
    # A placeholder inside has to stand before everything that was copied in the meantime.
    _placeholders_first(part)
    scales = tuple(int(n.meta.get("scale") or 0) for n in outer)
    apart = len(ends) == 1 and not any(n.meta.get("holds_tensors") for n in outer)
    return Piece(_compile(part), scales, modules, parameters, len(ends) - 1, apart), outer


def _is_data(node: fx.Node) -> bool:
    return bool(node.meta.get("tensor") or node.meta.get("holds_tensors"))


def _erase(graph: fx.Graph, moved: set[fx.Node]) -> None:
    """Take out what has moved into a part, and sizes and parameters that are no longer used."""
    for node in reversed(list(graph.nodes)):
        idle = not node.users and node.op not in ("placeholder", "output")
        if node.target is torch._assert or (idle and (node in moved or node.op == "get_attr" or not _is_data(node))):
            graph.erase_node(node)


def _sort(graph: fx.Graph) -> None:
    """Put every node behind its inputs, and else keep the order."""
    nodes = list(graph.nodes)
    placed: dict[fx.Node, None] = {}

    def place(node: fx.Node) -> None:
        if node not in placed:
            for needed in node.all_input_nodes:
                place(needed)
            placed[node] = None

    for node in nodes:
        place(node)
    for before, node in itertools.pairwise(placed):
        before.append(node)


def _first_placeholder(graph: fx.Graph, name: str) -> fx.Node:
    with graph.inserting_before(next(iter(graph.nodes))):
        return graph.placeholder(name)


def _placeholders_first(graph: fx.Graph) -> None:
    nodes = list(graph.nodes)
    first = next((n for n in nodes if n.op != "placeholder"), None)
    for node in nodes:
        if node.op == "placeholder" and first is not None:
            first.prepend(node)


def _compile(graph: fx.Graph) -> PieceFunction:
    code = graph.python_code("self")
    names = dict(code.globals)
    exec(code.src, names)
    forward: PieceFunction = names["forward"]
    return forward
