"""A junction inside a forward that goes on running as its author wrote it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from winze.place import Place
from winze.shape.branch import Computed
from winze.shape.junction import Junction, Moment
from winze.shape.rule import Rule
from winze.shape.rules.standard import Standard


@dataclass(frozen=True)
class Form:
    """How a sum is written at one place: `order` says which of its operands are terms, `shortcut` which term is that.

    `shared`: the sum is written into a tensor that something else refers to; `overwritten`: its result is changed in
    place later on.
    """

    order: tuple[tuple[bool, int], ...]
    shortcut: int
    shared: bool = False
    overwritten: bool = False


class ForeignJunction(Junction):
    """A junction inside the forward of another library.

    `holder` is the module whose forward makes the sum. Samples lie along `axis` of the stream, with `scale` rows each;
    no scale: the rows are no samples.
    """

    def __init__(self, holder: nn.Module, kind: str, holds: str) -> None:
        nn.Module.__init__(self)
        # Past nn.Module's __setattr__: the holder owns the junction, not the other way round.
        object.__setattr__(self, "holder", holder)
        self.holder: nn.Module
        self._kind, self._holds = kind, holds
        self.place = self.seat = Place(0, 1, "")
        self.rule: Rule = Standard()
        self.moment = Moment()
        self.number, self.gate_name = 0, "highway"
        self.axis, self.scale = 0, 1
        self.apart, self.gated = True, False
        self.slots: list[tuple[nn.Module, str]] = []

    @property
    def kind(self) -> str:
        return self._kind

    @property
    def holds(self) -> str:
        return self._holds

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        raise RuntimeError(f"junction {self.place.name!r} is part of its network's forward and is not called itself")

    def add_up(
        self,
        form: Form,
        terms: tuple[Tensor, ...],
        signs: tuple[float, ...],
        target: Tensor | None = None,
        fused: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        """The sum of the terms by this junction's rule, written into `target`, one of the terms, where there is one.

        `fused` adds the branch to a shortcut in one operation, which rounds otherwise than a product and a sum.
        """
        if target is not None:
            terms = tuple(term.clone() if term is target else term for term in terms)
        shortcut = _signed(terms[form.shortcut], signs[form.shortcut])
        rest = [_signed(t, s) for i, (t, s) in enumerate(zip(terms, signs, strict=True)) if i != form.shortcut]
        value = rest[0]
        for other in rest[1:]:
            value = value + other
        branch = Computed(
            value,
            self.slots,
            self.moment,
            training=self.holder.training,
            gate=self.holder._modules.get(self.gate_name),
            first=form.shortcut > 0,
            axis=self.axis,
            scale=self.scale,
            fused=fused,
        )
        result = self.join(lambda: shortcut, branch)
        if target is not None:
            return target.zero_().add_(result)  # `copy_` would change how gradients lie in memory, and so their sums
        if form.overwritten and not self.rule.fresh:
            return result.clone()
        return result


def _signed(term: Tensor, sign: Any) -> Tensor:
    if isinstance(sign, float | int) and sign == 1:
        return term
    return -term if isinstance(sign, float | int) and sign == -1 else term * sign
