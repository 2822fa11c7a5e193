"""Read features at every place while a network runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from winze.modes import unchanged
from winze.observe.features import Pool
from winze.observe.places import Spot

Take = Callable[[int, Tensor], None]


@contextmanager
def recording(net: nn.Module, spots: Sequence[Spot], take: Take, pool: Pool = "mean") -> Iterator[None]:
    """While open, each forward in eval mode hands `take(index, features)` one matrix a place, inside the hook.

    Features are reduced on the spot, before an in-place operation can overwrite them. Afterwards the hooks are gone and
    the network is as before.
    """
    by_module: dict[nn.Module, list[Spot]] = {}
    for spot in spots:
        by_module.setdefault(spot.module, []).append(spot)
    calls: dict[nn.Module, int] = {}

    def begin(module: nn.Module, args: Any) -> None:
        if module is net:
            calls.clear()

    def hook(module: nn.Module, args: Any, output: Any) -> None:
        call = calls[module] = calls.get(module, -1) + 1
        for spot in by_module[module]:
            if spot.call == call:
                take(spot.place.index, spot.features(output, pool))

    handles = [net.register_forward_pre_hook(begin)]
    handles += [module.register_forward_hook(hook) for module in by_module]
    try:
        with torch.no_grad(), unchanged(net, training=False):
            yield
    finally:
        for handle in handles:
            handle.remove()
