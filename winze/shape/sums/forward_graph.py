"""The graph of one forward, and what its nodes and the ways between them are: short, learned, bent, resampled."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Collection
from types import FunctionType
from typing import Any

import torch
from torch import fx, nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.dropout import _DropoutNd

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
RESAMPLING = {"interpolate", "upsample", "upsample_nearest", "grid_sample", "pixel_shuffle"}


class ForwardGraph:
    """One forward's graph, with what the search for sums asks about its nodes.

    In the calls `joining`, residual sums are known.
    """

    def __init__(self, graph: fx.Graph, root: nn.Module, joining: Collection[Any] = ()) -> None:
        self.root, self.joining = root, joining
        self.nodes = list(graph.nodes)
        self.ancestors: dict[fx.Node, set[fx.Node]] = {}
        for node in self.nodes:
            inputs = data_inputs(node)
            self.ancestors[node] = set(inputs).union(*(self.ancestors[i] for i in inputs))

    def _grows(self, stream: fx.Node, end: fx.Node) -> bool:
        reached = stream in self.ancestors[end] and self._learned_between(stream, end)
        return reached and self._reaches_at_its_size(stream, end)

    def _origins(self, node: fx.Node) -> set[fx.Node]:
        return {a for a in self.ancestors[node] if a.op == "placeholder" and a.meta.get("tensor")}

    def _whole(self, node: fx.Node, others: list[fx.Node]) -> fx.Node | None:
        """What a node is one of several pieces of, where the branch grows from the whole and not from its siblings."""
        inputs = data_inputs(node)
        cut = inputs[0] if len(inputs) == 1 and name_of(inputs[0]) in PIECES else None
        if cut is None or name_of(node) not in CHEAP:
            return None
        whole = data_inputs(cut)[0]
        apart = all(cut not in self.ancestors[other] for other in others)
        return whole if apart and any(whole in self.ancestors[other] for other in others) else None

    def _step_up(self, node: fx.Node) -> fx.Node | None:
        inputs = [i for i in data_inputs(node) if self._comes_from_input(i)]
        if len(inputs) > 1 and name_of(node) in ("cat", "concat", "concatenate"):
            scaled = [i for i in inputs if name_of(i) in SCALINGS and set(data_inputs(i)) & set(inputs)]
            inputs = [i for i in inputs if i not in scaled]  # channels of zeros, made from the stream itself
            inputs = [i for i in inputs if 2 * _size(i) > _size(node)] or inputs  # a class token beside the others
        if name_of(node) in ("setitem", "getitem") and node.args[0] in inputs:
            inputs = [i for i in inputs if i is node.args[0]]  # what is written into, or picked from by an index
        if name_of(node) in SCALINGS | SIGNED:  # by a statistic of its own, as a norm written out does
            inputs = [i for i in inputs if all(i is o or self._is_made_from(i, o) for o in inputs)] or inputs
        if len(inputs) != 1:
            return None
        if name_of(inputs[0]) in PIECES or (inputs[0].meta["holds_tensors"] and self._joins(inputs[0])):
            return None  # one of several pieces: its siblings are other streams
        if node.op == "call_module":
            return inputs[0] if self._is_short(self.module(node)) or self._fits(node, inputs[0]) else None
        offset = (node.target in ADDS or name_of(node) in SIGNED) and not any(
            self._is_weight(i) for i in data_inputs(node) if i not in inputs
        )
        return inputs[0] if offset or name_of(node) in CHEAP or self._is_pointwise(node) else None

    def _joins(self, node: fx.Node) -> bool:
        return node.meta.get("call") in self.joining

    def _is_made_from(self, node: fx.Node, end: fx.Node) -> bool:
        return node in self.ancestors[end] and not self._learned_between(node, end)

    def _is_pointwise(self, node: fx.Node) -> bool:
        """A projection written as an operation: `linear`, `einsum` or a 1x1 convolution with a weight."""
        given = [i for i in data_inputs(node) if not self._comes_from_input(i)]
        shapes: list[tuple[int, ...]] = [i.meta["shape"] or () for i in given]
        narrow = all(math.prod(shape[2:]) == 1 or shape[1] == 1 for shape in shapes) or "conv" not in name_of(node)
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
        return name_of(node) in RESAMPLING

    def _between(self, stream: fx.Node, end: fx.Node) -> set[fx.Node]:
        return {n for n in self.ancestors[end] if stream in self.ancestors[n]}

    def _learned_between(self, stream: fx.Node, end: fx.Node) -> bool:
        return any(self._is_learned(n) for n in self._between(stream, end) | {end} if n is not stream)

    def _is_learned(self, node: fx.Node) -> bool:
        """A child with parameters, or an operation that multiplies by a weight of the module's own."""
        if node.op == "call_module":
            module = self.module(node)
            held = any(True for _ in module.parameters()) or any(map(_stored, module.modules()))
            return not isinstance(module, nn.Embedding) and (held or _weighs(node))
        scales = name_of(node) in ("mul", "multiply")
        if name_of(node) not in WEIGHINGS and not scales:
            return False
        given = [i for i in data_inputs(node) if not self._comes_from_input(i)]
        if scales:  # by a whole table, as a filter over frequencies does
            return any(self._is_weight(i) and _is_wide(i.meta["shape"]) for i in given)
        if name_of(node).startswith(("linear", "conv")) and any(_mixes(i.meta["shape"]) for i in given):
            return True  # by whatever is handed to it: frozen weights may lie in buffers
        return any(self._is_weight(i) or self._is_one_of_a_stack(i) for i in given)

    def _is_one_of_a_stack(self, node: fx.Node) -> bool:
        """One layer's matrix, cut from a parameter that holds those of several layers."""
        whole = node
        while name_of(whole) in PIECES | {"getitem"} and len(whole.all_input_nodes) == 1:
            whole = whole.all_input_nodes[0]
        return self._is_weight(whole) and _is_wide(node.meta["shape"])

    def _is_weight(self, node: fx.Node) -> bool:
        """A parameter as it is, or reshaped; rows looked up in a table of positions are none."""
        made_from = self.ancestors[node] | {node}
        return any(a.meta.get("parameter") for a in made_from) and not any(name_of(a) in LOOKUPS for a in made_from)

    def _changes(self, shortcut: fx.Node, stream: fx.Node) -> bool:
        """Whether something between stream and shortcut is more than another view of the same numbers."""
        nodes = (self._between(stream, shortcut) | {shortcut}) - {stream}
        for node in nodes:
            if node.op == "call_module":
                module = self.module(node)
                if not all(isinstance(m, nn.Identity | nn.Sequential) for m in module.modules()):
                    return True
            elif self._is_learned(node) or "pool" in name_of(node) or "norm" in name_of(node) or self._is_scaled(node):
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
            elif name_of(node) not in STRAIGHT:
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


