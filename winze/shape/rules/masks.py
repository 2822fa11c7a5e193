"""Masks that say which samples keep a branch: drop rates over depth, and two ways to draw."""

from __future__ import annotations

import torch
from torch import Tensor

from winze.place import Place
from winze.shape.branch import Branch
from winze.shape.rowwise.gather import Rows, parted
from winze.shape.rowwise.gradients import with_zero_gradients, without_graph

PROFILES = ("linear", "constant")
MASKS = ("sample", "batch")
DRAWS = ("bernoulli", "count")
COMPUTES = ("auto", "dense", "rows")
LEAST_ON_GPU = 1 << 25  # elements in a stream at 256 images: rows slow ViT-S down, and speed ViT-B up


def rate_at(rate: float, profile: str, place: Place) -> float:
    """The drop rate at a place: `rate` everywhere, or growing linearly from 0 at the first to `rate` at the last."""
    return rate * place.depth if profile == "linear" else rate


def draw_keep(
    rate: float,
    samples: int,
    draw: str,
    device: torch.device | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """True for each sample that keeps the branch: independent draws, or a fixed number of dropped samples."""
    noise = torch.rand(samples, device=device, generator=generator)
    if draw == "bernoulli":
        return noise >= rate
    keep = torch.ones(samples, dtype=torch.bool, device=device)
    keep[noise.argsort()[: dropped_count(rate, samples)]] = False
    return keep


def draw_parted(rate: float, samples: int, draw: str, device: torch.device) -> tuple[Rows, Rows]:
    """Samples that keep the branch, and the others; drawn on the CPU, since the host needs their number."""
    if draw == "count":
        dropped = dropped_count(rate, samples)
        order = torch.rand(samples, device=device).argsort().roll(-dropped).to(torch.int32)
        return parted(order, order.argsort().to(torch.int32), samples - dropped)
    order, where, kept = ordered(draw_keep(rate, samples, draw)[None])
    return parted(sent(order[0], device), sent(where[0], device), kept[0], granule(samples))


def ordered(table: Tensor) -> tuple[Tensor, Tensor, list[int]]:
    """For masks [junction, sample]: the samples with the kept ones first, the inverse, and how many are kept."""
    order = table.logical_not().to(torch.uint8).argsort(dim=1, stable=True)
    return order.to(torch.int32), order.argsort(dim=1).to(torch.int32), table.sum(1).tolist()


def sent(table: Tensor, device: torch.device) -> Tensor:
    """Copy a CPU tensor to the device without synchronising."""
    return table.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else table.to(device)


def granule(samples: int) -> int:
    """The multiple to which numbers of samples are rounded: each new number costs a GPU memory and kernel choices."""
    return max(1, samples // 32)


def on_rows(stream: Tensor, branch: Branch, rows: Rows, factor: float = 1.0) -> Tensor:
    """`stream + factor f(x)` for some samples, the stream alone for the others."""
    if not len(rows):
        return skip(stream, branch)
    stream, (part,) = branch.part(stream, rows)
    return branch.onto_rows(stream, (branch(part), part), factor=factor)


def dropped_count(rate: float, samples: int) -> int:
    """The number of samples that `draw="count"` drops."""
    return round(rate * samples)


def shapes_are_fixed() -> bool:
    """Whether the step is being compiled or captured, so that Python control flow must not depend on masks."""
    return torch.compiler.is_compiling() or (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing())


def transformed() -> bool:
    """Whether a torch.func transform (vmap, grad, ...) is active."""
    return not torch.compiler.is_compiling() and torch._C._functorch.peek_interpreter_stack() is not None


def runs_rows(compute: str, draw: str, branch: Branch, place: Place) -> bool:
    """Whether a branch is run on its active samples only.

    `auto` does so where it is exact and faster: not for tiny branches, nor where a GPU would wait for Python. In a
    compiled or captured step nothing waits, but the number of samples must be fixed. Networks under torch.func share
    one run, so none has rows of its own.
    """
    if compute == "dense" or (draw != "count" and shapes_are_fixed()):
        return False
    if compute == "rows":
        if not branch.separable:
            raise ValueError(
                f'compute="rows" at {place.name!r}: its samples depend on each other (BatchNorm in train mode, or a '
                'first axis that holds no samples); use compute="auto" or "dense"'
            )
        return True
    if transformed() or not branch.separable or branch.samples < 16 or branch.row_size < 4096:
        return False
    return shapes_are_fixed() or not branch.on_gpu or branch.samples * branch.row_size >= LEAST_ON_GPU


def may_skip(compute: str, branch: Branch) -> bool:
    """Whether a branch with one coin for the whole batch may be left out, or run without a graph."""
    return compute != "dense" and not branch.has_sides and not shapes_are_fixed()


def skip(stream: Tensor, branch: Branch) -> Tensor:
    """The junction without its branch: batch statistics still update, and gradients are zero, not missing."""
    if branch.holds_statistics:
        with without_graph():
            branch()
    return with_zero_gradients(stream.clone(), branch.sources())
