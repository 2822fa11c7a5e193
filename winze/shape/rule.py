"""A rule: the sum `y = rule(x, f)` at a junction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from winze.place import Place
from winze.shape.branch import Branch, Shortcut

Pointwise = type[nn.Linear] | type[nn.Conv1d] | type[nn.Conv2d] | type[nn.Conv3d]


@dataclass(frozen=True)
class Rule:
    """How a junction adds its shortcut and its branch. A rule has no state: that belongs to `Alternation`."""

    needs: ClassVar[str] = "values"
    """`values`: it calls `shortcut()` and `branch()` plainly, and runs in the network's live forward. `program`: it
    leaves one of them out, or runs the branch on some rows or with frozen weights."""
    optional: ClassVar[bool] = False
    """It falls back to values where no program is possible."""
    staged: ClassVar[bool] = False
    """Training it needs an `Alternation`."""
    drops: ClassVar[bool] = False
    """It drops branches at random, so the network's own DropPath must be off."""
    fresh: ClassVar[bool] = True
    """Its result is a new tensor, which the network may change in place."""

    def join(self, place: Place, shortcut: Shortcut, branch: Branch) -> Tensor:
        """The sum. Shortcut and branch are calls: what the rule does not call is never computed."""
        raise NotImplementedError

    def gate(self, channels: int, pointwise: Pointwise) -> nn.Module | None:
        """The learned part that this rule adds to a junction, if it has one: a pointwise layer over channels."""
        return None


def weighted(weight: float, value: Tensor) -> Tensor:
    """`weight * value`; a weight of exactly 1 returns `value` itself."""
    return value if weight == 1 else weight * value


def check_share(name: str, value: float, *, below_one: bool = False) -> None:
    """Raise unless `value` lies in [0, 1], or [0, 1) where asked."""
    inside = 0 <= value < 1 if below_one else 0 <= value <= 1
    if not inside:
        raise ValueError(f"{name} must lie in [0, 1{')' if below_one else ']'}, got {value!r}")


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise unless `value` is one of `choices`."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
