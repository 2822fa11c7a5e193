"""Runs a network and measures it at its places."""

from winze.observe.result import Best, Scan, compare
from winze.observe.scan import scan

__all__ = ["Best", "Scan", "compare", "scan"]
