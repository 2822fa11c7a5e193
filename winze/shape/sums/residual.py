"""Find the sums of a forward that join a shortcut to its branch, from the graph alone.

A sum is residual where one operand, the *shortcut*, is the stream itself or a short way from it (reshaping, pooling, a
norm, one or two pointwise or depthwise layers), and the stream reaches the other operands, the *branch*, through
learned layers. Sums with position embeddings, biases and masks (which do not come from the stream), rotary sums
(nothing learned on the way), parallel layers (none of them short) and fusions of resolutions are none.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import fx, nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.dropout import _DropoutNd

from winze.shape.sums.blends import JOINTS, MIXES, PRODUCTS, REDUCING, parts, pooled

ADDS = {operator.add, operator.iadd, torch.add, "add", "add_"}
SIGNED = {"sub", "sub_", "rsub", "addcmul", "addcmul_"}
SCALINGS = {"mul", "mul_", "imul", "div", "div_", "truediv", "itruediv", "multiply", "divide"}
CHEAP = SCALINGS | {
    # what lies elsewhere, or is left out
    *("getitem", "getattr", "reshape", "view", "view_as", "permute", "transpose", "flatten", "unflatten", "contiguous"),
    *("squeeze", "unsqueeze", "narrow", "select", "movedim", "moveaxis", "swapaxes", "swapdims", "t", "adjoint"),
    *("copy_", "setitem", "cat", "concat", "concatenate", "repeat", "repeat_interleave", "tile", "opaque"),
    *("to", "type", "type_as", "float", "double", "cpu", "cuda", "half", "bfloat16", "view_as_real", "view_as_complex"),
    *("clone", "detach", "expand", "expand_as", "broadcast_to", "roll", "flip", "unfold", "pad", "constant_pad_nd"),
    *("index_select", "gather", "take_along_dim", "masked_fill", "masked_fill_", "nan_to_num", "triu", "tril"),
    # number by number
    *("dropout", "dropout_", "feature_dropout", "alpha_dropout", "dropout1d", "dropout2d", "dropout3d"),
    *("relu", "relu_", "gelu", "silu", "hardswish", "relu6", "mish", "leaky_relu", "elu", "selu", "celu", "prelu"),
    *("hardtanh", "tanh", "sigmoid", "hardsigmoid", "logsigmoid", "softplus", "softsign", "glu", "round", "floor"),
    *("clamp", "clamp_", "clip", "clamp_min", "clamp_max", "neg", "abs", "square", "sqrt", "pow", "exp", "log", "sign"),
    # norms and pools
    *("layer_norm", "batch_norm", "group_norm", "instance_norm", "rms_norm", "normalize", "softmax", "max", "amax"),
    *(f"{kind}_pool{n}d" for kind in ("avg", "max", "adaptive_avg", "adaptive_max") for n in (1, 2, 3)),
}
WEIGHINGS = {
    *("linear", "bilinear", "matmul", "einsum", "bmm", "mm", "mv", "inner", "tensordot", "cdist", "addmm"),
    *("addbmm", "baddbmm", "multi_head_attention_forward"),
    *(f"conv{kind}{n}d" for kind in ("", "_transpose") for n in (1, 2, 3)),
}
STRAIGHT = SCALINGS | WEIGHINGS | {"add", "getitem", "reshape", "view", "transpose", "permute", "to", "dropout"}
LOOKUPS = {"getitem", "index_select", "embedding", "gather", "interpolate"}
PIECES = {"chunk", "split", "split_with_sizes", "tensor_split", "unbind"}
SHAPED_LIKE = {"expand_as", "view_as", "reshape_as", "type_as"}
NOISE = {"randn", "randn_like", "normal", "normal_"}
RESAMPLING = {"interpolate", "upsample", "upsample_nearest", "grid_sample", "pixel_shuffle"}


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


class ForwardGraph:
    """One forward's graph, with what the search for sums asks about its nodes.

    Sums at the places `apart` are not taken as part of a larger one; in the calls `joining`, residual sums are known.
    """

    def __init__(
        self, graph: fx.Graph, root: nn.Module, apart: frozenset[Any] = frozenset(), joining: Collection[Any] = ()
    ) -> None:
        self.root, self.apart, self.joining = root, apart, joining
        self.nodes = list(graph.nodes)
        self.ancestors: dict[fx.Node, set[fx.Node]] = {}
        for node in self.nodes:
            inputs = data_inputs(node)
            self.ancestors[node] = set(inputs).union(*(self.ancestors[i] for i in inputs))

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

    def _grows(self, stream: fx.Node, end: fx.Node) -> bool:
        reached = stream in self.ancestors[end] and self._learned_between(stream, end)
        return reached and self._reaches_at_its_size(stream, end)

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
            residual = self._product(node, terms) if _name(node) in PRODUCTS else self._residual(node, terms)
            if residual is not None and len(terms) > 1:
                found.append(residual)
        return found

    def _blended(self, node: fx.Node) -> tuple[fx.Node, ...]:
        """What a larger operation adds up."""
        if _name(node) in MIXES | PRODUCTS:
            return parts(node, _name(node), operands(node))
        reduces = _name(node) in REDUCING and not self._is_learned(node)
        if not reduces and not is_sum(node):
            return ()
        joints = {self._joint(term) for term in operands(node) if self._comes_from_input(term)}
        joint = joints.pop() if len(joints) == 1 else None
        return () if joint is None else pooled(node, joint, _name(node), operands(joint))

    def written(self, node: fx.Node) -> Any:
        """The operation of a sum that has a place in the source: itself, or the stack that it sums up."""
        joint = None if node.meta["operation"].site else self._joint(operands(node)[0])
        return (joint or node).meta["operation"]

    def _joint(self, node: fx.Node | None) -> fx.Node | None:
        """The stack or concatenation that a node is a piece, a view or a multiple of."""
        while node is not None and _name(node) not in JOINTS:
            inputs = [i for i in data_inputs(node) if self._comes_from_input(i)]
            node = inputs[0] if len(inputs) == 1 and (_name(node) in CHEAP | PIECES or node.target in ADDS) else None
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

    def _origins(self, node: fx.Node) -> set[fx.Node]:
        return {a for a in self.ancestors[node] if a.op == "placeholder" and a.meta.get("tensor")}

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
        kept = {"rsub": terms[1:]}.get(_name(node), terms[:1])  # of x - f(x), only x can be the shortcut
        for shortcut in kept if _name(node) in SIGNED else terms:
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

    def _whole(self, node: fx.Node, others: list[fx.Node]) -> fx.Node | None:
        """What a node is one of several pieces of, where the branch grows from the whole and not from its siblings."""
        inputs = data_inputs(node)
        cut = inputs[0] if len(inputs) == 1 and _name(inputs[0]) in PIECES else None
        if cut is None or _name(node) not in CHEAP:
            return None
        whole = data_inputs(cut)[0]
        apart = all(cut not in self.ancestors[other] for other in others)
        return whole if apart and any(whole in self.ancestors[other] for other in others) else None

    def _step_up(self, node: fx.Node) -> fx.Node | None:
        inputs = [i for i in data_inputs(node) if self._comes_from_input(i)]
        if len(inputs) > 1 and _name(node) in ("cat", "concat", "concatenate"):
            scaled = [i for i in inputs if _name(i) in SCALINGS and set(data_inputs(i)) & set(inputs)]
            inputs = [i for i in inputs if i not in scaled]  # channels of zeros, made from the stream itself
            inputs = [i for i in inputs if 2 * _size(i) > _size(node)] or inputs  # a class token beside the others
        if _name(node) in ("setitem", "getitem") and node.args[0] in inputs:
            inputs = [i for i in inputs if i is node.args[0]]  # what is written into, or picked from by an index
        if _name(node) in SCALINGS | SIGNED:  # by a statistic of its own, as a norm written out does
            inputs = [i for i in inputs if all(i is o or self._is_made_from(i, o) for o in inputs)] or inputs
        if len(inputs) != 1:
            return None
        if _name(inputs[0]) in PIECES or (inputs[0].meta["holds_tensors"] and self._joins(inputs[0])):
            return None  # one of several pieces: its siblings are other streams
        if node.op == "call_module":
            return inputs[0] if self._is_short(self.module(node)) or self._fits(node, inputs[0]) else None
        offset = (node.target in ADDS or _name(node) in SIGNED) and not any(
            self._is_weight(i) for i in data_inputs(node) if i not in inputs
        )
        return inputs[0] if offset or _name(node) in CHEAP or self._is_pointwise(node) else None

    def _is_noise(self, node: fx.Node) -> bool:
        """Whether a node is a multiple of noise of its own size."""
        factors = data_inputs(node) if _name(node) in SCALINGS else []
        return any(f.meta["shape"] == node.meta["shape"] and _name(f) in NOISE for f in factors)

    def _joins(self, node: fx.Node) -> bool:
        return node.meta.get("call") in self.joining

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

    def _is_made_from(self, node: fx.Node, end: fx.Node) -> bool:
        return node in self.ancestors[end] and not self._learned_between(node, end)

    def _is_pointwise(self, node: fx.Node) -> bool:
        """A projection written as an operation: `linear`, `einsum` or a 1x1 convolution with a weight."""
        given = [i for i in data_inputs(node) if not self._comes_from_input(i)]
        shapes: list[tuple[int, ...]] = [i.meta["shape"] or () for i in given]
        narrow = all(math.prod(shape[2:]) == 1 or shape[1] == 1 for shape in shapes) or "conv" not in _name(node)
        return narrow and self._is_learned(node)

    def module(self, node: fx.Node) -> nn.Module:
        """The child that a node calls."""
        found: nn.Module | None = node.meta.get("module")
        return self.root.get_submodule(str(node.target)) if found is None else found

    def _comes_from_input(self, node: fx.Node) -> bool:
        if "from_input" in node.meta:
            return bool(node.meta["from_input"])
        return any(a.op == "placeholder" and a.name != "constants" for a in self.ancestors[node] | {node})

    def _is_short(self, module: nn.Module) -> bool:
        """A norm, a pool, an activation, a scale, or at most two layers that are pointwise or depthwise."""
        weights = _weights(module)
        narrow = all(w.shape[2:].numel() == 1 or w.shape[1] == 1 for w in weights)
        mixes = any(isinstance(m, nn.MultiheadAttention | nn.RNNBase | nn.Embedding) for m in module.modules())
        return len(weights) <= 2 and narrow and not mixes and not _resamples(module)

    def _fits(self, node: fx.Node, stream: fx.Node) -> bool:
        """Whether a bare convolution, of whatever kernel, gives the stream another shape, so that it can be added."""
        made, given = (tuple(one.meta["shape"] or ()) for one in (node, stream))
        return made[1:] != given[1:] and isinstance(self.module(node), _ConvNd)

    def _reaches_at_its_size(self, stream: fx.Node, end: fx.Node) -> bool:
        """Whether a way leads from the stream to `end` on which nothing is resampled: else the sum is a fusion."""
        seen, waiting = {end}, [end]
        while waiting:
            node = waiting.pop()
            if node is stream:
                return True
            if not self._resamples(node):
                waiting.extend(i for i in data_inputs(node) if i not in seen)
                seen.update(data_inputs(node))
        return False

    def _resamples(self, node: fx.Node) -> bool:
        if node.op == "call_module":
            return isinstance(self.module(node), nn.Upsample)
        return _name(node) in RESAMPLING

    def _between(self, stream: fx.Node, end: fx.Node) -> set[fx.Node]:
        return {n for n in self.ancestors[end] if stream in self.ancestors[n]}

    def _learned_between(self, stream: fx.Node, end: fx.Node) -> bool:
        return any(self._is_learned(n) for n in self._between(stream, end) | {end} if n is not stream)

    def _is_learned(self, node: fx.Node) -> bool:
        """A child with parameters, or an operation that multiplies by a weight of the module's own."""
        if node.op == "call_module":
            module = self.module(node)
            return not isinstance(module, nn.Embedding) and any(True for _ in module.parameters())
        scales = _name(node) in ("mul", "multiply")
        if _name(node) not in WEIGHINGS and not scales:
            return False
        given = [i for i in data_inputs(node) if not self._comes_from_input(i)]
        if scales:  # by a whole table, as a filter over frequencies does
            return any(self._is_weight(i) and _is_wide(i.meta["shape"]) for i in given)
        return any(self._is_weight(i) or self._is_one_of_a_stack(i) for i in given)

    def _is_one_of_a_stack(self, node: fx.Node) -> bool:
        """One layer's matrix, cut from a parameter that holds those of several layers."""
        whole = node
        while _name(whole) in PIECES | {"getitem"} and len(whole.all_input_nodes) == 1:
            whole = whole.all_input_nodes[0]
        return self._is_weight(whole) and _is_wide(node.meta["shape"])

    def _is_weight(self, node: fx.Node) -> bool:
        """A parameter as it is, or reshaped; rows looked up in a table of positions are none."""
        made_from = self.ancestors[node] | {node}
        return any(a.meta.get("parameter") for a in made_from) and not any(_name(a) in LOOKUPS for a in made_from)

    def _changes(self, shortcut: fx.Node, stream: fx.Node) -> bool:
        """Whether something between stream and shortcut is more than another view of the same numbers."""
        nodes = (self._between(stream, shortcut) | {shortcut}) - {stream}
        for node in nodes:
            if node.op == "call_module":
                module = self.module(node)
                if not all(isinstance(m, nn.Identity | nn.Sequential) for m in module.modules()):
                    return True
            elif self._is_learned(node) or "pool" in _name(node) or "norm" in _name(node) or self._is_scaled(node):
                return True
        return False

    def _is_scaled(self, node: fx.Node) -> bool:
        parameters = (i for i in data_inputs(node) if not self._comes_from_input(i))
        return any(a.meta.get("parameter") for i in parameters for a in self.ancestors[i] | {i})

    def _bends(self, stream: fx.Node, end: fx.Node) -> bool:
        """Whether a branch is more than linear layers, which beside a projection are an adapter (LoRA)."""
        for node in (self._between(stream, end) | {end}) - {stream}:
            if node.op == "call_module":
                leaves = [m for m in self.module(node).modules() if not any(True for _ in m.children())]
                if not all(isinstance(leaf, nn.Linear | _ConvNd | _DropoutNd | nn.Identity) for leaf in leaves):
                    return True
                weights = [leaf.weight.shape for leaf in leaves if isinstance(leaf, nn.Linear | _ConvNd)]
                if len(weights) > 2 or any(a[0] != b[1] for a, b in itertools.pairwise(weights)):
                    return True  # no product of two matrices, but attention that is made of linear layers
            elif _name(node) not in STRAIGHT:
                return True
        return False

    def _length(self, end: fx.Node, stream: fx.Node) -> int:
        """The largest number of weight layers on a way from the stream to `end`."""
        longest: dict[fx.Node, int] = {stream: 0}
        way = self._between(stream, end) | {end}
        for node in self.nodes:
            if node in way and node is not stream:
                ways = [longest[i] for i in data_inputs(node) if i in longest]
                longest[node] = max(ways, default=0) + self._weight_layers(node)
        return longest.get(end, 0)

    def _weight_layers(self, node: fx.Node) -> int:
        if node.op == "call_module":
            return len(_weights(self.module(node)))
        return int(self._is_learned(node))


