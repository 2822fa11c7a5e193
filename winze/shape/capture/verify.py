"""Hold a program against the live forward: results, gradients, random draws and side effects have to be the same."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from winze.modes import rng_unchanged
from winze.shape.capture.signature import signature
from winze.shape.capture.split import Plan, SplitSum
from winze.shape.capture.survey import Record, copied, where
from winze.shape.capture.watched import Watched, left_behind
from winze.shape.live.definition import CaptureError
from winze.shape.live.live import own_forward
from winze.shape.sums.bare_run import plain, without_hooks
from winze.shape.sums.surroundings import at_rest

CANCELLED = 1e-6  # the rounding of values that cancel out, as a share of the largest value beside them


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
    with at_rest(holder), plain(holder), torch.enable_grad(), warnings.catch_warnings():
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
