"""Gather some samples of a batch, and scatter-add what was computed on them.

A gather and a scatter that also casts, as autograd functions whose backward is the other one, so that a junction on
rows moves hardly more memory than the plain sum. On a CUDA device each is one Triton kernel; elsewhere, and for tensors
that are not stored row by row, PyTorch's own operations do the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Span = tuple[int, int]


@dataclass(frozen=True)
class Rows:
    """Some samples of a batch: those at positions `meant` of `order`, run together with the others of `run`.

    `order` has every sample once, `where` is its inverse. Running a few extra samples keeps the number of shapes small;
    their results do not enter the sum, and they get no gradient.
    """

    order: Tensor
    where: Tensor
    meant: Span
    run: Span

    def __len__(self) -> int:
        return self.meant[1] - self.meant[0]

    @property
    def index(self) -> Tensor:
        """The samples to run."""
        return self.order[self.run[0] : self.run[1]]


def parted(order: Tensor, where: Tensor, kept: int, granule: int = 1) -> tuple[Rows, Rows]:
    """The first `kept` samples of an order, and the rest; each runs as a multiple of `granule` samples, or as all."""
    total = order.shape[0]

    def padded(count: int) -> int:
        return min(total, -(-count // granule) * granule)

    return (
        Rows(order, where, (0, kept), (0, padded(kept))),
        Rows(order, where, (kept, total), (total - padded(total - kept), total)),
    )


def take(x: Tensor, rows: Rows) -> Tensor:
    """The samples of `x` to run."""
    taken: Tensor = _Take.apply(x, rows.order, rows.where, rows.meant, rows.run)
    return taken


def fork(x: Tensor, *rows: Rows) -> tuple[Tensor, ...]:
    """`x` itself and its samples to run; the gradients of all of them meet in one sum."""
    order, where = rows[0].order, rows[0].where
    forked: tuple[Tensor, ...] = _Fork.apply(x, order, where, *((one.meant, one.run) for one in rows))
    return forked


def add(stream: Tensor, *parts: tuple[Tensor, Rows], factor: float = 1.0) -> Tensor:
    """`stream` with `factor` times the values added at the samples that are meant."""
    order, where = parts[0][1].order, parts[0][1].where
    spans = tuple((rows.meant, rows.run) for _, rows in parts)
    added: Tensor = _Add.apply(stream, order, where, factor, spans, *(values for values, _ in parts))
    return added


class _Take(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, order: Tensor, where: Tensor, meant: Span, run: Span) -> Tensor:
        ctx.save_for_backward(order, where)
        ctx.span = meant, run
        return _gather(x, order, run)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        order, where = ctx.saved_tensors
        return _scatter(None, order, where, 1.0, (ctx.span,), gradients), None, None, None, None


class _Fork(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, order: Tensor, where: Tensor, *spans: tuple[Span, Span]) -> tuple[Tensor, ...]:
        ctx.save_for_backward(order, where)
        ctx.spans = spans
        return x.view_as(x), *(_gather(x, order, run) for _, run in spans)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        order, where = ctx.saved_tensors
        summed = _scatter(gradients[0], order, where, 1.0, ctx.spans, gradients[1:])
        return summed, None, None, *(None for _ in ctx.spans)


class _Add(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        stream: Tensor,
        order: Tensor,
        where: Tensor,
        factor: float,
        spans: tuple[tuple[Span, Span], ...],
        *values: Tensor,
    ) -> Tensor:
        ctx.save_for_backward(order)
        ctx.factor, ctx.spans = factor, spans
        ctx.types = stream.dtype, *(value.dtype for value in values)
        return _scatter(stream, order, where, factor, spans, values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (order,) = ctx.saved_tensors
        gradient = gradients[0]
        needed = zip(ctx.spans, ctx.types[1:], ctx.needs_input_grad[5:], strict=True)
        parts = [
            _gather(gradient, order, run, meant, ctx.factor, kind) if n else None for (meant, run), kind, n in needed
        ]
        return gradient.to(ctx.types[0]), None, None, None, None, *parts


def _gather(
    x: Tensor,
    order: Tensor,
    run: Span,
    meant: Span | None = None,
    factor: float = 1.0,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """The samples `run` of `x`; with `meant`, `factor` times those, and zeros for the others."""
    dtype = x.dtype if dtype is None else dtype
    if _has_kernels(x):
        from winze.shape.rowwise.kernels import gather

        return gather(x, order, run, meant, factor, dtype)
    rows = x.shape[0] // order.shape[0]
    taken = x.index_select(0, _each(order[run[0] : run[1]], rows))
    if meant is None:
        return taken
    taken = taken.to(dtype) if factor == 1 else (taken * factor).to(dtype)
    return _blank(taken, rows * (meant[0] - run[0]), rows * (meant[1] - run[0]))


def _each(samples: Tensor, rows: int) -> Tensor:
    """The row indices of some samples, each of which has `scale` consecutive rows."""
    if rows == 1:
        return samples
    return (samples[:, None] * rows + torch.arange(rows, device=samples.device)).flatten()


def _blank(values: Tensor, low: int, high: int) -> Tensor:
    """`values` with zeros outside the rows from `low` to `high`."""
    if low == 0 and high == len(values):
        return values
    kept = values[low:high]
    before, after = (kept.new_zeros((n, *kept.shape[1:])) for n in (low, len(values) - high))
    return torch.cat([before, kept, after])


def _scatter(
    base: Tensor | None,
    order: Tensor,
    where: Tensor,
    factor: float,
    spans: tuple[tuple[Span, Span], ...],
    values: tuple[Tensor, ...],
) -> Tensor:
    """`base`, or zeros, plus `factor` times the values at the samples that are meant."""
    like = values[0] if base is None else base
    dtype = like.dtype
    for value in values:
        dtype = torch.promote_types(dtype, value.dtype)
    if _has_kernels(like, *values):
        from winze.shape.rowwise.kernels import scatter

        return scatter(base, order, where, factor, spans, values, dtype)
    rows = values[0].shape[0] // (spans[0][1][1] - spans[0][1][0])
    total = like.new_zeros((rows * len(order), *like.shape[1:]), dtype=dtype) if base is None else base.to(dtype)
    for (meant, run), value in zip(spans, values, strict=True):
        value = value.to(dtype) if factor == 1 else value.to(dtype) * factor
        if torch.compiler.is_compiling():
            total = total + _spread(value, where, rows, meant, run)
        else:
            low, high = (rows * (end - run[0]) for end in meant)
            total = total.index_add(0, _each(order[meant[0] : meant[1]], rows), value[low:high])
    return total


def _spread(values: Tensor, where: Tensor, rows: int, meant: Span, run: Span) -> Tensor:
    """Values at their samples and zeros elsewhere, written as a gather, which compilers fuse without atomic sums."""
    inside = (where >= meant[0]) & (where < meant[1])
    inside = inside.repeat_interleave(rows).view(-1, *(1,) * (values.ndim - 1))
    slots = _each((where - run[0]).clamp(0, run[1] - run[0] - 1), rows)
    return torch.where(inside, values.index_select(0, slots), 0)


def _has_kernels(*tensors: Tensor) -> bool:
    """Whether the Triton kernels apply: not while this step is captured as a CUDA graph, and not in float64."""
    return (
        tensors[0].is_cuda
        and not torch.is_grad_enabled()
        and not torch.compiler.is_compiling()
        and all(x.dtype in (torch.float32, torch.bfloat16, torch.float16) for x in tensors)
        and _triton()
    )


def _triton() -> bool:
    from torch.utils._triton import has_triton

    return bool(has_triton())
