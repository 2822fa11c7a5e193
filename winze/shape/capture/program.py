"""The rewritten forward of one foreign module: the same computation, with its residual sums handed to rules."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch._compile import _disable_dynamo
from torch.utils import _pytree as pytree

from winze.depth import Place
from winze.shape.branch import Branch
from winze.shape.junction import Junction
from winze.shape.junction import Moment
from winze.shape.rule import Rule
from winze.shape.capture.split import Cut, Part, Plan
from winze.shape.rules.standard import Standard
from winze.shape.capture.traced import PLAIN

Key = tuple[Any, ...]


class CapturedJunction(Junction):
    """A junction inside a forward that somebody else wrote: the `i`-th residual sum of its holder."""

    def __init__(self, holder: nn.Module, i: int, place: Place, kind: str, holds: str) -> None:
        nn.Module.__init__(self)
        # Past nn.Module's __setattr__: the holder owns the junction, not the other way round.
        object.__setattr__(self, "holder", holder)
        self.holder: nn.Module
        self.i, self._kind, self._holds = i, kind, holds
        self.place = self.seat = place
        self.rule: Rule = Standard()
        self.moment = Moment()

    @property
    def kind(self) -> str:
        return self._kind

    @property
    def holds(self) -> str:
        return self._holds

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        raise RuntimeError(f"junction {self.place.name!r} is part of its network's forward and is not called itself")

    def run(self, cut: Cut, apart: bool, shortcut_inputs: Any, branch_inputs: Any) -> Any:
        """The sum at this junction, with whatever else the branch hands on."""
        holder = self.holder
        part = cut.branch
        branch = Branch(
            partial(part.run, holder),
            branch_inputs,
            part.scales,
            partial(_owned, holder, part),
            self.moment,
            training=holder.training,
            gate=holder._modules.get(gate_name(self.i)),
            sides=part.sides,
            apart=part.apart and apart,
            first=cut.branch_first,
        )
        result = self.join(partial(cut.shortcut.run, holder, *shortcut_inputs), branch)
        if cut.overwritten and not self.rule.fresh:
            result = result.clone()
        if not part.sides:
            return result
        if not branch.sides:
            with torch.no_grad():
                branch()
        return result, *branch.sides


class Capture:
    """Stands in for a module's forward: picks the plan that fits the call, and makes one where none does.

    `scales` are the rows a sample has in each tensor of the forward, by name, as two batch sizes told them; `numbers`
    those that the forward read off shapes and that were the same for both.
    """

    def __init__(
        self,
        holder: nn.Module,
        junctions: list[CapturedJunction],
        scales: dict[str, int],
        numbers: dict[str, Any] | None,
        make: Callable[..., Plan],
    ) -> None:
        self.holder, self.junctions, self.scales, self.numbers, self.make = holder, junctions, scales, numbers, make
        self.plans: dict[Key, Plan] = {}
        self.by_shape: set[Key] = set()

    def __deepcopy__(self, memo: dict[int, Any]) -> Capture:
        holder, junctions = copy.deepcopy((self.holder, self.junctions), memo)
        copied = Capture(holder, junctions, self.scales, self.numbers, self.make)
        copied.plans, copied.by_shape = dict(self.plans), set(self.by_shape)
        return copied

    def __reduce__(self) -> Any:
        return Capture, (self.holder, self.junctions, self.scales, self.numbers, self.make)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the holder with its junctions' rules."""
        key, tensors = signature(self.holder, args, kwargs)
        if key in self.by_shape:
            key = with_shapes(key, tensors)
        plan = self.plans.get(key)
        if plan is None:
            plan = self._capture(args, kwargs)

        def join(i: int, shortcut_inputs: Any, branch_inputs: Any) -> Any:
            return self.junctions[i].run(plan.cuts[i], plan.apart, shortcut_inputs, branch_inputs)

        return plan.run(self.holder, join, plan.constants, *tensors)

    @_disable_dynamo  # unlike torch.compiler.disable, it does not import the compiler
    def _capture(self, args: Any, kwargs: Any) -> Plan:
        return self.add(args, kwargs, self.make(self, args, kwargs))

    def add(self, args: Any, kwargs: Any, plan: Plan) -> Plan:
        """Keep a plan for calls like this one."""
        key, tensors = signature(self.holder, args, kwargs)
        if plan.bound:
            self.by_shape.add(key)
            key = with_shapes(key, tensors)
        self.plans[key] = plan
        return plan


def signature(holder: nn.Module, args: Any, kwargs: Any) -> tuple[Key, list[Any]]:
    """What a plan is made for (mode, plain arguments, kinds of tensors), and the tensors of a call."""
    if not kwargs and all(type(a) is Tensor for a in args):
        return (holder.training, args[0].device if args else None, *(a.ndim for a in args)), list(args)
    leaves, spec = pytree.tree_flatten((args, kwargs))
    tensors = [leaf for leaf in leaves if not isinstance(leaf, PLAIN)]
    device = next((t.device for t in tensors if isinstance(t, Tensor)), None)
    kinds = tuple(leaf if isinstance(leaf, PLAIN) else ("*", getattr(leaf, "ndim", type(leaf))) for leaf in leaves)
    return (holder.training, device, spec, kinds), tensors


def with_shapes(key: Key, tensors: list[Any]) -> Key:
    """The key of a plan that holds for these shapes and types only."""
    return (*key, tuple((t.shape, t.dtype) if isinstance(t, Tensor) else type(t) for t in tensors))


def _owned(holder: nn.Module, part: Part) -> tuple[list[nn.Module], list[tuple[nn.Module, str]]]:
    """The modules of a part, and the parameters it reads directly, as owner and name."""
    loose = [name.rpartition(".") for name in part.parameters]
    return [holder.get_submodule(name) for name in part.modules], [(holder.get_submodule(o), n) for o, _, n in loose]


def gate_name(i: int) -> str:
    """Under which name a junction's learned gate hangs on the holder."""
    return "highway" if i == 0 else f"highway_{i}"
