"""No shortcut: the residual network as a plain feed-forward one (Masarczyk et al., 2023, arXiv 2305.19753)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from winze.place import Place
from winze.shape.branch import Branch, Shortcut
from winze.shape.rule import Rule


@dataclass(frozen=True)
class NoShortcut(Rule):
    """Keep only the branch; a projection on the shortcut is not run.

    y = f(x)
    """

    needs: ClassVar[str] = "program"
    optional: ClassVar[bool] = True
    fresh: ClassVar[bool] = False

    def join(self, place: Place, shortcut: Shortcut, branch: Branch) -> Tensor:
        return branch()
