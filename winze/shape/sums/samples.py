"""Find the sample axis of a stream: the axis along which one changed input sample changes one index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from winze.place import Place
from winze.shape.branch import Branch, Shortcut
from winze.shape.live.foreign_junction import ForeignJunction
from winze.shape.rule import Rule
from winze.shape.sums.bare_run import without_hooks
from winze.shape.sums.example import Example
from winze.shape.sums.surroundings import at_rest

AXES = (0, 1)


@dataclass(frozen=True, eq=False)
class Noting(Rule):
    """The plain sum, which it also writes down."""

    seen: dict[str, Tensor]
    drops: ClassVar[bool] = False

    def join(self, place: Place, shortcut: Shortcut, branch: Branch) -> Tensor:
        total = branch.onto(shortcut(), branch())
        self.seen.setdefault(place.name, total.detach().clone())
        return total


@dataclass(frozen=True, eq=False)
class Asked(Rule):
    """The plain sum; it also counts how often it was asked for it."""

    seen: Counter[str]

    def join(self, place: Place, shortcut: Shortcut, branch: Branch) -> Tensor:
        self.seen[place.name] += 1
        return branch.onto(shortcut(), branch())


@dataclass(frozen=True, eq=False)
class Apart(Rule):
    """The plain sum; it also runs the branch on two samples alone, and notes where that gives something else."""

    mixing: set[str]
    needs: ClassVar[str] = "program"

    def join(self, place: Place, shortcut: Shortcut, branch: Branch) -> Tensor:
        value = branch()
        if branch.separable:
            picked = torch.tensor([0, branch.samples - 1], device=value.device)
            alone = branch(rows=picked)
            rows = len(value) // branch.samples
            index = (picked[:, None] * rows + torch.arange(rows, device=value.device)).flatten()
            scale = float(value.abs().max()) or 1.0
            if alone.shape[1:] != value.shape[1:] or not torch.allclose(alone, value[index], rtol=0, atol=1e-4 * scale):
                self.mixing.add(place.name)
        return branch.onto(shortcut(), value)


def find_samples(net: nn.Module, example: Example, junctions: list[ForeignJunction]) -> None:
    """Set `axis` and `scale` of junctions, 0 where no axis holds samples."""
    for junction in junctions:
        junction.axis = junction.scale = 0
    if any(tensor.is_meta for tensor in example.tensors):  # which has no values
        _find_by_size(net, example, junctions)
        return
    open_ones = dict.fromkeys(junctions)
    _find(net, example, junctions, open_ones, training=False)
    if open_ones:  # in train mode, those that do not run in eval mode
        _find(net, example, junctions, open_ones, training=True)
    unknown = [junction for junction in junctions if not junction.scale]
    if unknown and {junction.axis for junction in junctions if junction.scale} == {0}:
        _find_by_size(net, example, unknown)


def _find(
    net: nn.Module,
    example: Example,
    junctions: list[ForeignJunction],
    open_ones: dict[ForeignJunction, None],
    training: bool,
) -> None:
    base = _streams(net, example, junctions, training)
    unseen = [junction for junction in open_ones if junction.place.name not in base]
    if len(unseen) == len(open_ones):
        return
    for axis in AXES:
        changed = _perturbed(example, axis)
        if changed is None or not open_ones:
            continue
        other, samples = changed
        moved = _streams(net, other, junctions, training)
        for junction in [one for one in open_ones if one not in unseen]:
            one, two = (streams.get(junction.place.name) for streams in (base, moved))
            for own in AXES[axis:]:  # a network may turn batch-first inputs into a sequence-first stream
                scale = _scale(one, two, own, samples)
                if scale:
                    junction.axis, junction.scale = own, scale
                    del open_ones[junction]
                    break
    for junction in [one for one in open_ones if one not in unseen]:
        del open_ones[junction]


def _find_by_size(net: nn.Module, example: Example, junctions: list[ForeignJunction]) -> None:
    """Where a change does not come through, or samples mix: the first axis, if it alone is as long as the batch is.

    Two batch sizes tell that. Elsewhere in the network, samples are known to lie along the first axis.
    """
    sizes = example.batch, example.batch + 1
    one, two = (_streams(net, example.with_batch(size), junctions, training=False) for size in sizes)
    for junction in junctions:
        name = junction.place.name
        if name not in one or name not in two or one[name].ndim != two[name].ndim:
            continue
        follows = [axis for axis in range(one[name].ndim) if one[name].shape[axis] != two[name].shape[axis]]
        if follows == [0] and (len(one[name]), len(two[name])) == sizes:
            junction.scale = 1


def _scale(one: Tensor | None, two: Tensor | None, axis: int, samples: int) -> int:
    """Rows per sample along an axis, if nothing but the rows of the first sample has changed."""
    if one is None or two is None or one.shape != two.shape or axis >= one.ndim or one.shape[axis] % samples:
        return 0
    scale = one.shape[axis] // samples
    if axis and scale != 1:
        return 0
    rest = slice(scale, None)
    same = torch.equal(one.movedim(axis, 0)[rest], two.movedim(axis, 0)[rest])
    return scale if same and scale and not torch.equal(one, two) else 0


def _perturbed(example: Example, axis: int) -> tuple[Example, int] | None:
    """The example with its first sample changed, and how many samples it has along an axis."""
    sizes = [t.shape[axis] for t in example.tensors if t.ndim > axis + (axis > 0)]
    if not sizes or sizes[0] < 2:
        return None

    def other(leaf: Any) -> Any:
        if (
            not isinstance(leaf, Tensor)
            or leaf.ndim <= axis
            or leaf.shape[axis] != sizes[0]
            or leaf.dtype is torch.bool
        ):
            return leaf
        leaf = leaf.clone()
        first = leaf.movedim(axis, 0)[0]
        if leaf.is_floating_point():
            first.mul_(-0.7).add_(0.1)
        elif first.ndim:
            first.copy_(first.flip(-1))
        return leaf

    made = Example(())
    made.args, made.kwargs = torch.utils._pytree.tree_map(other, (example.args, example.kwargs))
    return made, sizes[0]


def _streams(net: nn.Module, example: Example, junctions: list[ForeignJunction], training: bool) -> dict[str, Tensor]:
    def run() -> dict[str, Tensor]:
        seen: dict[str, Tensor] = {}
        with _under(junctions, Noting(seen)), at_rest(net, training), torch.no_grad():
            torch.manual_seed(0)
            args, kwargs = example.copied()
            net(*args, **kwargs)
        return seen

    return without_hooks(net, run)


def rules_asked(net: nn.Module, example: Example, junctions: list[ForeignJunction], training: bool) -> Counter[str]:
    """How often a run of the network asks the rule of each junction."""

    def run() -> Counter[str]:
        seen: Counter[str] = Counter()
        with _under(junctions, Asked(seen)), at_rest(net, training), torch.no_grad():
            args, kwargs = example.copied()
            net(*args, **kwargs)
        return seen

    return without_hooks(net, run)


def find_mixing(net: nn.Module, example: Example, junctions: list[ForeignJunction]) -> None:
    """Set `apart` of junctions with a program: False where, in train mode, samples depend on each other."""
    mixing: set[str] = set()

    def run() -> None:
        args, kwargs = example.copied()
        with _under(junctions, Apart(mixing)), at_rest(net, True), torch.no_grad(), _NoDropout():
            net(*args, **kwargs)

    try:
        without_hooks(net, run)
    except Exception:
        mixing.update(junction.place.name for junction in junctions)
    for junction in junctions:
        junction.apart = junction.place.name not in mixing


@contextmanager
def _under(junctions: list[ForeignJunction], rule: Rule) -> Iterator[None]:
    before = [(junction, junction.rule, junction.seat) for junction in junctions]
    for junction in junctions:
        junction.rule, junction.seat = rule, junction.place
    try:
        yield
    finally:
        for junction, old, seat in before:
            junction.rule, junction.seat = old, seat


class _NoDropout(TorchFunctionMode):
    """While open, dropout hands on what it gets, so that two runs can be compared."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if "dropout" in name and args:
            return args[0]
        if name == "multi_head_attention_forward":
            kwargs = {**kwargs, "training": False}
        if name == "scaled_dot_product_attention":
            kwargs = {**kwargs, "dropout_p": 0.0}
            args = args[:4] if len(args) > 4 else args
        return func(*args, **kwargs)
