"""The plain residual sum (He et al., 2016, arXiv 1512.03385)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from winze.place import Place
from winze.shape.branch import Branch, Shortcut
from winze.shape.rule import Rule


@dataclass(frozen=True)
class Standard(Rule):
    """Add the branch to the shortcut, as the network was written.

    y = x + f(x)
    """

    def join(self, place: Place, shortcut: Shortcut, branch: Branch) -> Tensor:
        return branch.onto(shortcut(), branch())
