"""A value on its way through a forward, with the node of the graph that made it."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from winze.shape.capture.trace import Recorder

PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.layout, type(...))
"""Types that are written into a graph as they are."""


class Traced(fx.Proxy):
    """A value on its way through a forward: the real thing, and the node that made it."""

    def __init__(self, node: fx.Node, tracer: Recorder, value: Any) -> None:
        super().__init__(node, tracer)
        self.value = value

    def __getattr__(self, name: str) -> Any:
        tracer: Recorder = self.tracer  # type: ignore[assignment]
        found = getattr(self.value, name)
        if callable(found) and not isinstance(found, nn.Module):
            return lambda *args, **kwargs: tracer.create_proxy("call_method", name, (self, *args), kwargs)
        if isinstance(found, bool):
            return found
        return tracer.create_proxy("call_function", getattr, (self, name), {})

    def __bool__(self) -> bool:
        return bool(self._bind())

    def __int__(self) -> int:
        return int(self._bind())

    def __index__(self) -> int:
        return operator.index(self._bind())

    def __float__(self) -> float:
        return float(self._bind())

    def __round__(self, digits: int | None = None) -> Any:
        return round(self._bind(), digits)

    def __len__(self) -> int:
        return len(self._bind() if isinstance(self.value, Tensor) else self.value)

    def __contains__(self, item: Any) -> bool:
        return item in self._bind()

    def __iter__(self) -> Iterator[Any]:
        if isinstance(self.value, dict):
            return iter(self.value)
        return (self.tracer.create_proxy("call_function", operator.getitem, (self, i), {}) for i in range(len(self)))

    def __setitem__(self, item: Any, value: Any) -> None:
        self.tracer.create_proxy("call_function", set_item, (self, item, value), {})

    def keys(self) -> Any:
        return self.value.keys()

    def _bind(self) -> Any:
        tracer: Recorder = self.tracer  # type: ignore[assignment]
        return tracer.bind(self)


def set_item(target: Any, item: Any, value: Any) -> Any:
    """`target[item] = value`, as an expression."""
    target[item] = value
    return target


def plain(tree: Any) -> Any:
    """The real values in the place of traced ones."""
    return pytree.tree_map(lambda leaf: leaf.value if type(leaf) is Traced else leaf, tree)


def traced_leaves(tree: Any) -> list[Traced]:
    """The traced values in a tree."""
    return [leaf for leaf in pytree.tree_leaves(tree) if type(leaf) is Traced]


def version(value: Any) -> int | None:
    """How often a tensor has been changed in place."""
    return value._version if isinstance(value, Tensor) and not value.is_inference() else None


def tensor_leaves(tree: Any) -> list[Tensor]:
    """The real tensors in a tree."""
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, Tensor) and not leaf.is_inference()]