_KINDS = {True: "identity", False: "projection"}


def operands(node: fx.Node) -> list[fx.Node]:
    """The tensor operands of a sum."""
    return [a for a in node.args if isinstance(a, fx.Node) and a.meta.get("tensor")]


def is_sum(node: fx.Node) -> bool:
    """Two tensors of one shape added up, or one taken from the other; `addcmul` adds a product."""
    known = node.target in ADDS or ("operation" in node.meta and node.target in SIGNED)
    product = _name(node).startswith("addcmul")
    terms = operands(node)
    if not known or node.kwargs or len(terms) != 2 + product or len(node.args) != len(terms):
        return False
    shapes = {term.meta.get("shape") for term in terms[: 1 if product else 2]}
    return shapes == {node.meta.get("shape")} and bool(node.meta["shape"])  # losses are sums of single numbers


def _is_replacement(term: fx.Node, shortcut: fx.Node) -> bool:
    """Whether it takes the shortcut away again, without a gradient, as a straight-through estimator does."""
    inputs = term.all_input_nodes
    return _name(term) == "detach" and _name(inputs[0]) == "sub" and operands(inputs[0])[1:] == [shortcut]


def is_picked(node: fx.Node) -> bool:
    """Whether it holds those rows of another tensor that an index or a mask made from the input tells."""
    picks = [i for i in node.all_input_nodes[1:] if i.meta.get("from_input")]
    return _name(node) == "getitem" and bool(picks)


