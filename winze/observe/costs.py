"""What a network costs: parameters, operations, and measured time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode


@dataclass(frozen=True)
class Cost:
    """Parameters, floating-point operations of one batch, and the seconds of its fastest run.

    Whatever else a machine does makes a run slower, never faster: the fastest says most of the network.
    """

    parameters: int
    flops: int
    seconds: float


@torch.no_grad()
def cost(net: nn.Module, given: Any, repeats: int = 7) -> Cost:
    """Measure a network in eval mode on one batch."""
    args, kwargs = ((), given) if isinstance(given, dict) else (tuple(given), {})
    modes = [(module, module.training) for module in net.modules()]
    net.eval()
    try:
        with FlopCounterMode(display=False) as counter:
            net(*args, **kwargs)
        times = [_seconds(net, args, kwargs) for _ in range(repeats + 2)][2:]
    finally:
        for module, mode in modes:
            module.training = mode
    return Cost(sum(p.numel() for p in net.parameters()), counter.get_total_flops(), min(times))


def _seconds(net: nn.Module, args: Any, kwargs: Any) -> float:
    on_gpu = any(p.is_cuda for p in net.parameters())
    if on_gpu:
        torch.cuda.synchronize()
    start = time.perf_counter()
    net(*args, **kwargs)
    if on_gpu:
        torch.cuda.synchronize()
    return time.perf_counter() - start
