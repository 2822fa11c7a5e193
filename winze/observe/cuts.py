"""What cutting a network after each of its places would cost and save."""

from __future__ import annotations

from typing import Any

from torch import nn

from winze.observe.costs import Cost, cost
from winze.observe.prefix import CutError
from winze.observe.result import Scan
from winze.observe.truncate import truncate
from winze.readings import Readings


def measure_cuts(net: nn.Module, scan: Scan, batch: Any) -> None:
    """Add parameters, operations and seconds of the whole network and of every cut to a scan's readings."""
    readings, data = scan.readings, scan.data
    _add(readings, cost(net, batch), "", data=data)
    for place in scan.places:
        try:
            small = truncate(net, scan, at=place, example=batch, measure=False, copy=False)
        except CutError as error:
            readings.add("cut_seconds", float("nan"), place=place, data=data, note=str(error))
            continue
        _add(readings, cost(small, batch), "cut_", place=place, data=data)


def _add(readings: Readings, found: Cost, prefix: str, **where: Any) -> None:
    for name in ("parameters", "flops", "seconds"):
        readings.add(f"{prefix}{name}", float(getattr(found, name)), **where)
