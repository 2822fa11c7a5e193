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
from winze.shape.capture.example import Example

SAMPLES = 32
"""Samples on which cuts are timed, by a scan and by `truncate` alike: speed-ups depend on how many there are."""
ENOUGH = 1.0
"""Seconds for which quick networks run."""


@dataclass(frozen=True)
class Cost:
    """Parameters, floating-point operations of one batch, and the seconds of each of its runs.

    Whatever else a machine does makes a run slower, never faster: `seconds` is the fastest run, and 95 % of the runs
    took no longer than `high`.
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
        """What 95 % of the runs did not exceed."""
        return float(np.quantile(self.times, 0.95))


@dataclass(frozen=True)
class SpeedUp:
    """How many times faster a network is than another; in 90 % of the rounds it was between `low` and `high`."""

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
    """Measure networks, which may share modules, in eval mode on one batch; they and the RNG are left as they were.

    They run in turns, so that what slows a machine down for a while slows down all of them alike: for a second, and
    seven rounds at least, which four seconds cut down to three. Operations are counted on two samples. `one_round`
    times all of them at once, and `count` counts their operations, where there is a quicker way than to run each.
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
    """The times of each round, after one that warms up."""
    run()
    begun, count = time.perf_counter(), 0
    while count < 3 or (count < 7 and time.perf_counter() < begun + 4) or time.perf_counter() < begun + ENOUGH:
        yield run()
        count += 1


class Operations(FlopCounterMode):
    """Operations of a whole network: torch follows its modules by hooks for gradients, which some networks break."""

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
    """The time in seconds, once everything that a network's device has been given is done."""
    if torch.cuda.is_initialized() and any(p.is_cuda for p in net.parameters()):
        torch.cuda.synchronize()
    return time.perf_counter()
