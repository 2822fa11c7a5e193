"""A forward cut into shortcuts and branches that can be run apart: on some rows, with frozen weights, or not at all.

Most rules run in the network's live forward. A rule with `needs = "program"` gets this instead: the forward as a
graph, cut at its sums. A graph holds tensor operations only, so a program is used where it has been held against the
live forward and found to be the same, and for calls like those that it was made from; else it is refused.
"""

from __future__ import annotations

import copy
import random
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn
from torch._compile import _disable_dynamo
from torch.utils import _pytree as pytree

from winze.modes import rng_unchanged, unchanged
from winze.shape.branch import Branch
from winze.shape.capture.split import Piece, Plan, SplitSum, split
from winze.shape.capture.survey import Record, copied, read_forward, where
from winze.shape.capture.trace import hooked
from winze.shape.capture.traced import PLAIN
from winze.shape.capture.watched import OF_EVERY_MODULE, Functions, Watched, left_behind
from winze.shape.live.definition import CaptureError
from winze.shape.live.foreign_junction import ForeignJunction
from winze.shape.live.live import live_of
from winze.shape.sums.bare_run import plain, without_hooks

Key = tuple[Any, ...]
CANCELLED = 1e-6  # the rounding of values that cancel out, as a share of the largest value beside them


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

    def forward(self, *args: Any, **kwargs: Any) -> Any:
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
        with unchanged(holder), plain(holder), torch.no_grad():
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


def verify(holder: nn.Module, inlined: tuple[nn.Module, ...], plan: Plan, record: Record) -> None:
    """Raise where a plan, with plain sums, is not what the live forward is: results, draws, state and gradients."""

    def plainly(*args: Any, **kwargs: Any) -> Any:
        _, tensors = signature(holder, (), args, kwargs)
        return plan.run(holder, lambda i, s, b: _plain_sum(holder, plan.cuts[i], s, b), plan.constants, *tensors)

    own = own_forward(holder)
    watched = Watched((holder, *inlined), record.functions)
    for seed in (1, 2):
        try:
            expected, got = (
                without_hooks(holder, partial(_outcome, holder, run, record.arguments, seed, watched))
                for run in (own, plainly)
            )
        except Exception as error:
            raise CaptureError(f"{where(holder)} cannot be cut into shortcut and branch: {error}") from error
        for what, one, two in zip(("result", "gradients", "draws", "state"), expected, got, strict=True):
            if not _alike(one, two):
                raise CaptureError(
                    f"{where(holder)} cannot be cut into shortcut and branch: parts and live forward differ in their "
                    f"{what} (side effects, a custom gradient, randomness or changes in place)"
                )
        if _alike(expected[2], _draws(seed)):
            return  # nothing was drawn, so that another seed would show the same


