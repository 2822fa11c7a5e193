"""Decayed identity shortcuts (Zhang et al., 2024, arXiv 2404.10947)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from winze.place import Place
from winze.shape.branch import Branch, Shortcut
from winze.shape.rule import Rule, check_share, weighted


@dataclass(frozen=True)
class DecayedIdentity(Rule):
    """Fade the shortcut with depth, so that late layers stop echoing early ones.

    y = a_l x + f(x),   a_l = 1 - (1 - alpha_min) l / (L - 1)

    The paper prints L in the denominator but states a_{L-1} = alpha_min; its public code divides by L - 1, as here.
    """

    alpha_min: float = 0.6

    def __post_init__(self) -> None:
        check_share("alpha_min", self.alpha_min)

    def weight(self, place: Place) -> float:
        """a_l: 1 at the first junction, alpha_min at the last, or at a junction alone."""
        return 1 - (1 - self.alpha_min) * place.depth

    def join(self, place: Place, shortcut: Shortcut, branch: Branch) -> Tensor:
        return branch.onto(weighted(self.weight(place), shortcut()), branch())
