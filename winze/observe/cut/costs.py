"""What a network costs: parameters, operations, and measured time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from winze.modes import unchanged
from winze.progress import Track, plainly
from winze.readings.wording import speed_up
from winze.shape.sums.example import Example

SAMPLES = 32
"""Samples on which a scan and `truncate` time cuts: speed-ups depend on their number."""
ENOUGH = 1.0
"""Seconds for which fast networks are timed."""


@dataclass(frozen=True)
class Cost:
    """Parameters, floating-point operations of one batch, and the seconds of each of its runs.

    Other load on a machine only ever slows a run down: `seconds` is the fastest run, and `high` the 95th percentile.
    """

    parameters: int
    flops: int
    times: tuple[float, ...]

    @property
    def seconds(self) -> float:
        """The fastest run."""
        return min(self.times)

    @property
    def high(self) -> float:
        """The 95th percentile of the runs."""
        return float(np.quantile(self.times, 0.95))


@dataclass(frozen=True)
class SpeedUp:
    """How many times faster one network is than another; in 90 % of the rounds it was between `low` and `high`."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, whole: Cost, part: Cost) -> SpeedUp:
        """The fastest runs compared; the interval is of rounds in which one ran after the other."""
        value = whole.seconds / part.seconds
        low, high = np.quantile(np.divide(whole.times, part.times), (0.05, 0.95))
        return cls(value, min(value, float(low)), max(value, float(high)))

    def __str__(self) -> str:
        return speed_up(self.value, self.low, self.high)


Round = Callable[[Example], list[float]]


@torch.no_grad()
def costs(
    nets: Sequence[nn.Module],
    given: Any,
    one_round: Round | None = None,
    track: Track = plainly,
    count: Callable[[Example], list[int]] | None = None,
) -> list[Cost]:
    """Measure networks, which may share modules, in eval mode on one batch; they and the RNG are not changed.

    They run in turns, so that temporary load affects all of them alike: for one second and at least seven rounds, or
    three rounds if those take more than four seconds. Operations are counted on two samples. `one_round` times all of
    them at once, and `count` counts their operations, where there is a faster way than to run each.
    """
    whole = Example(given)
    few = whole.with_batch(min(2, whole.batch))
    timed = one_round or (lambda example: [_seconds(net, example.args, example.kwargs) for net in nets])
    with unchanged(*nets, training=False):
        found = count(few) if count is not None else [_flops(net, few.args, few.kwargs) for net in nets]
        counted = [flops * whole.batch // few.batch for flops in found]
        rounds = list(track(_rounds(lambda: timed(whole)), "timing", 0))
    sizes = [sum(p.numel() for p in net.parameters()) for net in nets]
    return [Cost(*each) for each in zip(sizes, counted, zip(*rounds, strict=True), strict=True)]


def _rounds(run: Callable[[], list[float]]) -> Iterator[list[float]]:
    """The times of each round, after one warm-up round."""
    run()
    begun, count = time.perf_counter(), 0
    while count < 3 or (count < 7 and time.perf_counter() < begun + 4) or time.perf_counter() < begun + ENOUGH:
        yield run()
        count += 1


class Operations(FlopCounterMode):
    """Operations of a whole network: torch tracks modules by gradient hooks, which fail in some networks."""

    def __init__(self) -> None:
        super().__init__(display=False)
        self.mod_tracker = _NoModules()  # type: ignore[assignment]


class _NoModules(nullcontext[None]):
    parents = frozenset({"Global"})


def _flops(net: nn.Module, args: Any, kwargs: Any) -> int:
    with Operations() as counter:
        net(*args, **kwargs)
    return counter.get_total_flops()


def _seconds(net: nn.Module, args: Any, kwargs: Any) -> float:
    start = now(net)
    net(*args, **kwargs)
    return now(net) - start


def now(net: nn.Module) -> float:
    """The time in seconds, after the network's device has finished all queued work."""
    if torch.cuda.is_initialized() and any(p.is_cuda for p in net.parameters()):
        torch.cuda.synchronize()
    return time.perf_counter()
