"""One module call of a recorded run as a graph, in which residual sums are looked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import fx

from winze.shape.sums.dataflow import Call, Operation, TensorValue


def graph_of(call: Call, expanded: Callable[[Call], bool] = lambda call: False) -> fx.Graph:
    """One module call as a graph: its own operations, and its children as leaves, but for those to be expanded.

    Nodes carry `tensor`, `shape`, `tick`, `parameter`, `from_input` and, for operations, `operation` in their `meta`.
    """
    return _Builder(call, expanded).graph


class _Builder:
    def __init__(self, root: Call, expanded: Callable[[Call], bool]) -> None:
        self.graph, self.expanded = fx.Graph(), expanded
        self.paths = {id(module): name for name, module in root.module.named_modules()}
        self.nodes: dict[TensorValue, fx.Node] = {}
        self._items(root, 0)
        ends = [self._node(value) for value in root.outputs]
        self.graph.output(tuple(ends))

    def _items(self, call: Call, depth: int) -> None:
        for item in call.items:
            if isinstance(item, Operation):
                self._operation(item, depth)
            elif self.expanded(item):
                self._items(item, depth + 1)
            else:
                self._leaf(item)

    def _operation(self, operation: Operation, depth: int) -> None:
        inputs = tuple(self._node(value) for value in operation.inputs)
        node = self.graph.create_node("call_method", operation.name, inputs, name=operation.name)
        self._give(node, operation.outputs, operation.tick)
        node.meta.update(operation=operation, inlined=depth > 0)

    def _leaf(self, call: Call) -> None:
        path = self.paths.get(id(call.module))
        own = list(call.inside())
        made = {value for operation in own for value in operation.outputs}
        taken = dict.fromkeys(v for operation in own for v in operation.inputs if v not in made and v.path is None)
        inputs = tuple(self._node(value) for value in taken)
        handed = [value for value in made if value in call.outputs] or list(made)
        if not handed:
            return
        ordered = [v for v in call.outputs if v in made] or handed
        target = path if path is not None else "stranger"
        node = self.graph.create_node("call_module", target, inputs)
        self._give(node, list(dict.fromkeys(ordered)), call.tick)
        weights = any(True for _ in call.module.parameters())
        given = [self.nodes.get(value) for value in call.given]
        node.meta.update(module=call.module, call=call, given=given, inlined=False)
        node.meta["parameter"] = weights and not taken
        for value in made:
            self.nodes.setdefault(value, node)

    def _give(self, node: fx.Node, outputs: list[TensorValue], tick: int) -> None:
        node.meta.update(tick=tick, parameter=False, tensor=len(outputs) == 1, holds_tensors=len(outputs) > 1)
        node.meta["shape"] = outputs[0].shape if len(outputs) == 1 else None
        node.meta["from_input"] = any(value.from_input for value in outputs)
        if len(outputs) == 1:
            self.nodes[outputs[0]] = node
            return
        for index, value in enumerate(outputs):
            part = self.graph.create_node("call_method", "getitem", (node, index))
            part.meta.update(tick=tick, tensor=True, holds_tensors=False, shape=value.shape)
            part.meta.update(parameter=False, from_input=value.from_input, inlined=False)
            self.nodes[value] = part

    def _node(self, value: TensorValue) -> fx.Node:
        found = self.nodes.get(value)
        if found is None:
            kind, name = ("get_attr", value.path) if value.path else ("placeholder", "given")
            first = next(iter(self.graph.nodes), None)
            with self.graph.inserting_before(first) if first is not None else _nothing():
                found = self.graph.create_node(kind, str(name).replace(".", "_"))
            found.meta.update(tick=-1, tensor=True, holds_tensors=False, shape=value.shape, inlined=False)
            found.meta.update(parameter=value.parameter, from_input=value.from_input, value=value)
            self.nodes[value] = found
        return found


@contextmanager
def _nothing() -> Iterator[None]:
    yield
