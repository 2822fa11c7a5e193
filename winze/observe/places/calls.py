"""The module calls of a network, in the order in which they finish."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from winze.shape.sums.example import Example

TensorIds = tuple[tuple[int, tuple[int, ...]], ...]
"""Tensors by identity and shape."""


@dataclass(frozen=True)
class Event:
    """One call of one module in the example run: its inputs, outputs and index. `begun` is the number of calls that had
    finished when it started.
    """

    name: str
    module: nn.Module
    call: int
    given: TensorIds
    outputs: TensorIds
    begun: int

    @property
    def inputs(self) -> tuple[int, ...]:
        """The identities of its inputs."""
        return tuple(identity for identity, _ in self.given)


def events_of(net: nn.Module, example: Example, only: set[nn.Module] | None = None) -> list[Event]:
    """Every call of every module, or of some, in one run, in the order in which they finish."""
    names = {module: name for name, module in net.named_modules()}
    events: list[Event] = []
    calls: dict[nn.Module, int] = {}
    begun: dict[nn.Module, list[int]] = {}
    keep: list[Any] = []

    def begin(module: nn.Module, args: Any) -> None:
        begun.setdefault(module, []).append(len(events))

    def hook(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        ins, outs = tensors_of((args, kwargs)), tensors_of(output)
        keep.extend(ins + outs)  # so that no identity is reused
        call = calls[module] = calls.get(module, -1) + 1
        given, outputs = (tuple((id(t), tuple(t.shape)) for t in each) for each in (ins, outs))
        events.append(Event(names[module], module, call, given, outputs, begun[module].pop()))

    watched = [module for module in names if only is None or module in only]
    handles = [module.register_forward_pre_hook(begin) for module in watched]
    handles += [module.register_forward_hook(hook, with_kwargs=True) for module in watched]
    try:
        with torch.no_grad():
            net(*example.args, **example.kwargs)
    finally:
        for handle in handles:
            handle.remove()
    return events


def tensors_of(tree: Any) -> list[Tensor]:
    """The tensors in arguments or in an output, in order."""
    return [leaf for leaf in torch.utils._pytree.tree_leaves(tree) if isinstance(leaf, Tensor)]
