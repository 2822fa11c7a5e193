"""Which samples keep a branch: rates over depth, and two ways to draw."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from winze.depth import Place
from winze.shape.calls import Branch

PROFILES = ("linear", "constant")
MASKS = ("sample", "batch")
DRAWS = ("bernoulli", "count")
COMPUTES = ("auto", "dense", "rows")


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
    """True for each sample that keeps the branch: independent coins, or a fixed number of dropped samples."""
    noise = torch.rand(samples, device=device, generator=generator)
    if draw == "bernoulli":
        return noise >= rate
    keep = torch.ones(samples, dtype=torch.bool, device=device)
    keep[noise.argsort()[: dropped_count(rate, samples)]] = False
    return keep


def dropped_count(rate: float, samples: int) -> int:
    """How many samples `draw="count"` drops."""
    return round(rate * samples)


def shapes_are_fixed() -> bool:
    """Whether the step is being compiled or captured, so that masks must not steer Python."""
    return torch.compiler.is_compiling() or (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing())


def runs_rows(compute: str, draw: str, branch: Branch, place: Place) -> bool:
    """Whether a branch is run on its active samples only.

    `auto` does so where that is exact and pays: with a fixed number of samples, since a number that changes from step
    to step costs a GPU more in fresh memory and kernel choices than it saves, and not for tiny branches.
    """
    if compute == "dense":
        return False
    if compute == "rows":
        if not branch.separable:
            raise ValueError(
                f'compute="rows" at {place.name!r}: its samples depend on each other (BatchNorm in train mode, or a '
                'first axis that holds no samples); use compute="auto" or "dense"'
            )
        return True
    return draw == "count" and branch.separable and branch.samples >= 16 and branch.row_size >= 4096


def skip(stream: Tensor, branch: Branch) -> Tensor:
    """The junction without its branch: statistics still move, and gradients are zero, not missing."""
    if branch.holds_statistics:
        with torch.no_grad():
            branch()
    return with_zero_gradients(stream.clone(), branch.parameters())


def with_zero_gradients(value: Tensor, parameters: Iterable[nn.Parameter]) -> Tensor:
    """`value`, from which the parameters get a gradient of zeros, so that optimisers and DDP see them as ever."""
    learning = [p for p in parameters if p.requires_grad]
    if not learning or not torch.is_grad_enabled():
        return value
    result: Tensor = _ZeroGradients.apply(value, *learning)
    return result


def with_gradient_where(mask: Tensor, value: Tensor) -> Tensor:
    """`value`, whose gradient is multiplied by `mask`."""
    result: Tensor = _MaskedGradient.apply(value, mask)
    return result


class _ZeroGradients(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, *parameters: Tensor) -> Tensor:
        ctx.save_for_backward(*parameters)
        ctx.mark_dirty(value)
        return value

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        return gradients[0], *(torch.zeros_like(p) for p in ctx.saved_tensors)


class _MaskedGradient(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(value: Tensor, mask: Tensor) -> Tensor:
        return value.view_as(value)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0] * ctx.saved_tensors[0], None
