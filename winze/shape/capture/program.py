"""A forward cut into shortcuts and branches that can be run apart: on some rows, with frozen weights, or not at all.

Most rules run in the network's live forward. A rule with `needs = "program"` gets this instead: the forward as a
graph, cut at its sums. A graph holds tensor operations only, so a program is used where it has been held against the
live forward and found to be the same, and for calls like those that it was made from; else it is refused.
"""

from __future__ import annotations

import copy
from functools import partial
from types import MethodType
from typing import Any

import torch
from torch import fx, nn
from torch._compile import _disable_dynamo

from winze.shape.branch import Branch
from winze.shape.capture.signature import Key, signature, with_shapes
from winze.shape.capture.split import Piece, Plan, SplitSum, split
from winze.shape.capture.survey import Record, copied, read_forward, where
from winze.shape.capture.trace import hooked
from winze.shape.capture.verify import verify
from winze.shape.capture.watched import Functions, Watched
from winze.shape.live.definition import CaptureError
from winze.shape.live.foreign_junction import ForeignJunction
from winze.shape.live.live import live_of, own_forward
from winze.shape.sums.bare_run import plain, without_hooks
from winze.shape.sums.surroundings import at_rest


class Program:
    """Stands in for a module's forward: picks the plan that fits the call, and makes one where none does.

    `scales` are the rows a sample has in each tensor of the forward, by name, as two batch sizes show them; `numbers`
    those that the forward read off shapes and that were the same for both. `inlined` are modules inside whose forwards
    are part of the program, for they make its sums. Where no plan can be made, `live` runs instead if every rule here
    can do without.
    """

    stands_in = True

    def __init__(
        self,
        holder: nn.Module,
        junctions: list[ForeignJunction],
        scales: dict[str, int],
        numbers: dict[str, Any] | None,
        inlined: tuple[nn.Module, ...] = (),
    ) -> None:
        self.holder, self.junctions, self.scales, self.numbers = holder, junctions, scales, numbers
        self.inlined = inlined
        self.plans: dict[Key, Plan | None] = {}
        self.by_shape: set[Key] = set()
        self.functions: Functions = {}
        self.watched: Watched | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Program:
        holder, junctions, inlined = copy.deepcopy((self.holder, self.junctions, self.inlined), memo)
        copied = Program(holder, junctions, self.scales, self.numbers, inlined)
        copied.functions, copied.watched = self.functions, None  # the holder is not copied to its end yet
        copied.plans, copied.by_shape = dict(self.plans), set(self.by_shape)
        return copied

    def __reduce__(self) -> Any:
        return Program, (self.holder, self.junctions, self.scales, self.numbers, self.inlined)

    def watch(self, functions: Functions) -> None:
        """From now on a plan holds as long as what these functions read stays the same."""
        if not functions.keys() <= self.functions.keys():
            self.functions = {**self.functions, **functions}
            self.forget()

    def forget(self) -> None:
        """Make every plan anew: the code that they come from is another."""
        self.watched = None
        self.plans.clear()
        self.by_shape.clear()

    def signature(self, args: Any, kwargs: Any) -> tuple[Key, list[Any]]:
        """What a plan is made for, and the tensors of a call."""
        key, tensors = signature(self.holder, self.inlined, args, kwargs)
        if self.watched is None:
            self.watched = Watched((self.holder, *self.inlined), self.functions)
        values = self.watched.values()
        return (*key, values) if values else key, tensors

    @property
    def forward(self) -> Any:
        """The method that stands in for the holder's own, with its signature."""

        def forward(self: Program, *args: Any, **kwargs: Any) -> Any:
            return self.run(*args, **kwargs)

        own = own_forward(self.holder)
        forward.__wrapped__ = getattr(own, "__func__", own)  # type: ignore[attr-defined]
        return MethodType(forward, self)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Run the holder with its junctions' rules."""
        key, tensors = self.signature(args, kwargs)
        if not (torch.compiler.is_compiling() or self.watched.is_current()):  # type: ignore[union-attr]
            self.forget()
            key, tensors = self.signature(args, kwargs)
        if key in self.by_shape:
            key = with_shapes(key, tensors)
        plan = self.plans[key] if key in self.plans else self._capture(args, kwargs)
        if plan is None:
            return self.live(*args, **kwargs)

        def join(i: int, shortcut_inputs: Any, branch_inputs: Any) -> Any:
            return _run(self.junctions[i], plan.cuts[i], plan.apart, shortcut_inputs, branch_inputs)

        return plan.run(self.holder, join, plan.constants, *tensors)

    def live(self, *args: Any, **kwargs: Any) -> Any:
        """The holder's own forward, with those rules at its sums that need no program."""
        live = live_of(self.holder)
        assert live is not None
        return live.forward(*args, **kwargs)

    @_disable_dynamo  # unlike torch.compiler.disable, it does not import the compiler
    def _capture(self, args: Any, kwargs: Any) -> Plan | None:
        try:
            return self.add(args, kwargs, self._made(args, kwargs))
        except CaptureError:
            if not all(junction.rule.optional for junction in self.junctions):
                raise
            return self.add(args, kwargs, None)

    def _made(self, args: Any, kwargs: Any) -> Plan:
        """Read the holder anew, on copies, for a call that none of the plans fits."""
        holder = self.holder
        args, kwargs = copied(args, kwargs)
        with at_rest(holder), plain(holder), torch.no_grad():
            try:
                read = partial(read_forward, holder, own_forward(holder), args, kwargs, self.inlined)
                record, _ = read() if any(map(hooked, self.inlined)) else without_hooks(holder, read)
            except Exception as error:
                raise CaptureError(f"{where(holder)} cannot be read when called like this: {error}") from error
        check_sums(holder, record, self.junctions)
        self.watch(record.functions)
        stream = record.sums[0].stream
        scale = self.scales.get(stream.name) or 1
        batch_free = not record.bound or record.bound == self.numbers
        batch = stream.meta["shape"][0] // scale or 1
        return plan_of(holder, self.inlined, record, self.scales, batch, batch_free, self.junctions, set())

    def add(self, args: Any, kwargs: Any, plan: Plan | None) -> Plan | None:
        """Keep a plan for calls like this one; None: the live forward runs."""
        key, tensors = self.signature(args, kwargs)
        if plan is None or plan.bound:
            self.by_shape.add(key)
            key = with_shapes(key, tensors)
        self.plans[key] = plan
        return plan


