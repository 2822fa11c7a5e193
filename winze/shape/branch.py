"""Shortcut and branch as a rule receives them: calls, not results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from winze.shape.rowwise.gather import Rows, add, fork, take
from winze.shape.rowwise.gradients import with_gradient_where

if TYPE_CHECKING:
    from winze.shape.junction import Moment

Shortcut = Callable[[], Tensor]
"""`shortcut()` is the tensor the network would add: after its projection, norm or pooling, which run only then."""


class ShapeError(ValueError):
    """Shapes of shortcut and branch cannot be added."""


@dataclass(frozen=True)
class StreamRows:
    """Some samples of a branch's stream, gathered."""

    rows: Rows
    stream: Tensor


class Branch:
    """`branch()` is f(x); `branch(rows=index)` on some samples only; `branch(frozen=True)` with detached parameters.

    `frozen` may be a scalar mask, which stays on its device. Within one join only the first call moves BatchNorm
    statistics. `scales` says for each input how many rows belong to one sample: 1 for a batch-first tensor, k where
    windows are folded into the first axis, 0 where the rows are no samples at all. The stream is the first input.
    """

    def __init__(
        self,
        run: Callable[..., Any],
        inputs: Sequence[Any],
        scales: Sequence[int],
        owned: Callable[[], tuple[Sequence[nn.Module], Sequence[tuple[nn.Module, str]]]],
        moment: Moment,
        *,
        training: bool,
        gate: nn.Module | None = None,
        sides: int = 0,
        apart: bool = True,
        first: bool = False,
        axis: int = 0,
        keeper: nn.Module | None = None,
    ) -> None:
        self.training = training
        self.gate = gate
        self.axis = axis
        self._keeper = keeper
        self.sides: tuple[Any, ...] = ()
        self._run, self._inputs, self._scales = run, inputs, scales
        self._owned, self._moment = owned, moment
        self._side_count, self._apart, self._first = sides, apart, first
        self._called = False

    def __call__(self, rows: Tensor | StreamRows | None = None, frozen: bool | Tensor = False) -> Tensor:
        inputs = self._inputs if rows is None else self._select(rows)
        unknown = not torch.compiler.is_compiling() and self.training and self._moment.writes is None
        before = self._written() if unknown else None
        if not self._called and frozen is False:
            result = self._run(*inputs)
        else:
            moves = not self._called or not self.training
            statistics = nullcontext() if moves else _statistics_at_rest(self._norms(), self._buffered())
            with statistics, nullcontext() if frozen is False else _frozen(self._slots(), frozen):
                result = self._run(*inputs)
        if unknown:
            self._moment.writes = before != self._written()
        self._called = True
        if not self._side_count:
            return result
        if rows is None or not self.sides:
            self.sides = tuple(result[1:])
        return result[0]

    def onto(self, shortcut: Tensor, value: Tensor, factor: Tensor | None = None) -> Tensor:
        """`shortcut + factor value`, in the network's own order of operands, which determines the memory format."""
        _check_shapes(shortcut.shape, value.shape)
        if factor is None:
            return value + shortcut if self._first else shortcut + value
        if self._first or shortcut.dtype != value.dtype:
            return self.onto(shortcut, value * factor)
        return torch.addcmul(shortcut, value, factor)

    @property
    def samples(self) -> int:
        """The number of samples; raises where the first axis of the stream does not hold samples."""
        scale = self._scales[0]
        if scale == 0:
            raise ValueError(
                "the first axis of this stream does not hold samples, so no sample can be masked here: "
                'use mask="batch", or leave this junction out with `where`'
            )
        return int(self._inputs[0].shape[self.axis]) // scale

    @property
    def _rows(self) -> int:
        """The number of rows of a per-batch mask."""
        return int(self._inputs[0].shape[self.axis]) // max(1, self._scales[0])

    @property
    def on_gpu(self) -> bool:
        """Whether the stream is on a device that runs asynchronously."""
        return bool(self._inputs[0].is_cuda)

    @property
    def row_size(self) -> int:
        """The number of elements of the stream per sample."""
        return int(self._inputs[0].numel()) // max(1, self.samples)

    @property
    def stage(self) -> int | None:
        """1 or 2 under an `Alternation`, else None."""
        return self._moment.stage

    @property
    def keep(self) -> Tensor | None:
        """Which samples keep this branch in the current pair of stages; None without an `Alternation`."""
        return None if self._moment.alternation is None else self._moment.keep(self.samples)

    @property
    def coin(self) -> Tensor:
        """For a per-batch mask: the mask as a scalar tensor."""
        return self._moment.keep(self._rows)[0]

    @property
    def kept_whole(self) -> bool:
        """For a per-batch mask: whether this branch is kept."""
        return self._moment.kept_whole(self._rows)

    @property
    def parted(self) -> tuple[Rows, Rows]:
        """The kept and the dropped samples of the current pair of stages."""
        return self._moment.parted(self.samples)

    @property
    def separable(self) -> bool:
        """Whether each sample's result depends on that sample alone, so that some can run without the others."""
        apart = self._apart and self._scales[0] > 0 and self.axis == 0
        return apart and not any(norm.training or norm.running_mean is None for norm in self._norms())

    @property
    def has_sides(self) -> bool:
        """Whether it hands on more than its result, so that it cannot be left out."""
        return self._side_count > 0

    @property
    def holds_statistics(self) -> bool:
        """Whether running it in train mode moves statistics: those of BatchNorm, or buffers as far as is known."""
        if any(norm.training and norm.track_running_stats for norm in self._norms()):
            return True
        return self.training and self._moment.writes is not False and bool(self._buffered())

    def parameters(self) -> list[nn.Parameter]:
        """The trainable parameters of the branch."""
        found = [owner._parameters[name] for owner, name in self._slots()]
        return [parameter for parameter in dict.fromkeys(found) if parameter is not None]

    def sources(self) -> list[Tensor]:
        """What gets a gradient through the branch alone: its parameters, and what it is given beside the stream."""
        beside = [x for x in self._inputs[1:] if isinstance(x, Tensor) and x.requires_grad and x is not self._inputs[0]]
        return [*self.parameters(), *beside]

    def _slots(self) -> list[tuple[nn.Module, str]]:
        """Each parameter as its module and its name there."""
        modules, loose = self._owned()
        inside = [m for module in modules for m in module.modules()]
        return [
            *loose,
            *((m, name) for m in dict.fromkeys(inside) for name, p in m._parameters.items() if p is not None),
        ]

    def _norms(self) -> list[_NormBase]:
        """BatchNorm and similar layers; every step calls this, and `modules()`, which builds names, is slower."""
        found, left = [], list(self._owned()[0])
        while left:
            module = left.pop()
            if isinstance(module, _NormBase):
                found.append(module)
            left.extend(child for child in module._modules.values() if child is not None)
        return found

    def _buffered(self) -> list[nn.Module]:
        """Modules whose buffers a run may move, other than the norms of PyTorch."""
        inside = [m for module in self._owned()[0] for m in module.modules()]
        keeper = [] if self._keeper is None else [self._keeper]
        return [m for m in dict.fromkeys([*keeper, *inside]) if m._buffers and not isinstance(m, _NormBase)]

    def _written(self) -> list[tuple[int, int]]:
        """Something that changes when a run writes into a buffer, or puts another in its place."""
        buffers = (b for module in self._buffered() for b in module._buffers.values() if b is not None)
        return [(id(b), -1 if b.is_inference() else b._version) for b in buffers]

    def spread(self, keep: Tensor, like: Tensor) -> Tensor:
        """A mask over samples as a factor for `like`: repeated for windows, with an axis of size 1 for each other."""
        if keep.ndim == 0:
            return keep.to(like.dtype)
        scale = self._scales[0]
        rows = keep if scale == 1 else keep.repeat_interleave(scale)
        return rows.to(like.dtype).view(*(1,) * self.axis, -1, *(1,) * (like.ndim - 1 - self.axis))

    def part(self, stream: Tensor, *rows: Rows) -> tuple[Tensor, list[StreamRows]]:
        """Sets of samples to run, and the stream to add their results to; `stream` is the shortcut's result."""
        own = self._inputs[0]
        stream, *taken = fork(own, *rows) if stream is own else (stream, *(take(own, one) for one in rows))
        return stream, [StreamRows(one, x) for one, x in zip(rows, taken, strict=True)]

    def onto_rows(self, stream: Tensor, *parts: tuple[Tensor, StreamRows], factor: float = 1.0) -> Tensor:
        """`stream + factor f(x)` at the samples of each part, from the branch's values for them."""
        for value, _ in parts:
            _check_shapes(stream.shape[1:], value.shape[1:])
        return add(stream, *((value, part.rows) for value, part in parts), factor=factor)

    def _select(self, rows: Tensor | StreamRows) -> list[Any]:
        pairs = list(zip(self._inputs, self._scales, strict=True))
        if isinstance(rows, StreamRows):
            return [rows.stream, *(take(x, rows.rows) if scale else x for x, scale in pairs[1:])]
        if rows.numel() == 0:
            raise ValueError("a branch cannot run on zero rows: leave the call out")
        return [x.index_select(0, self._row_index(rows, scale)) if scale else x for x, scale in pairs]

    @staticmethod
    def _row_index(rows: Tensor, scale: int) -> Tensor:
        if scale == 1:
            return rows
        return (rows[:, None] * scale + torch.arange(scale, device=rows.device)).flatten()


