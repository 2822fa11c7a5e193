"""Run a network without rules of winze and without hooks of users, as it is read."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn.modules import module as everything

from winze.shape.live.live import live_of
from winze.shape.sums.dataflow import Dataflow, recorded
from winze.shape.sums.example import Example
from winze.shape.sums.surroundings import at_rest
from winze.shape.sums.tensors import tensors_in

T = TypeVar("T")
OWN_HOOKS = "winze.shape.rewire"  # keeps torch's transformer layers from their fused kernels


def without_hooks(net: nn.Module, run: Callable[[], T]) -> T:
    """`run` while the hooks of others do not fire; with them where it fails so, for some are part of the network."""
    try:
        with _without_hooks(net):
            return run()
    except Exception:
        return run()


def recorded_run(net: nn.Module, example: Example, training: bool) -> Dataflow:
    """The account of one run in the given mode; afterwards the network is as before."""
    args, kwargs = example.copied()
    with (
        at_rest(net, training),
        _eager(),
        torch.no_grad(),
        recorded(net, tensors_in((args, kwargs))) as flow,
    ):
        net(*args, **kwargs)
    return flow


@contextmanager
def plain(net: nn.Module) -> Iterator[None]:
    """While open, every module runs its own functions, without rules of ours."""
    ours = [live for live in (live_of(module) for module in net.modules()) if live is not None]
    saved = [(live.owner, {n: vars(live.owner)[n] for n in live.originals if n in vars(live.owner)}) for live in ours]
    for live in ours:
        live.restore()
    try:
        yield
    finally:
        for owner, functions in saved:
            vars(owner).update(functions)


def is_own(hook: Any) -> bool:
    """Whether a hook is one of torch that makes weights (weight_norm, pruning), or one of winze."""
    return type(hook).__module__.startswith("torch.nn.utils") or getattr(hook, "__module__", "") == OWN_HOOKS


@contextmanager
def _without_hooks(net: nn.Module) -> Iterator[None]:
    """Hooks of users do not fire, others do."""
    own = [(m._forward_hooks, m._forward_pre_hooks, m._backward_hooks, m._backward_pre_hooks) for m in net.modules()]
    everywhere = everything._global_forward_hooks, everything._global_forward_pre_hooks
    saved = [(hooks, dict(hooks)) for hooks in itertools.chain(*own, everywhere)]
    on_weights = [(p, p._backward_hooks) for p in net.parameters() if p._backward_hooks]
    for hooks, before in saved:
        for number in [number for number, hook in before.items() if not is_own(hook)]:
            del hooks[number]
    for parameter, _ in on_weights:
        parameter._backward_hooks = None
    try:
        yield
    finally:
        for hooks, before in saved:
            hooks.clear()
            hooks.update(before)
        for parameter, of_weight in on_weights:
            parameter._backward_hooks = of_weight


@contextmanager
def _eager() -> Iterator[None]:
    """Compiled parts run as they are written; nothing is imported for networks that were never compiled."""
    if "torch._dynamo" not in sys.modules:
        yield
        return
    with torch.compiler.set_stance("force_eager"):
        yield
