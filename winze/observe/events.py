"""What a network calls on the way, in the order in which the calls finish."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from winze.shape.capture.example import Example


@dataclass(frozen=True)
class Event:
    """One call of one module in the example run: what went in, what came out, and its number."""

    name: str
    module: nn.Module
    call: int
    inputs: tuple[int, ...]
    outputs: tuple[tuple[int, tuple[int, ...]], ...]
    depth: int


def events_of(net: nn.Module, example: Example, only: set[nn.Module] | None = None) -> list[Event]:
    """Every call of every module, or of some, in one run, in the order in which they finish."""
    names = {module: name for name, module in net.named_modules()}
    events: list[Event] = []
    calls: dict[nn.Module, int] = {}
    keep: list[Any] = []

    def hook(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        ins = [t for t in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        outs = [t for t in torch.utils._pytree.tree_leaves(output) if isinstance(t, Tensor)]
        keep.extend(ins + outs)  # so that no identity is given twice
        call = calls[module] = calls.get(module, -1) + 1
        outputs = tuple((id(t), tuple(t.shape)) for t in outs)
        events.append(Event(names[module], module, call, tuple(map(id, ins)), outputs, names[module].count(".")))

    handles = [m.register_forward_hook(hook, with_kwargs=True) for m in names if only is None or m in only]
    try:
        with torch.no_grad():
            net(*example.args, **example.kwargs)
    finally:
        for handle in handles:
            handle.remove()
    return events
