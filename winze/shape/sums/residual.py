"""Find the sums of a forward that join a shortcut to its branch, from the graph alone.

A sum is residual where one operand, the *shortcut*, is the stream itself or a short way from it (reshaping, pooling, a
norm, one or two pointwise or depthwise layers), and the stream reaches the other operands, the *branch*, through
learned layers. Sums with position embeddings, biases and masks (which do not come from the stream), rotary sums
(nothing learned on the way), parallel layers (none of them short) and fusions of resolutions are none.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from torch import fx, nn

from winze.shape.sums.blends import JOINTS, MIXES, PRODUCTS, REDUCING, parts, pooled
from winze.shape.sums.forward_graph import (
    ADDS,
    CHEAP,
    PIECES,
    SCALINGS,
    SIGNED,
    ForwardGraph,
    data_inputs,
    is_sum,
    name_of,
    operands,
)

NOISE = {"randn", "randn_like", "normal", "normal_"}


@dataclass(frozen=True)
class Sum:
    """A residual sum: `node` adds `terms`; `shortcut` is one of them, and both it and the rest grow from `stream`."""

    node: fx.Node
    terms: tuple[fx.Node, ...]
    shortcut: fx.Node
    stream: fx.Node
    kind: str

    @property
    def branch(self) -> tuple[fx.Node, ...]:
        """The other terms, in their order."""
        return tuple(term for term in self.terms if term is not self.shortcut)


class ResidualSums(ForwardGraph):
    """The residual sums of one forward.

    Sums at the places `apart` are not taken as part of a larger one.
    """

    def __init__(
        self, graph: fx.Graph, root: nn.Module, apart: frozenset[Any] = frozenset(), joining: Collection[Any] = ()
    ) -> None:
        super().__init__(graph, root, joining)
        self.apart = apart

    @cached_property
    def sums(self) -> list[Sum]:
        """The residual sums, in the order in which they are computed."""
        inner: set[fx.Node] = set()
        found = []
        for node in reversed(self.nodes):
            if node in inner or not is_sum(node):
                continue
            within: set[fx.Node] = set()
            residual = self._residual(node, tuple(self._terms(node, within)))
            if residual is not None and all(residual.stream in self.ancestors[term] for term in residual.branch):
                inner |= within
            else:
                residual = self._residual(node, tuple(operands(node)))
            if residual is not None and not self._adds_to_a_junction(residual):
                found.append(residual)
        found = [one for one in found if not any(self._leaves(one, other) for other in found)]
        return sorted([*found, *self._crossed(found, inner)], key=lambda one: self.nodes.index(one.node))

    def _crossed(self, found: list[Sum], inner: set[fx.Node]) -> list[Sum]:
        """Sums of two streams that cross, as in a reversible block: `a = a + f(b)`, then `b = b + g(a)`."""
        known = inner | {one.node for one in found}
        pairs = [(one.node, one.shortcut, term) for one in found for term in one.branch]
        plain = [
            (node, *terms)
            for node in self.nodes
            if node not in known and is_sum(node) and node.target in ADDS
            for terms in itertools.permutations(operands(node))
            if terms[0] not in self.ancestors[terms[1]] and all(map(self._comes_from_input, terms))
        ]
        crossed: dict[fx.Node, Sum] = {}
        for node, shortcut, term in plain:
            for other, beside, theirs in (*pairs, *plain):
                alike = other is not node and beside.meta.get("shape") == shortcut.meta.get("shape")
                parallel = beside not in self.ancestors[shortcut] and shortcut not in self.ancestors[beside]
                if not alike or not parallel or beside is shortcut or not self._grows(beside, term):
                    continue
                if not _reaches_end(node, theirs):  # a part of the other's branch is no stream
                    continue
                if self._grows(node, theirs) or self._grows(shortcut, theirs):
                    crossed.setdefault(node, Sum(node, (shortcut, term), shortcut, shortcut, _KINDS[True]))
        return [replace(one, terms=tuple(operands(node))) for node, one in crossed.items()]

    def _adds_to_a_junction(self, residual: Sum) -> bool:
        """Whether one term is a sum that stands apart and joins the same stream: one junction is enough."""
        apart = [term for term in residual.terms if is_sum(term) and self._stands_apart(term)]
        own = [self._residual(term, tuple(operands(term))) for term in apart]
        return any(one is not None and one.stream is residual.stream for one in own)

    def _leaves(self, one: Sum, other: Sum) -> bool:
        """Whether a projection starts inside the branch of another sum and ends behind that: a second way out of it."""
        inside = one.stream is not other.stream and other.stream in self.ancestors[one.stream]
        inside = inside and any(one.stream in self.ancestors[term] for term in other.branch)
        return inside and one.kind != _KINDS[True] and other.node in self.ancestors[one.node]

    def of_two_terms(self, residual: Sum) -> Sum | None:
        """The same sum with its operands as they are, where that is residual too."""
        return self._residual(residual.node, tuple(operands(residual.node)))

    @cached_property
    def fused(self) -> list[Sum]:
        """Residual sums inside a larger operation (`lerp`, `addmm`, a stack that is summed up)."""
        known = {found.node for found in self.sums}
        found = []
        for node in self.nodes:
            terms = self._blended(node) if node not in known and "operation" in node.meta else ()
            residual = self._product(node, terms) if name_of(node) in PRODUCTS else self._residual(node, terms)
            if residual is not None and len(terms) > 1:
                found.append(residual)
        return found

    def _blended(self, node: fx.Node) -> tuple[fx.Node, ...]:
        """What a larger operation adds up."""
        if name_of(node) in MIXES | PRODUCTS:
            return parts(node, name_of(node), operands(node))
        reduces = name_of(node) in REDUCING and not self._is_learned(node)
        if not reduces and not is_sum(node):
            return ()
        joints = {self._joint(term) for term in operands(node) if self._comes_from_input(term)}
        joint = joints.pop() if len(joints) == 1 else None
        return () if joint is None else pooled(node, joint, name_of(node), operands(joint))

    def written(self, node: fx.Node) -> Any:
        """The operation of a sum that has a place in the source: itself, or the stack that it sums up."""
        joint = None if node.meta["operation"].site else self._joint(operands(node)[0])
        return (joint or node).meta["operation"]

    def _joint(self, node: fx.Node | None) -> fx.Node | None:
        """The stack or concatenation that a node is a piece, a view or a multiple of."""
        while node is not None and name_of(node) not in JOINTS:
            inputs = [i for i in data_inputs(node) if self._comes_from_input(i)]
            node = inputs[0] if len(inputs) == 1 and (name_of(node) in CHEAP | PIECES or node.target in ADDS) else None
        return node

    def _product(self, node: fx.Node, terms: tuple[fx.Node, ...]) -> Sum | None:
        """A sum with a product whose factors grow from the other term; one of them may be that term itself."""
        shortcut, factors = terms[0], list(terms[1:])
        stream: fx.Node | None = shortcut
        while stream is not None:
            weighs = any(self._is_weight(f) for f in factors if not self._comes_from_input(f))
            weighed = weighs and any(f is stream or stream in self.ancestors[f] for f in factors)
            grown = any(stream in self.ancestors[f] and self._learned_between(stream, f) for f in factors)
            if weighed or grown:
                return Sum(node, terms, shortcut, stream, _KINDS[True])
            stream = self._step_up(stream)
        return None

    @cached_property
    def open_sums(self) -> bool:
        """Whether it adds two streams that a caller hands in: the caller's forward may hold the residual sum."""
        known = {found.node for found in (*self.sums, *self.fused)}
        return any(
            len(self._origins(node)) > 1
            and all(self._comes_from_input(term) for term in terms)
            and any(self._closes(term) for term in terms)
            for node in self.nodes
            if node not in known and (terms := operands(node) if is_sum(node) else self._own_blend(node))
        )

    def _own_blend(self, node: fx.Node) -> tuple[fx.Node, ...]:
        return self._blended(node) if "operation" in node.meta else ()

    def _closes(self, term: fx.Node) -> bool:
        """Whether a term is an argument as it came in, or a short way from one."""
        while term.op != "placeholder":
            step = self._step_up(term)
            if step is None:
                return False
            term = step
        return True

    def _terms(self, node: fx.Node, inner: set[fx.Node]) -> Iterator[fx.Node]:
        """The operands, where a sum that is used for nothing else than this sum counts by its own operands."""
        for term in operands(node):
            if is_sum(term) and len(term.users) == 1 and not _is_spoilt(term) and not self._stands_apart(term):
                inner.add(term)
                yield from self._terms(term, inner)
            else:
                yield term

    def _stands_apart(self, node: fx.Node) -> bool:
        site = node.meta["operation"].site if "operation" in node.meta else None
        return site is not None and (site.code, site.position) in self.apart

    def _residual(self, node: fx.Node, terms: tuple[fx.Node, ...]) -> Sum | None:
        if len(set(terms)) != len(terms):
            return None
        candidates = []
        kept = {"rsub": terms[1:]}.get(name_of(node), terms[:1])  # of x - f(x), only x can be the shortcut
        for shortcut in kept if name_of(node) in SIGNED else terms:
            others = [term for term in terms if term is not shortcut]
            stream, weight = self._stream(shortcut, others)
            if stream is not None:
                identity = not self._changes(shortcut, stream)
                sampled = not identity and any(map(self._is_noise, others))  # a mean and a deviation
                if not (sampled or any(_is_replacement(other, shortcut) for other in others)):
                    candidates.append((weight, not identity, Sum(node, terms, shortcut, stream, _KINDS[identity])))
        return min(candidates, key=lambda c: c[:2])[2] if candidates else None

    def _stream(self, shortcut: fx.Node, others: list[fx.Node]) -> tuple[fx.Node | None, int]:
        """Walk up from the shortcut to the node from which the branch grows; that node, and the layers on the way."""
        node: fx.Node | None = shortcut
        length = 0
        while node is not None:
            reached = [other for other in others if node in self.ancestors[other]]
            if reached:
                learned = any(self._learned_between(node, other) for other in reached)
                deep = max(self._length(other, node) for other in reached) >= 2 * length
                direct = any(self._reaches_at_its_size(node, other) for other in reached)
                bent = not length or any(self._bends(node, other) for other in reached)
                fits = learned and length <= 2 and deep and direct and bent and _carries_data(node)
                fits = fits and not any(self._is_offset(node, other) for other in reached)
                return node if fits else None, length
            length += self._weight_layers(node)
            node = self._step_up(node) or self._whole(node, others)
        return None, length

    def _is_noise(self, node: fx.Node) -> bool:
        """Whether a node is a multiple of noise of its own size."""
        factors = data_inputs(node) if name_of(node) in SCALINGS else []
        return any(f.meta["shape"] == node.meta["shape"] and name_of(f) in NOISE for f in factors)

    def _is_offset(self, stream: fx.Node, end: fx.Node) -> bool:
        """Whether `end` holds the stream as something added to another one, as positions that every layer is handed."""
        seen, waiting = {end}, [end]
        while waiting:
            node = waiting.pop()
            terms = operands(node) if is_sum(node) else []
            others = [o for o in terms if o is not stream and stream not in self.ancestors[o]]
            if stream in terms and any(self._comes_from_input(o) and _is_alike(o, stream) for o in others):
                return True
            if not self._weight_layers(node) or self._joins(node):
                waiting += [i for i in data_inputs(node) if i not in seen and stream in self.ancestors[i]]
                seen.update(data_inputs(node))
        return False