def make_program(
    holder: nn.Module,
    inlined: tuple[nn.Module, ...],
    junctions: list[ForeignJunction],
    evaluating: Record,
    training: Record | None,
    batch: int,
    verified: set[Any],
) -> Program:
    """The program of a module from how it was called in both modes; a CaptureError where it cannot be one."""
    check_sums(holder, evaluating, junctions)
    scales = scales_between(evaluating, batch, training, batch + 1) if training is not None else {}
    batch_free = training is not None and evaluating.bound == training.bound
    program = Program(holder, junctions, scales, evaluating.bound if batch_free else None, inlined)
    modes = [(False, evaluating, batch)]
    if training is not None:
        check_sums(holder, training, junctions)
        modes.append((True, training, batch + 1))
    for _, record, _ in modes:
        program.watch(record.functions)
    own = (holder, *inlined)
    before = [module.training for module in own]
    try:
        for training_mode, record, size in modes:
            for module in own:
                module.training = training_mode
            plan = plan_of(holder, inlined, record, scales, size, batch_free, junctions, verified)
            program.add(*record.arguments, plan)
    finally:
        for module, mode in zip(own, before, strict=True):
            module.training = mode
    return program


def check_sums(holder: nn.Module, record: Record, junctions: list[ForeignJunction]) -> None:
    """Raise unless the graph that was read shows the junctions that the live run showed."""
    if record.reason:
        raise CaptureError(f"{where(holder)} cannot be cut into shortcut and branch: {record.reason}")
    if len(record.sums) != len(junctions):
        raise CaptureError(
            f"{where(holder)} cannot be cut into shortcut and branch: its graph shows {len(record.sums)} sums, "
            f"its forward makes {len(junctions)}"
        )


