"""Runs a network and measures it at its places."""

from winze.observe.between import Between, cka_between
from winze.observe.cut.extractor import extractor
from winze.observe.cut.network_file import load, save
from winze.observe.cut.prefix import CutError
from winze.observe.cut.truncate import Cut, Truncated, truncate
from winze.observe.result import Scan, compare
from winze.observe.scan import scan
from winze.observe.sequence import Sequence
from winze.observe.watch import Watch
from winze.readings.facts import Best

__all__ = [
    "Best",
    "Between",
    "Cut",
    "CutError",
    "Scan",
    "Sequence",
    "Truncated",
    "Watch",
    "cka_between",
    "compare",
    "extractor",
    "load",
    "save",
    "scan",
    "truncate",
]
