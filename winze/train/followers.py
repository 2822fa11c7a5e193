"""Followers of training: an Alternation, a Watch, an average of weights, a function of the user's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Protocol, runtime_checkable

from torch import nn

from winze.observe import Watch
from winze.shape import Alternation
from winze.train.optimizers import EMA

AfterCall = Callable[[nn.Module, int], Any]


@runtime_checkable
class Follower(Protocol):
    """Called after each optimizer step and after each whole epoch, both counted from 1.

    What `after_epoch` returns is logged in that epoch's row. With `state_dict` and `load_state_dict` it is stored in
    checkpoints and restored. It may draw random numbers: the training does not depend on them.
    """

    def after_step(self, net: nn.Module, step: int) -> None: ...
    def after_epoch(self, net: nn.Module, epoch: int) -> Mapping[str, float] | None: ...


class Followers:
    """Followers by name, each called in its own way."""

    def __init__(self, given: Mapping[str, Any] | Iterable[Any], ema: EMA | None = None) -> None:
        self.named: dict[str, Any] = named(given)
        if ema is not None:
            self.named = {"ema": ema} | {name if name != "ema" else "ema 2": one for name, one in self.named.items()}
        self.steps: list[AfterCall] = []
        self.epochs: list[AfterCall] = []
        self.plain: list[AfterCall] = []
        for name, one in self.named.items():
            if isinstance(one, Alternation | Watch):
                self.steps.append(partial(_call, one.step))
                self.epochs += [partial(_call, one.epoch)] if isinstance(one, Watch) else []
            elif hasattr(one, "after_step") or hasattr(one, "after_epoch"):
                self.steps += [one.after_step] if hasattr(one, "after_step") else []
                self.epochs += [one.after_epoch] if hasattr(one, "after_epoch") else []
            elif callable(one):
                self.steps.append(one)
                self.plain.append(one)
            else:
                raise TypeError(
                    f"follower {name!r} is a {type(one).__name__}: expected an Alternation, a Watch, an object with "
                    "after_step and after_epoch, or a function (net, step)"
                )

    @property
    def alternations(self) -> list[Alternation]:
        return [one for one in self.named.values() if isinstance(one, Alternation)]

    @property
    def lasting(self) -> dict[str, Any]:
        """Those with a state that checkpoints hold."""
        return {name: one for name, one in self.named.items() if hasattr(one, "state_dict")}

    def begin(self, net: nn.Module) -> None:
        """Call functions before the first step, as step 0."""
        for call in self.plain:
            call(net, 0)

    def after_step(self, net: nn.Module, step: int) -> None:
        for call in self.steps:
            call(net, step)

    def after_epoch(self, net: nn.Module, epoch: int) -> list[Mapping[str, float]]:
        return [found for call in self.epochs if (found := call(net, epoch))]


def _call(step: Callable[[], None], net: nn.Module, number: int) -> None:
    step()


def named(given: Mapping[str, Any] | Iterable[Any]) -> dict[str, Any]:
    """Followers by name; those of a sequence by their kind, a second of one kind with a number."""
    if isinstance(given, Mapping):
        return dict(given)
    found: dict[str, Any] = {}
    for one in given:
        kind = next((kind for kind in (Alternation, Watch) if isinstance(one, kind)), type(one))
        name = one.__name__ if hasattr(one, "__name__") else kind.__name__.lower()
        count = 1 + sum(other.split(" ")[0] == name for other in found)
        found[name if count == 1 else f"{name} {count}"] = one
    return found
