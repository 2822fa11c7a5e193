"""What cutting a network after each of its places would cost and save."""

from __future__ import annotations

from typing import Any

from torch import nn

from winze.depth import Place
from winze.networks import unwrapped
from winze.observe.costs import SpeedUp, costs
from winze.observe.prefix import CutError
from winze.observe.progress import Track
from winze.observe.result import Scan
from winze.observe.truncate import cut_at
from winze.shape.capture.example import Example


def measure_cuts(net: nn.Module, scan: Scan, batch: Any, track: Track | None = None) -> None:
    """Add parameters, operations and seconds of the whole network and of every cut to a scan's readings.

    `cut_seconds` is the fastest run of one batch, up to what 95 % of the runs took; `cut_speed_up` compares it with the
    whole network.
    """
    net, readings, data = unwrapped(net), scan.readings, scan.data
    example = Example(batch)
    few = example.with_batch(min(2, example.batch))  # enough to see what a place needs
    cuts: dict[Place, nn.Module] = {}
    for place in scan.places if track is None else track(scan.places, "cutting", len(scan.places)):
        try:
            cuts[place] = cut_at(net, scan, place, few, copy=False)
        except CutError as error:
            readings.add("cut_seconds", float("nan"), place=place, data=data, note=str(error))
    whole, *parts = costs([net, *cuts.values()], batch)
    for name in ("parameters", "flops", "seconds"):
        readings.add(name, float(getattr(whole, name)), data=data)
    for place, part in zip(cuts, parts, strict=True):
        faster = SpeedUp.of(whole, part)
        readings.add("cut_parameters", part.parameters, place=place, data=data)
        readings.add("cut_flops", part.flops, place=place, data=data)
        readings.add("cut_seconds", part.seconds, low=part.seconds, high=part.high, place=place, data=data)
        readings.add("cut_speed_up", faster.value, low=faster.low, high=faster.high, place=place, data=data)
