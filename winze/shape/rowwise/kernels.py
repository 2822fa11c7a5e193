"""The two Triton kernels of `gather`: samples out of a tensor, and values added back to it."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 4096  # elements of one sample per Triton program


def gather(
    x: Tensor, order: Tensor, run: tuple[int, int], meant: tuple[int, int] | None, factor: float, dtype: torch.dtype
) -> Tensor:
    """Samples `order[run]` of `x`; with `meant`, `factor` times those, and zeros for the others."""
    x, samples = _dense(x), order.shape[0]
    rows, size = x.shape[0] // samples, x.numel() // samples
    count = run[1] - run[0]
    out = torch.empty_strided((count * rows, *x.shape[1:]), x.stride(), dtype=dtype, device=x.device)
    low, high = run if meant is None else meant
    grid = (triton.cdiv(size, BLOCK), count)
    _gather[grid](x, out, order, run[0], low, high, size, factor, blank=meant is not None, block=BLOCK)
    return out


def scatter(
    base: Tensor | None,
    order: Tensor,
    where: Tensor,
    factor: float,
    spans: tuple[tuple[tuple[int, int], tuple[int, int]], ...],
    values: tuple[Tensor, ...],
    dtype: torch.dtype,
) -> Tensor:
    """`base`, or zeros, plus `factor` times one or two sets of values at the samples that are meant."""
    like = _dense(values[0] if base is None else base)
    samples, rows = order.shape[0], values[0].shape[0] // (spans[0][1][1] - spans[0][1][0])
    shape = (samples * rows, *like.shape[1:])
    out = torch.empty_strided(shape, like.stride(), dtype=dtype, device=like.device)
    values = tuple(_laid_out(value, like) for value in values)
    size = out.numel() // samples
    (low, high), (first, _) = spans[0]
    two = len(values) == 2
    (low2, high2), (first2, _) = spans[1] if two else spans[0]
    grid = (triton.cdiv(size, BLOCK), samples)
    _scatter[grid](
        *(like if base is not None else out, out, where, size, factor),
        *(values[0], first, low, high),
        *(values[-1], first2, low2, high2),
        base=base is not None,
        two=two,
        block=BLOCK,
    )
    return out


def _dense(x: Tensor) -> Tensor:
    """`x` with each sample contiguous in memory."""
    if x.is_contiguous():
        return x
    rest = x.stride()[1:]
    inner = sorted((stride, size) for stride, size in zip(rest, x.shape[1:], strict=True) if size > 1)
    expected = 1
    for stride, size in inner:
        if stride != expected:
            return x.contiguous()
        expected *= size
    return x if x.shape[0] <= 1 or x.stride(0) == expected else x.contiguous()


def _laid_out(value: Tensor, like: Tensor) -> Tensor:
    """`value` with the memory layout of `like`."""
    if value.stride() == like.stride():
        return value
    out = torch.empty_strided(value.shape, like.stride(), dtype=value.dtype, device=value.device)
    return out.copy_(value)


@triton.jit(do_not_specialize=["first", "low", "high"])
def _gather(x, out, order, first, low, high, size, factor, blank: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(1)
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < size
    sample = tl.load(order + first + row).to(tl.int64)
    if blank:
        meant = (first + row >= low) & (first + row < high)
        value = tl.load(x + sample * size + at, mask=inside & meant, other=0.0) * factor
    else:
        value = tl.load(x + sample * size + at, mask=inside)
    tl.store(out + row.to(tl.int64) * size + at, value, mask=inside)


@triton.jit(do_not_specialize=["first", "low", "high", "first2", "low2", "high2"])
def _scatter(
    under, out, where, size, factor,
    one, first, low, high,
    other, first2, low2, high2,
    base: tl.constexpr, two: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    sample = tl.program_id(1)
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < size
    place = tl.load(where + sample).to(tl.int64)
    meant = (place >= low) & (place < high)
    total = tl.load(one + (place - first) * size + at, mask=inside & meant, other=0.0).to(tl.float32) * factor
    if two:
        meant2 = (place >= low2) & (place < high2)
        more = tl.load(other + (place - first2) * size + at, mask=inside & meant2, other=0.0)
        total += more.to(tl.float32) * factor
    if base:
        total += tl.load(under + sample.to(tl.int64) * size + at, mask=inside).to(tl.float32)
    tl.store(out + sample.to(tl.int64) * size + at, total, mask=inside)
