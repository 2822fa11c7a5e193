"""What cutting a network after each of its places would cost and save."""

from __future__ import annotations

from typing import Any

from torch import nn

from winze.depth import Place
from winze.observe.costs import Cost, costs
from winze.observe.prefix import CutError
from winze.observe.result import Scan
from winze.observe.truncate import truncate
from winze.readings import Readings


def measure_cuts(net: nn.Module, scan: Scan, batch: Any) -> None:
    """Add parameters, operations and seconds of the whole network and of every cut to a scan's readings."""
    readings, data = scan.readings, scan.data
    cuts: dict[Place, nn.Module] = {}
    for place in scan.places:
        try:
            cuts[place] = truncate(net, scan, at=place, example=batch, measure=False, copy=False)
        except CutError as error:
            readings.add("cut_seconds", float("nan"), place=place, data=data, note=str(error))
    whole, *parts = costs([net, *cuts.values()], batch)
    _add(readings, whole, "", data=data)
    for place, part in zip(cuts, parts, strict=True):
        _add(readings, part, "cut_", place=place, data=data)


def _add(readings: Readings, found: Cost, prefix: str, **where: Any) -> None:
    for name in ("parameters", "flops", "seconds"):
        readings.add(f"{prefix}{name}", float(getattr(found, name)), **where)