class Computed(Branch):
    """A branch that has already run in the network's own forward: its value is known, and it cannot run again."""

    def __init__(
        self,
        value: Tensor,
        slots: Sequence[tuple[nn.Module, str]],
        moment: Moment,
        *,
        training: bool,
        gate: nn.Module | None,
        first: bool,
        axis: int = 0,
        scale: int = 1,
        fused: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        nothing: tuple[Sequence[nn.Module], Sequence[tuple[nn.Module, str]]] = ((), slots)
        super().__init__(
            lambda: value, (value,), (scale,), lambda: nothing, moment, training=training, gate=gate, first=first
        )
        self.value, self.axis, self._fused = value, axis, fused

    def __call__(self, rows: Tensor | StreamRows | None = None, frozen: bool | Tensor = False) -> Tensor:
        if rows is not None or frozen is not False:
            raise RuntimeError(
                "a rule that runs its branch on some rows or with frozen weights must declare it: "
                'write needs = "program" in its class'
            )
        return self.value.detach() if self.value.requires_grad and not torch.is_grad_enabled() else self.value

    def onto(self, shortcut: Tensor, value: Tensor, factor: Tensor | None = None) -> Tensor:
        if factor is not None:
            value = value * factor
        if value is self.value and self._fused is not None:
            return self._fused(shortcut)
        return value + shortcut if self._first else shortcut + value

    @property
    def separable(self) -> bool:
        return False

    @property
    def holds_statistics(self) -> bool:
        return False


def _check_shapes(shortcut: torch.Size, value: torch.Size) -> None:
    if shortcut != value:
        raise ShapeError(
            f"the shortcut is {tuple(shortcut)} but the branch gives {tuple(value)}: "
            "put a projection on the shortcut, or make the branch keep the shape"
        )


@contextmanager
def _frozen(slots: list[tuple[nn.Module, str]], frozen: bool | Tensor) -> Iterator[None]:
    """Replace parameters by detached tensors; changing `requires_grad` would break torch.compile."""
    learning = [(owner, name, owner._parameters[name]) for owner, name in slots]
    for owner, name, parameter in learning:
        assert parameter is not None
        still = with_gradient_where(~frozen, parameter) if isinstance(frozen, Tensor) else parameter.detach()
        owner._parameters[name] = still  # type: ignore[assignment]
    try:
        yield
    finally:
        for owner, name, parameter in learning:
            owner._parameters[name] = parameter


@contextmanager
def _statistics_at_rest(norms: list[_NormBase], others: list[nn.Module]) -> Iterator[None]:
    """While open, no statistics are updated: norms track none, and other modules write into copies of their buffers."""
    moving = [norm for norm in norms if norm.track_running_stats]
    before = [(module, dict(module._buffers)) for module in others]
    for norm in moving:
        norm.track_running_stats = False
    for module, buffers in before:
        module._buffers.update({name: b if b is None else b.clone() for name, b in buffers.items()})
    try:
        yield
    finally:
        for norm in moving:
            norm.track_running_stats = True
        for module, buffers in before:
            module._buffers.update(buffers)