def operands(node: fx.Node) -> list[fx.Node]:
    """The tensor operands of a sum."""
    return [a for a in node.args if isinstance(a, fx.Node) and a.meta.get("tensor")]


def is_sum(node: fx.Node) -> bool:
    """Two tensors of one shape added up, or one taken from the other; `addcmul` adds a product."""
    known = node.target in ADDS or ("operation" in node.meta and node.target in SIGNED)
    product = name_of(node).startswith("addcmul")
    terms = operands(node)
    if not known or node.kwargs or len(terms) != 2 + product or len(node.args) != len(terms):
        return False
    shapes = {term.meta.get("shape") for term in terms[: 1 if product else 2]}
    return shapes == {node.meta.get("shape")} and bool(node.meta["shape"])  # losses are sums of single numbers


def is_picked(node: fx.Node) -> bool:
    """Whether it holds those rows of another tensor that an index or a mask made from the input tells."""
    picks = [i for i in node.all_input_nodes[1:] if i.meta.get("from_input")]
    return name_of(node) == "getitem" and bool(picks)


def data_inputs(node: fx.Node) -> list[fx.Node]:
    """The inputs that hand on numbers: tensors and tuples of them, not sizes, not flags, not models of a shape."""
    if name_of(node) in SHAPED_LIKE or name_of(node).startswith("new_") or name_of(node).endswith("_like"):
        kept = node.args[:1] if name_of(node) in SHAPED_LIKE else ()
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


def _size(node: fx.Node) -> int:
    return math.prod(node.meta["shape"] or (0,))


def name_of(node: fx.Node) -> str:
    """The name of a node's operation; none for the call of a module."""
    if node.op == "call_module":
        return ""
    return str(node.target if isinstance(node.target, str) else getattr(node.target, "__name__", ""))


def _weights(module: nn.Module) -> list[torch.Tensor]:
    """The weights of linear layers and convolutions inside, and what else has two axes that are not 1."""
    found: list[torch.Tensor] = []
    for part in module.modules():
        for parameter in part.parameters(recurse=False):
            if _is_wide(parameter.shape) or (isinstance(part, nn.Linear | _ConvNd) and parameter.ndim > 1):
                found.append(parameter)
        found += _stored(part)
    return found


def _stored(part: nn.Module) -> list[torch.Tensor]:
    """Weights of a module that are no parameters: buffers called so, or packed as quantised layers have them."""
    if isinstance(getattr(type(part), "weight", None), FunctionType):
        return [part.weight()]  # type: ignore[operator]
    return [b for name, b in part._buffers.items() if b is not None and "weight" in name and _is_wide(b.shape)]


def _weighs(node: fx.Node) -> bool:
    """Whether the call of a module multiplies by a matrix that does not come from the input, as a buffer may hold.

    Only a run that was observed knows what happens inside a call; a traced one has no record of it.
    """
    call = node.meta.get("call")
    layers = (one for one in call.inside() if one.name.startswith(("linear", "conv"))) if call is not None else ()
    return any(_mixes(value.shape) and not value.from_input for one in layers for value in one.inputs)


def _mixes(shape: tuple[int, ...] | None) -> bool:
    """Whether it is the shape of a matrix or a kernel that mixes channels, as no blur does."""
    return _is_wide(shape) and len(shape or ()) > 1 and (shape or (0, 0))[1] > 1


def _is_wide(shape: tuple[int, ...] | None) -> bool:
    return sum(size > 1 for size in shape or ()) > 1


def _resamples(module: nn.Module) -> bool:
    names: list[Any] = [type(m).__name__.lower() for m in module.modules()]
    return any("upsample" in name or "interpolate" in name for name in names)
