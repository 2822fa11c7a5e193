"""The part of a network before its tunnel, as the names of its weights."""

from __future__ import annotations

from typing import Any

from torch import nn

from winze.networks import unwrapped
from winze.observe.cut.truncate import truncate
from winze.observe.result import Scan
from winze.place import Place


def extractor(
    net: nn.Module,
    scan: Scan,
    at: str | int | Place | None = None,
    *,
    threshold: float = 0.95,
    example: Any = None,
    force: bool = False,
) -> list[str]:
    """The names of the weights that a network uses up to a place; by default, up to the start of its tunnel.

    In continual learning these are the ones to freeze or to regularise (Masarczyk et al., 2023, arXiv 2305.19753):

        for name in winze.extractor(net, scan):
            net.get_parameter(name).requires_grad_(False)

    Batch norms among them still update their statistics in train mode: put those modules in eval mode.
    `at`, `threshold`, `example` and `force` are as in `truncate`; the scan must be of this network in its present
    state.
    """
    net = unwrapped(net)
    options: dict[str, Any] = {"threshold": threshold, "example": example, "force": force}
    kept = truncate(net, scan, at, None, measure=False, copy=False, **options)
    own = {id(weight) for weight in kept.parameters()}
    return [name for name, weight in net.named_parameters() if id(weight) in own]