def _outcome(
    holder: nn.Module, run: Callable[..., Any], arguments: Any, seed: int, watched: Watched
) -> tuple[Any, ...]:
    args, kwargs = copied(*arguments)
    leaves = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
    floats = [t.requires_grad_() for t in leaves if t.is_floating_point()]
    parameters = [p for p in holder.parameters() if p.requires_grad]
    inputs = [t.clone() for t in floats]
    moved = {id(a): b for a, b in zip(floats, inputs, strict=True)}
    args, kwargs = pytree.tree_map(lambda leaf: moved.get(id(leaf), leaf), (args, kwargs))
    before, read = {module: dict(vars(module)) for module in holder.modules()}, watched.values()
    with unchanged(holder), plain(holder), torch.enable_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _seed(seed)
        result = run(*args, **kwargs)
        outputs = [t for t in pytree.tree_leaves(result) if isinstance(t, Tensor)]
        used = [t for t in outputs if t.requires_grad]
        wanted = [*floats, *parameters]
        along = [torch.linspace(0.5, 1, t.numel(), device=t.device).view_as(t).to(t.dtype) for t in used]
        gradients = torch.autograd.grad(used, wanted, along, allow_unused=True) if used and wanted else ()
        drawn = _rng_state()
        state = [b.clone() for b in holder.buffers()]
        left: list[Any] = [t.detach().clone() for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        left.append(pytree.tree_structure((args, kwargs)))  # lists and dicts that a block fills
        kinds = pytree.tree_structure(result)
        kept = left_behind(holder.modules(), before), watched.values() == read
    return [t.detach() for t in outputs] + [kinds], gradients, drawn, (state, left, kept)


def _seed(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


def _rng_state() -> list[Any]:
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return [torch.get_rng_state(), cuda, random.getstate(), str(np.random.get_state())]


def _draws(seed: int) -> list[Any]:
    """The states of the generators right after seeding."""
    with rng_unchanged():
        _seed(seed)
        return _rng_state()


def _alike(one: Any, two: Any, beside: float = 0.0) -> bool:
    """Equal, but for the rounding of what is summed in another order.

    Values that cancel out (the gradient of a bias before a BatchNorm, the mean of what is centred) are all rounding:
    they differ by a share of the largest value `beside` them, not of their own.
    """
    if isinstance(one, Tensor) and isinstance(two, Tensor):
        if one.shape != two.shape or one.dtype != two.dtype:
            return False
        if not one.is_floating_point():
            return torch.equal(one, two)
        tolerance = 1e-3 if one.dtype in (torch.float16, torch.bfloat16) else 1e-5
        allowed = max(tolerance * _size(one), CANCELLED * beside, 1e-17)
        return bool(torch.allclose(one, two, rtol=0, atol=allowed, equal_nan=True))
    if isinstance(one, list | tuple) and isinstance(two, list | tuple):
        beside = max((_size(each) for each in one if isinstance(each, Tensor)), default=0.0)
        return len(one) == len(two) and all(_alike(a, b, beside) for a, b in zip(one, two, strict=True))
    return bool(one == two)


def _size(values: Tensor) -> float:
    """The largest of the finite values, where there are any."""
    if not values.is_floating_point() or not values.numel():
        return 0.0
    return float(values.detach().nan_to_num(0, 0, 0).abs().max())


def _plain_sum(holder: nn.Module, cut: SplitSum, shortcut_inputs: Any, branch_inputs: Any) -> Any:
    shortcut = cut.shortcut.run(holder, *shortcut_inputs)
    result = cut.branch.run(holder, *branch_inputs)
    value, *sides = result if cut.branch.sides else (result,)
    total = value + shortcut if cut.branch_first else shortcut + value
    return (total, *sides) if cut.branch.sides else total


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


def own_forward(holder: nn.Module) -> Callable[..., Any]:
    """The forward that a module has without rules of ours."""
    live = live_of(holder)
    return holder.forward if live is None else live.own_forward()


def signature(holder: nn.Module, inlined: tuple[nn.Module, ...], args: Any, kwargs: Any) -> tuple[Key, list[Any]]:
    """What a plan is made for (mode, plain attributes and arguments, kinds of tensors), and the tensors of a call."""
    told = _told(holder) if not inlined else (*_told(holder), *((m.training, hooked(m), _told(m)) for m in inlined))
    if not kwargs and all(type(a) is Tensor for a in args):
        device = args[0].device if args else None
        return (holder.training, told, device, _doubles(args), *(a.ndim for a in args)), list(args)
    leaves, spec = pytree.tree_flatten((args, kwargs))
    tensors = [leaf for leaf in leaves if not isinstance(leaf, PLAIN)]
    device = next((t.device for t in tensors if isinstance(t, Tensor)), None)
    kinds = tuple(leaf if isinstance(leaf, PLAIN) else ("*", getattr(leaf, "ndim", type(leaf))) for leaf in leaves)
    return (holder.training, told, device, _doubles(tensors), spec, kinds), tensors


def _doubles(tensors: Sequence[Any]) -> tuple[Any, ...]:
    """Which arguments are the same tensor as an earlier one."""
    return tuple([(j, i) for i, one in enumerate(tensors) for j in range(i) if one is tensors[j]])


def _told(module: nn.Module) -> tuple[Any, ...]:
    """Plain attributes of a module, kinds of others, and how many modules its lists have, over which it may loop."""
    plainly = tuple(
        (k, v if isinstance(v, PLAIN) else type(v)) for k, v in vars(module).items() if k not in OF_EVERY_MODULE
    )
    lists = [(k, len(v._modules)) for k, v in module._modules.items() if isinstance(v, nn.ModuleList | nn.ModuleDict)]
    return (*plainly, *lists)


def with_shapes(key: Key, tensors: list[Any]) -> Key:
    """The key of a plan that holds for these shapes and types only."""
    return (*key, tuple((t.shape, t.dtype) if isinstance(t, Tensor) else type(t) for t in tensors))


def _guess(node: fx.Node, batch: int) -> int:
    shape = node.meta["shape"]
    return shape[0] // batch if shape and shape[0] % batch == 0 else 0


def _owned(holder: nn.Module, part: Piece) -> tuple[list[nn.Module], list[tuple[nn.Module, str]]]:
    """The modules of a part, and the parameters it reads directly, as owner and name."""
    loose = [name.rpartition(".") for name in part.parameters]
    return [holder.get_submodule(name) for name in part.modules], [(holder.get_submodule(o), n) for o, _, n in loose]
