"""Read features at every place while a network runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from winze.modes import unchanged
from winze.observe.places.find_places import Spot
from winze.observe.places.pooling import Pool

Take = Callable[[int, Tensor], None]


@contextmanager
def recording(net: nn.Module, spots: Sequence[Spot], take: Take, pool: Pool = "mean") -> Iterator[None]:
    """While open, each forward in eval mode hands `take(index, features)` one matrix per place, inside the hook.

    Features are reduced on the spot, before an in-place operation can overwrite them. Afterwards the hooks are gone and
    the network is as before.
    """
    before: dict[nn.Module, list[Spot]] = {}
    after: dict[nn.Module, list[Spot]] = {}
    for spot in spots:
        (before if spot.before else after).setdefault(spot.module, []).append(spot)
    calls: dict[tuple[nn.Module, bool], int] = {}

    def begin(module: nn.Module, args: Any) -> None:
        calls.clear()

    def read(here: Sequence[Spot], module: nn.Module, tensors: Any) -> None:
        key = module, here[0].before
        calls[key] = calls.get(key, -1) + 1
        for spot in here:
            if spot.call == calls[key]:
                take(spot.place.index, spot.features(tensors, pool))

    def enter(module: nn.Module, args: Any, kwargs: Any) -> None:
        read(before[module], module, (args, kwargs))

    def leave(module: nn.Module, args: Any, output: Any) -> None:
        read(after[module], module, output)

    handles = [net.register_forward_pre_hook(begin)]
    handles += [module.register_forward_pre_hook(enter, with_kwargs=True) for module in before]
    handles += [module.register_forward_hook(leave) for module in after]
    try:
        with torch.no_grad(), unchanged(net, training=False):
            yield
    finally:
        for handle in handles:
            handle.remove()