def _is_spoilt(node: fx.Node) -> bool:
    """Whether an operand of a sum is changed in place afterwards, so that its terms are no longer at hand."""
    later = (user for term in operands(node) for user in term.users if user is not node)
    return any(user.meta["operation"].overwrites for user in later if "operation" in user.meta)


def data_inputs(node: fx.Node) -> list[fx.Node]:
    """The inputs that hand on numbers: tensors and tuples of them, not sizes, not flags, not models of a shape."""
    if _name(node) in SHAPED_LIKE or _name(node).startswith("new_") or _name(node).endswith("_like"):
        kept = node.args[:1] if _name(node) in SHAPED_LIKE else ()
        return [i for i in kept if isinstance(i, fx.Node)]
    return [i for i in node.all_input_nodes if i.meta.get("tensor") or i.meta.get("holds_tensors")]


def upstream(node: fx.Node) -> set[fx.Node]:
    """The node, and everything it is computed from, sizes included."""
    found, waiting = {node}, [node]
    while waiting:
        for needed in waiting.pop().all_input_nodes:
            if needed not in found:
                found.add(needed)
                waiting.append(needed)
    return found


def _is_alike(one: fx.Node, other: fx.Node) -> bool:
    return bool(one.meta["shape"] == other.meta["shape"])


def _size(node: fx.Node) -> int:
    return math.prod(node.meta["shape"] or (0,))


def _carries_data(node: fx.Node) -> bool:
    return bool(node.meta.get("tensor") or node.meta.get("holds_tensors"))


def _name(node: fx.Node) -> str:
    if node.op == "call_module":
        return ""
    return str(node.target if isinstance(node.target, str) else getattr(node.target, "__name__", ""))


def _weights(module: nn.Module) -> list[torch.Tensor]:
    """The weight arrays of the layers inside: kernels of convolutions, and what else has two axes that are not 1."""
    found: list[torch.Tensor] = []
    for part in module.modules():
        for parameter in part.parameters(recurse=False):
            if _is_wide(parameter.shape) or (isinstance(part, nn.Linear | _ConvNd) and parameter.ndim > 1):
                found.append(parameter)
    return found


def _is_wide(shape: tuple[int, ...] | None) -> bool:
    return sum(size > 1 for size in shape or ()) > 1


def _resamples(module: nn.Module) -> bool:
    names: list[Any] = [type(m).__name__.lower() for m in module.modules()]
    return any("upsample" in name or "interpolate" in name for name in names)


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