def scales_between(one: Record, batch_one: int, two: Record, batch_two: int) -> dict[str, int]:
    """Rows per sample of each tensor: the k for which its first axis is k x batch at both batch sizes, else 0."""
    found = {}
    for name, shape in one.shapes.items():
        other = two.shapes.get(name)
        if not shape or not other:
            continue
        scale = shape[0] // batch_one
        found[name] = scale if (scale * batch_one, scale * batch_two) == (shape[0], other[0]) else 0
    return found


def plan_of(
    holder: nn.Module,
    inlined: tuple[nn.Module, ...],
    record: Record,
    scales: dict[str, int],
    batch: int,
    batch_free: bool,
    junctions: list[ForeignJunction],
    verified: set[Any],
) -> Plan:
    """Cut a record at its sums; tensors whose name the two batch sizes did not show are classified by their first axis.

    Modules of one class with the same graph and attributes are verified once.
    """
    if record.contexts:
        raise CaptureError(
            f"{where(holder)} has {', '.join(sorted(record.contexts))} in a forward that holds a junction: "
            "write the sum with a native winze.Junction"
        )
    objects = [
        n for n in record.graph.nodes if n.op == "placeholder" and n.name != "constants" and not n.meta["tensor"]
    ]
    if objects:
        raise CaptureError(
            f"{where(holder)} is handed an object (a cache, say) that its branch may change: it cannot be cut into "
            "shortcut and branch"
        )
    for node in record.graph.nodes:
        if node.meta.get("tensor"):
            node.meta["scale"] = scales[node.name] if node.name in scales else _guess(node, batch)
    for residual, junction in zip(record.sums, junctions, strict=True):
        stream, total = (node.meta["shape"] for node in (residual.stream, residual.node))
        if stream[junction.axis : junction.axis + 1] != total[junction.axis : junction.axis + 1]:
            raise CaptureError(f"{where(holder)} has its samples along another axis where it makes its sum")
        if junction.axis or not junction.scale:
            residual.stream.meta["scale"] = junction.scale
    code = str(record.graph)
    plan = split(record.graph, record.sums, record.constants, bound=bool(record.bound), apart=batch_free)
    kind = type(holder), holder.training, code, signature(holder, inlined, *record.arguments)[0]
    if kind not in verified:
        verify(holder, inlined, plan, record)
        verified.add(kind)
    return plan


def _run(junction: ForeignJunction, cut: SplitSum, apart: bool, shortcut_inputs: Any, branch_inputs: Any) -> Any:
    """The sum at a junction, with whatever else the branch hands on."""
    holder, part = junction.holder, cut.branch
    branch = Branch(
        partial(part.run, holder),
        branch_inputs,
        part.scales,
        partial(_owned, holder, part),
        junction.moment,
        training=holder.training,
        gate=holder._modules.get(junction.gate_name),
        sides=part.sides,
        apart=part.apart and apart and junction.apart,
        first=cut.branch_first,
        axis=junction.axis,
        keeper=holder,
    )
    result = junction.join(partial(cut.shortcut.run, holder, *shortcut_inputs), branch)
    if cut.overwritten and not junction.rule.fresh:
        result = result.clone()
    if not part.sides:
        return result
    if not branch.sides:
        branch()
    return result, *branch.sides


def _guess(node: fx.Node, batch: int) -> int:
    shape = node.meta["shape"]
    return shape[0] // batch if shape and shape[0] % batch == 0 else 0


def _owned(holder: nn.Module, part: Piece) -> tuple[list[nn.Module], list[tuple[nn.Module, str]]]:
    """The modules of a part, and the parameters it reads directly, as owner and name."""
    loose = [name.rpartition(".") for name in part.parameters]
    return [holder.get_submodule(name) for name in part.modules], [(holder.get_submodule(o), n) for o, _, n in loose]
