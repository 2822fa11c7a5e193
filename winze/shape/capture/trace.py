"""Write down what one forward does, while it runs, with the module's children as leaves.

A module's own `forward` is run on real tensors wrapped in `Traced` values. Each operation is carried out at once and
also written into a `torch.fx` graph, so that control flow on shapes, tuples from children and integer arithmetic just
work: the real value is at hand. Whenever the code turns a size into a plain number or a truth value, the trace is
*bound* to the shapes it saw and says so.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.fx.proxy import TracerBase
from torch.utils import _pytree as pytree

from winze.shape.capture.patches import is_recording, pause, recording
from winze.shape.capture.traced import PLAIN, Traced, plain, tensor_leaves, version
from winze.shape.capture.watched import Functions, noting


class UntraceableError(Exception):
    """This forward does something that cannot be written down as a graph."""


@dataclass(eq=False)
class Recorder(TracerBase):
    """The graph of one call of one module, growing as the call goes on."""

    root: nn.Module
    graph: fx.Graph = field(default_factory=fx.Graph)
    bound: dict[str, Any] = field(default_factory=dict)
    constants: list[Any] = field(default_factory=list)
    contexts: set[str] = field(default_factory=set)
    inlined: frozenset[nn.Module] = frozenset()
    functions: Functions = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.module_stack: Any = None
        self.record_stack_traces = False
        self.scope = fx.proxy.Scope("", None)
        self.node_name_to_scope: dict[str, Any] = {}
        self.paths = {id(module): name for name, module in self.root.named_modules()}
        self.tensors = _tensors_by_identity(self.root)
        self.constants_node = self.graph.placeholder("constants")

    def record(self, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Run `forward`, fill the graph, and give back the plain result."""
        leaves, spec = pytree.tree_flatten((args, kwargs))
        first: dict[int, Traced] = {}  # a tensor that is handed in twice is one stream
        wrapped: list[Any] = []
        for i, leaf in enumerate(leaves):
            made: Any = leaf if isinstance(leaf, PLAIN) else self._placeholder(i, leaf)
            wrapped.append(first.setdefault(id(leaf), made) if isinstance(leaf, Tensor) else made)
        new_args, new_kwargs = pytree.tree_unflatten(wrapped, spec)
        with recording(self), noting(self.functions, is_recording):
            result = forward(*new_args, **new_kwargs)
        self.graph.output(self.create_arg(result))
        return plain(result)

    def _placeholder(self, i: int, value: Any) -> Traced:
        return self._traced(self.graph.placeholder(f"arg_{i}"), value)

    def _traced(self, node: fx.Node, value: Any) -> Traced:
        node.meta["tensor"] = isinstance(value, Tensor)
        node.meta["shape"] = tuple(value.shape) if isinstance(value, Tensor) else None
        node.meta["holds_tensors"] = isinstance(value, list | tuple | dict) and bool(tensor_leaves(value))
        return Traced(node, self, value)

    def create_proxy(self, kind: str, target: Any, args: Any, kwargs: Any, *_: Any, **__: Any) -> Any:
        with pause():
            node = self.create_node(kind, target, self.create_arg(args), self.create_arg(kwargs))
            leaves, spec = pytree.tree_flatten((args, kwargs))
            values = [leaf.value if type(leaf) is Traced else leaf for leaf in leaves]
            before = {id(t): t._version for t in tensor_leaves(values)}
            if node.name == "self":
                node._rename("own")  # else it would hide the module in the code made from the graph
            value = self._run(kind, target, *pytree.tree_unflatten(values, spec))
            traced_ones = (leaf for leaf in leaves if type(leaf) is Traced)
            touched = [t for t in traced_ones if version(t.value) != before.get(id(t.value))]
        node.meta["mutates"] = [t.node for t in touched]
        for traced in touched:
            if traced.value is not value:
                raise UntraceableError(f"{target} changes a tensor in place and returns another")
            traced.node = node
        return self._traced(node, value)

    def _run(self, kind: str, target: Any, args: Any, kwargs: Any) -> Any:
        if kind == "call_function":
            return target(*args, **kwargs)
        if kind == "call_method":
            return getattr(args[0], target)(*args[1:], **kwargs)
        if kind == "call_module":
            return self.root.get_submodule(target)(*args, **kwargs)
        raise UntraceableError(f"an operation of kind {kind}")

    def create_arg(self, a: Any) -> Any:
        if isinstance(a, Tensor):
            return self._tensor_node(a)
        if isinstance(a, torch.Size):
            a = tuple(a)
        names = getattr(a, "__dataclass_fields__", None)
        if isinstance(a, dict) and names:  # as Hugging Face's outputs are; fx would make a plain dict of it
            given = {name: self.create_arg(a[name]) for name in names if name in a}
            node = self.create_node("call_function", type(a), (), given)
            node.meta.update(tensor=False, shape=None, holds_tensors=True)
            return node
        try:
            return super().create_arg(a)
        except NotImplementedError:
            # an object of the network's own, such as a cache: sums around it can be found, but no plan may keep it
            self.contexts.add(f"a {type(a).__name__} that cannot be written down")
            return self._constant(a)

    def _tensor_node(self, tensor: Tensor) -> fx.Node:
        if id(tensor) not in self.tensors:
            self.tensors = _tensors_by_identity(self.root)  # the forward may have just put it on the module
        path = self.tensors.get(id(tensor))
        if path is not None:
            node = self.graph.get_attr(path)
            node.meta["parameter"] = isinstance(tensor, nn.Parameter)
        else:
            node = self._constant(tensor)
        node.meta["tensor"], node.meta["shape"] = True, tuple(tensor.shape)
        return node

    def _constant(self, value: Any) -> fx.Node:
        self.constants.append(value)
        return self.graph.call_function(operator.getitem, (self.constants_node, len(self.constants) - 1))

    def call_module(self, module: nn.Module, args: Any, kwargs: Any) -> Any:
        path = self.paths.get(id(module))
        if path is None:
            raise UntraceableError(f"it calls a {type(module).__name__} that is not one of its children")
        if module in self.inlined:
            if hooked(module):
                raise UntraceableError(f"a hook on {path!r} would not fire, for the sum is made in there")
            return module.forward(*args, **kwargs)
        return self.create_proxy("call_module", path, args, kwargs)

    def attribute(self, tensor: Tensor) -> Any:
        path = self.tensors.get(id(tensor))
        return tensor if path is None else self._traced(self._tensor_node(tensor), tensor)

    def bind(self, traced: Traced) -> Any:
        """The plain number behind a size; the graph now holds for these shapes only."""
        if isinstance(traced.value, Tensor) or traced.node.target == "item":
            raise UntraceableError("its control flow depends on the values in a tensor")
        self.bound[traced.node.name] = traced.value
        return traced.value


def hooked(module: nn.Module) -> bool:
    """Whether a call of a module does more than run its forward."""
    own = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(map(len, own))


def _tensors_by_identity(root: nn.Module) -> dict[int, str]:
    """Names of every tensor that hangs on the module: parameters, buffers, and plain attributes."""
    found: dict[int, str] = {}
    for path, module in root.named_modules():
        own = {**module._parameters, **module._buffers, **vars(module)}
        for name, value in own.items():
            if isinstance(value, Tensor):
                found.setdefault(id(value), f"{path}.{name}" if path else name)
    return found


def where_it_failed(error: BaseException, forward: Callable[..., Any]) -> str:
    """`file:line` of the last line of the network's own source that an error passed through."""
    own = getattr(getattr(forward, "__code__", None), "co_filename", None)
    at, trace = "", error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name == own or (not at and "site-packages/torch/" not in name and name != __file__):
            at = f"{name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return at or f"{sys.argv[0]}"
