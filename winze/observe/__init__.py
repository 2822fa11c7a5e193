"""Runs a network and measures it at its places."""

from winze.observe.extractor import extractor
from winze.observe.files import load, save
from winze.observe.prefix import CutError
from winze.observe.result import Scan, compare
from winze.observe.scan import scan
from winze.observe.truncate import Cut, Truncated, truncate
from winze.observe.watch import Watch
from winze.report.facts import Best

__all__ = [
    "Best",
    "Cut",
    "CutError",
    "Scan",
    "Truncated",
    "Watch",
    "compare",
    "extractor",
    "load",
    "save",
    "scan",
    "truncate",
]
