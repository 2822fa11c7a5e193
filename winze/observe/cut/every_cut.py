"""The costs and savings of a cut after each place of a network."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import nan
from typing import Any

from torch import nn

from winze.networks import unwrapped
from winze.observe.cut.costs import Operations, SpeedUp, costs, now
from winze.observe.cut.prefix import CutError, Stop, uses
from winze.observe.cut.truncate import Truncated, called, cut_at
from winze.observe.result import Scan
from winze.place import Place
from winze.progress import Track, plainly
from winze.shape.sums.example import Example


@dataclass
class Stamp(Stop):
    """A hook that stores when a network reaches the place of a cut, and how long the cut's head takes.

    A cut runs the network's own forward up to its place: one run of the whole network times all of its cuts.
    """

    head: nn.Module = field(default_factory=nn.Identity)
    clock: Clock | None = None
    seconds: float = nan

    def __call__(self, module: nn.Module, args: Any, output: Any) -> None:
        clock = self.clock
        if clock is not None and self.seen == self.call:
            reached = now(clock.net)
            self.head(output)
            taken = now(clock.net) - reached
            self.seconds = reached - clock.begun + taken
            clock.begun += taken  # heads are no part of the whole network
        self.seen += 1


@dataclass
class Clock:
    """Times one run of a network and of all its cuts."""

    net: nn.Module
    stamps: list[Stamp]
    begun: float = 0.0

    def __call__(self, example: Example) -> list[float]:
        """Seconds of the whole network and of each cut."""
        for stamp in self.stamps:
            stamp.seen, stamp.seconds, stamp.clock = 0, nan, self
        self.begun = now(self.net)
        self.net(*example.args, **example.kwargs)
        return [now(self.net) - self.begun, *(stamp.seconds for stamp in self.stamps)]


@dataclass
class Tally(Stop):
    """A hook that stores the operations of a network up to the place of a cut, and those of its head."""

    head: nn.Module = field(default_factory=nn.Identity)
    counter: Counter | None = None
    flops: int = 0

    def __call__(self, module: nn.Module, args: Any, output: Any) -> None:
        counter = self.counter
        if counter is not None and self.seen == self.call:
            reached = counter.operations.get_total_flops()
            self.head(output)
            taken = counter.operations.get_total_flops() - reached
            self.flops = reached - counter.heads + taken
            counter.heads += taken  # heads are no part of the whole network
        self.seen += 1


@dataclass
class Counter:
    """Counts the operations of one run of a network and of all its cuts."""

    net: nn.Module
    stamps: list[Tally]
    operations: Operations = field(default_factory=Operations)
    heads: int = 0

    def __call__(self, example: Example) -> list[int]:
        """Operations of the whole network and of each cut."""
        self.operations, self.heads = Operations(), 0
        for stamp in self.stamps:
            stamp.seen, stamp.flops, stamp.counter = 0, 0, self
        with self.operations:
            self.net(*example.args, **example.kwargs)
        for stamp in self.stamps:
            stamp.counter = None
        return [self.operations.get_total_flops() - self.heads, *(stamp.flops for stamp in self.stamps)]


def measure_cuts(net: nn.Module, scan: Scan, batch: Any, track: Track = plainly) -> None:
    """Add parameters, operations and seconds of the whole network and of every cut to a scan's readings.

    `cut_seconds` is the fastest run of one batch, its upper end the 95th percentile; `cut_speed_up` compares it with
    the whole network.
    """
    net, readings, data = unwrapped(net), scan.readings, scan.data
    example = Example(batch)
    few = example.with_batch(min(2, example.batch))  # enough to find what a place uses
    cuts: dict[Place, Truncated] = {}
    used = dict(zip(scan.places, uses(net, [called(place) for place in scan.places], few), strict=True))
    for place in track(scan.places, "cutting", len(scan.places)):
        try:
            cuts[place] = cut_at(net, scan, place, few, copy=False, use=used.pop(place))
        except CutError as error:
            readings.add("cut_seconds", float("nan"), place=place, data=data, note=str(error))
    stamps = [Stamp(cut.body.stop.call, head=cut.head) for cut in cuts.values()]
    tallies = [Tally(cut.body.stop.call, head=cut.head) for cut in cuts.values()]
    hooks = [(hook, cut.body.name) for each in (stamps, tallies) for hook, cut in zip(each, cuts.values(), strict=True)]
    handles = [hook.at(net, name) for hook, name in hooks]
    try:
        whole, *parts = costs([net, *cuts.values()], batch, Clock(net, stamps), track, Counter(net, tallies))
    finally:
        for handle in handles:
            handle.remove()
    for name in ("parameters", "flops", "seconds"):
        readings.add(name, float(getattr(whole, name)), data=data)
    for place, part in zip(cuts, parts, strict=True):
        faster = SpeedUp.of(whole, part)
        readings.add("cut_parameters", part.parameters, place=place, data=data)
        readings.add("cut_flops", part.flops, place=place, data=data)
        readings.add("cut_seconds", part.seconds, low=part.seconds, high=part.high, place=place, data=data)
        readings.add("cut_speed_up", faster.value, low=faster.low, high=faster.high, place=place, data=data)
