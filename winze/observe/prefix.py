"""The front part of a network: everything up to one call of one module, and nothing behind it.

The way down to the module is cut level by level, as junctions are found: the graph of each forward on the way ends at
the child that holds the place, and that child is cut in turn. What is not needed is not kept.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from winze.observe.places import Spot
from winze.shape.capture.example import Example
from winze.shape.junction import Junction
from winze.shape.capture.survey import Record, Survey, survey, where
from winze.shape.capture.traced import PLAIN


class CutError(RuntimeError):
    """A network that cannot be cut at a place."""


class Prefix(nn.Module):
    """A forward up to one of its children's calls, as a module that takes the same arguments."""

    def __init__(self, body: fx.GraphModule) -> None:
        super().__init__()
        self.body = body

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        leaves = pytree.tree_leaves((args, kwargs))
        return self.body(*(leaf for leaf in leaves if not isinstance(leaf, PLAIN)))


def prefix(net: nn.Module, spot: Spot, example: Example) -> nn.Module:
    """The network up to a place; what it returns is the place's output."""
    names = {module: name for name, module in net.named_modules()}
    path = names[spot.module]
    if not path:
        return net
    return _cut(net, path, spot, survey(net, example, training=False))


def _cut(module: nn.Module, path: str, spot: Spot, seen: Survey) -> nn.Module:
    if not path:
        return module
    if isinstance(module, nn.Sequential):
        return _cut_sequence(module, path, spot, seen)
    if isinstance(module, Junction):  # its branch and its shortcut take what it takes; subclasses add what follows
        name, _, rest = path.partition(".")
        return _cut(module.get_submodule(name), rest, spot, seen)
    record = seen.records.get(module)
    if record is None or record.reason or not len(record.graph.nodes):
        raise CutError(
            f"{where(module)} cannot be cut: its forward could not be read. {record.reason if record else ''}"
        )
    target = _calls(record, path, module)
    rest = path[len(str(target.target)) :].removeprefix(".")
    child = _cut(module.get_submodule(str(target.target)), rest, spot, seen)
    return Prefix(_ended(module, record, target, child))


def _cut_sequence(module: nn.Sequential, path: str, spot: Spot, seen: Survey) -> nn.Module:
    name, _, rest = path.partition(".")
    kept = nn.Sequential()
    for own, child in module.named_children():
        kept.add_module(own, _cut(child, rest, spot, seen) if own == name else child)
        if own == name:
            break
    return kept


def _calls(record: Record, path: str, module: nn.Module) -> fx.Node:
    """The node that calls the child on the way to the place."""
    nodes = [n for n in record.graph.nodes if n.op == "call_module" and f"{path}.".startswith(f"{n.target}.")]
    if not nodes:
        raise CutError(f"{where(module)} does not call {path!r} as a child: the network cannot be cut there")
    return max(nodes, key=lambda n: len(str(n.target)))


def _ended(module: nn.Module, record: Record, target: fx.Node, child: nn.Module) -> fx.GraphModule:
    """The forward's graph with `target` as its output, on the modules and tensors that it still needs."""
    graph = fx.Graph()
    copied: dict[fx.Node, fx.Node] = {}
    root: dict[str, Any] = {}
    for node in record.graph.nodes:
        if node.op == "placeholder" and node.name == "constants":
            continue
        if _is_constant(node):
            name = f"constant_{node.args[1]}"
            root[name] = record.constants[node.args[1]]
            copied[node] = graph.get_attr(name)
        elif node.op != "output" and node.target is not torch._assert:
            copied[node] = graph.node_copy(node, copied.__getitem__)
        if node is target:
            break
    graph.output(copied[target])
    for node in reversed(list(graph.nodes)):
        if not node.users and node.op not in ("placeholder", "output"):
            graph.erase_node(node)
    for node in graph.nodes:
        if node.op == "call_module":
            root[str(node.target)] = child if node is copied[target] else module.get_submodule(str(node.target))
        elif node.op == "get_attr" and str(node.target) not in root:
            root[str(node.target)] = _tensor(module, str(node.target))
    return fx.GraphModule(root, graph, f"{type(module).__name__}Prefix")


def _is_constant(node: fx.Node) -> bool:
    first = node.args[0] if node.args else None
    return node.op == "call_function" and isinstance(first, fx.Node) and first.name == "constants"


def _tensor(module: nn.Module, path: str) -> Tensor:
    owner, _, name = path.rpartition(".")
    return getattr(module.get_submodule(owner), name)  # type: ignore[no-any-return,unused-ignore]
