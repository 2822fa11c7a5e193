"""What a network costs: parameters, operations, and measured time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

SAMPLES = 32
"""Samples on which cuts are timed, by a scan and by `truncate` alike: speed-ups depend on how many there are."""


@dataclass(frozen=True)
class Cost:
    """Parameters, floating-point operations of one batch, and the seconds of its fastest run.

    Whatever else a machine does makes a run slower, never faster: the fastest says most of the network.
    """

    parameters: int
    flops: int
    seconds: float


@torch.no_grad()
def costs(nets: Sequence[nn.Module], given: Any) -> list[Cost]:
    """Measure networks, which may share modules, in eval mode on one batch.

    They run in turns, so that what slows a machine down for a while slows down all of them alike: for a second, and
    seven rounds at least, which ten seconds cut down to three.
    """
    args, kwargs = ((), given) if isinstance(given, dict) else (tuple(given), {})
    modes = {module: module.training for net in nets for module in net.modules()}
    try:
        for net in nets:
            net.eval()
        counted = [_flops(net, args, kwargs) for net in nets]
        times = list(_rounds(lambda: [_seconds(net, args, kwargs) for net in nets]))
    finally:
        for module, mode in modes.items():
            module.training = mode
    fastest = map(min, zip(*times, strict=True))
    sizes = [sum(p.numel() for p in net.parameters()) for net in nets]
    return [Cost(*each) for each in zip(sizes, counted, fastest, strict=True)]


def _rounds(run: Callable[[], list[float]]) -> Iterator[list[float]]:
    """The times of each round, after one that warms up."""
    run()
    begun, count = time.perf_counter(), 0
    while count < 3 or (count < 7 and time.perf_counter() < begun + 10) or time.perf_counter() < begun + 1:
        yield run()
        count += 1


def _flops(net: nn.Module, args: Any, kwargs: Any) -> int:
    with FlopCounterMode(display=False) as counter:
        net(*args, **kwargs)
    return counter.get_total_flops()


def _seconds(net: nn.Module, args: Any, kwargs: Any) -> float:
    on_gpu = any(p.is_cuda for p in net.parameters())
    if on_gpu:
        torch.cuda.synchronize()
    start = time.perf_counter()
    net(*args, **kwargs)
    if on_gpu:
        torch.cuda.synchronize()
    return time.perf_counter() - start
