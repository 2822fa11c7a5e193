"""Stochastic depth, as timm's DropPath does it (Huang et al., 2016, arXiv 1603.09382)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from winze.place import Place
from winze.shape.branch import Branch, Shortcut
from winze.shape.rule import Rule, check_choice, check_share, weighted
from winze.shape.rules.masks import (
    COMPUTES,
    DRAWS,
    MASKS,
    PROFILES,
    draw_keep,
    draw_parted,
    may_skip,
    on_rows,
    rate_at,
    runs_rows,
    skip,
)


@dataclass(frozen=True)
class DropPath(Rule):
    """Drop branches at random while training, per sample or per batch.

    y = x + m f(x) / keep,   m ~ Bernoulli(keep),   keep = 1 - rate_l

    `profile="linear"` raises the rate from 0 at the first junction to `rate` at the last, `"constant"` uses it
    everywhere. `scale=False` omits the division. `draw="count"` drops a fixed number of samples, not each at
    random. `compute="rows"` runs the branch on kept samples only, `"auto"` does so where it is exact and faster.
    """

    rate: float = 0.1
    profile: str = "linear"
    scale: bool = True
    mask: str = "sample"
    draw: str = "bernoulli"
    compute: str = "auto"
    drops: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_drop_settings(self)

    @property
    def needs(self) -> str:  # type: ignore[override]
        return "values" if self.compute == "dense" else "program"

    @property
    def optional(self) -> bool:  # type: ignore[override]
        return self.compute == "auto"

    def join(self, place: Place, shortcut: Shortcut, branch: Branch) -> Tensor:
        rate = rate_at(self.rate, self.profile, place)
        if not branch.training or rate == 0:
            return branch.onto(shortcut(), branch())
        factor = 1 / (1 - rate) if self.scale else 1.0
        stream = shortcut()
        if self.mask == "batch" and may_skip(self.compute, branch):
            kept = bool(torch.rand(()) >= rate)
            return branch.onto(stream, weighted(factor, branch())) if kept else skip(stream, branch)
        if self.mask == "batch":
            value = branch()
            coin = (torch.rand((), device=value.device) >= rate) * factor
            return branch.onto(stream, value, coin.to(value.dtype))
        if runs_rows(self.compute, self.draw, branch, place):
            rows, _ = draw_parted(rate, branch.samples, self.draw, stream.device)
            return on_rows(stream, branch, rows, factor)
        keep = draw_keep(rate, branch.samples, self.draw, stream.device)
        value = branch()
        return branch.onto(stream, value, branch.spread(keep, value) * factor)


def check_drop_settings(rule: object) -> None:
    """Raise where a field of a rule that drops branches is out of range."""
    settings = vars(rule)
    check_share("rate", settings["rate"], below_one=True)
    for name, choices in (("profile", PROFILES), ("mask", MASKS), ("draw", DRAWS), ("compute", COMPUTES)):
        check_choice(name, settings[name], choices)