_KINDS = {True: "identity", False: "projection"}


def _is_replacement(term: fx.Node, shortcut: fx.Node) -> bool:
    """Whether it takes the shortcut away again, without a gradient, as a straight-through estimator does."""
    inputs = term.all_input_nodes
    return name_of(term) == "detach" and name_of(inputs[0]) == "sub" and operands(inputs[0])[1:] == [shortcut]


def _is_spoilt(node: fx.Node) -> bool:
    """Whether an operand of a sum is changed in place afterwards, so that its terms are no longer at hand."""
    later = (user for term in operands(node) for user in term.users if user is not node)
    return any(user.meta["operation"].overwrites for user in later if "operation" in user.meta)


def _is_alike(one: fx.Node, other: fx.Node) -> bool:
    return bool(one.meta["shape"] == other.meta["shape"])


def _carries_data(node: fx.Node) -> bool:
    return bool(node.meta.get("tensor") or node.meta.get("holds_tensors"))


def _reaches_end(node: fx.Node, without: fx.Node) -> bool:
    """Whether what a node gives is used in the end by a way that leaves another node out."""
    seen, ahead = {without}, [node]
    while ahead:
        users = [user for user in ahead.pop().users if user not in seen]
        if any(user.op == "output" for user in users):
            return True
        seen.update(users)
        ahead += users
    return False
