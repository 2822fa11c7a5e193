"""Shortcut and branch with fixed factors (the other schemes of Zhang et al., 2024, arXiv 2404.10947)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from winze.place import Place
from winze.shape.branch import Branch, Shortcut
from winze.shape.rule import Rule, weighted


@dataclass(frozen=True)
class Scaled(Rule):
    """Weight shortcut and branch by two constants.

    y = a x + b f(x)
    """

    shortcut: float = 1.0
    branch: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.shortcut) and math.isfinite(self.branch)):
            raise ValueError(f"Scaled takes finite factors, got shortcut={self.shortcut}, branch={self.branch}")

    def join(self, place: Place, shortcut: Shortcut, branch: Branch) -> Tensor:
        return branch.onto(weighted(self.shortcut, shortcut()), weighted(self.branch, branch()))
