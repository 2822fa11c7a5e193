"""ResidualDroppath: first drop branches, then train the dropped ones (2024, arXiv 2411.09475)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from winze.place import Place
from winze.shape.branch import Branch, Shortcut
from winze.shape.rowwise.gradients import with_gradient_where, with_zero_gradients, without_graph
from winze.shape.rule import Rule, check_choice
from winze.shape.rules.drop_path import check_drop_settings
from winze.shape.rules.masks import may_skip, on_rows, rate_at, runs_rows, skip


@dataclass(frozen=True)
class ResidualDropPath(Rule):
    """Alternate between dropping branches and training only those that were dropped.

    stage 1: y = x + m f(x)
    stage 2: y = x + m sg[f](x) + (1 - m) f(x)

    The mask m is drawn once for both stages by an `Alternation`, and nothing is rescaled. The paper does not say what
    sg freezes: `frozen="output"` stops the gradient at the kept branch's output (Algorithm 1), `frozen="weights"` at
    the kept branch's parameters only, so that gradients still reach earlier layers. Nor does it say whether m is drawn
    for each `mask="sample"` or for the whole `"batch"`. In stage 2 and in eval mode the result is the plain network's.
    """

    rate: float = 0.1
    profile: str = "linear"
    frozen: str = "output"
    mask: str = "sample"
    draw: str = "bernoulli"
    compute: str = "auto"
    staged: ClassVar[bool] = True
    drops: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_drop_settings(self)
        check_choice("frozen", self.frozen, ("output", "weights"))

    @property
    def needs(self) -> str:  # type: ignore[override]
        return "values" if self.compute == "dense" and self.frozen == "output" else "program"

    @property
    def optional(self) -> bool:  # type: ignore[override]
        return self.compute == "auto" and self.frozen == "output"

    def join(self, place: Place, shortcut: Shortcut, branch: Branch) -> Tensor:
        if not branch.training or rate_at(self.rate, self.profile, place) == 0:
            return branch.onto(shortcut(), branch())
        if branch.stage is None:
            raise RuntimeError(
                f"training ResidualDropPath at {place.name!r} needs its two stages: write "
                "`alternate = winze.Alternation(net)` before training and `alternate.step()` after `optimizer.step()`"
            )
        stream = shortcut()
        if self.mask == "batch" and may_skip(self.compute, branch):
            return self._whole(stream, branch)
        if self.mask == "sample" and runs_rows(self.compute, self.draw, branch, place):
            return self._rows(stream, branch)
        return self._dense(stream, branch)

    def _dense(self, stream: Tensor, branch: Branch) -> Tensor:
        keep = branch.coin if self.mask == "batch" else branch.keep
        assert keep is not None
        if branch.stage == 2 and self.frozen == "weights" and self.mask == "batch":
            return branch.onto(stream, branch(frozen=keep))
        if branch.stage == 2 and self.frozen == "weights":
            frozen, value = branch(frozen=True), branch()
            return branch.onto(stream, torch.where(branch.spread(keep, value).bool(), frozen, value))
        value = branch()
        if branch.stage == 1:
            return branch.onto(stream, value, branch.spread(keep, value))
        return branch.onto(stream, with_gradient_where(branch.spread(~keep, value), value))

    def _whole(self, stream: Tensor, branch: Branch) -> Tensor:
        if branch.stage == 1:
            return branch.onto(stream, branch()) if branch.kept_whole else skip(stream, branch)
        if not branch.kept_whole:
            return branch.onto(stream, branch())
        return with_zero_gradients(branch.onto(stream, self._frozen(branch)), branch.sources())

    def _rows(self, stream: Tensor, branch: Branch) -> Tensor:
        kept, dropped = branch.parted
        if branch.stage == 1:
            return on_rows(stream, branch, kept)
        if not len(dropped):
            return with_zero_gradients(branch.onto(stream, self._frozen(branch)), branch.sources())
        if not len(kept):
            return branch.onto(stream, branch())
        if self.frozen == "weights":
            stream, (learning, still) = branch.part(stream, dropped, kept)
            return branch.onto_rows(stream, (branch(learning), learning), (branch(still, frozen=True), still))
        stream, (learning,) = branch.part(stream, dropped)
        value = branch(learning)
        with torch.no_grad():  # reuse the weights that autocast has just cast
            _, (still,) = branch.part(stream, kept)
            kept_value = branch(still)
        return branch.onto_rows(stream, (value, learning), (kept_value, still))

    def _frozen(self, branch: Branch) -> Tensor:
        if self.frozen == "weights":
            return branch(frozen=True)
        with without_graph():
            return branch()
