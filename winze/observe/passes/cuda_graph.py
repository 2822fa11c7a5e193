"""The one place where CUDA graphs are captured, and the forward of a scan that is replayed from one.

In small networks a GPU waits for kernel launches and Python hooks; a CUDA graph needs one launch.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

BEFORE = 3
"""Batches that run without a graph first, so that lazy initialisation is over."""
WORTH = 12
"""Batches below which no capture is tried: a capture itself takes some forwards."""
SMALL = 1 << 22
"""Features of all places of a batch, which a graph holds at once, and elements of the network's input: 16 MB in
float32. Larger batches keep a GPU busy without a graph, which would double their memory."""
UNEQUAL = 0.01
"""The share of integers that may differ between a replay and the plain forward."""
DEVICES = ("cuda",)
"""Device types on which forwards can be captured."""
EMPTY = "The CUDA Graph is empty"
"""The beginning of PyTorch's warning about a graph without a kernel."""

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
T = TypeVar("T")

_kept: dict[torch.device, tuple[Any, Any]] = {}
"""For each device a graph that is no longer used, and its stream: the next capture reuses both, and their memory."""


def is_worth_it(net: nn.Module, device: torch.device | None, batches: int) -> bool:
    """Whether a capture is possible and so many batches repay it; no hooks of users are called in a replay."""
    if device is None or device.type not in DEVICES or batches < WORTH:
        return False
    kinds = (kind for module in net.modules() for kind in (module._forward_hooks, module._forward_pre_hooks))
    return all(getattr(hook, "__module__", "").startswith("winze.") for hooks in kinds for hook in hooks.values())


class Replay(Generic[T]):
    """A forward that is replayed from a CUDA graph once there is one.

    A replay is first compared with the plain forward of two batches; its outputs are overwritten beforehand, so that a
    tensor that the graph does not write cannot pass for a result. A network that synchronises with the GPU, because it
    reads values or moves them to the CPU, is not captured; one whose capture fails or is empty, or whose replay
    differs, runs without a graph to the end. The next batch overwrites the memory of a replay's results.
    """

    def __init__(self, forward: Callable[[Arguments], T], device: torch.device) -> None:
        self.forward, self.device = forward, device
        self.seen = 0
        self.given_up = False
        self._earlier: tuple[Arguments, T] | None = None
        self._again: Callable[[], None] | None = None
        self._done: Callable[[], None] = lambda: None

    def __call__(self, arguments: Arguments) -> T | None:
        """The result of the forward for one batch; None where the caller has to run it."""
        self.seen += 1
        if self.given_up or self.seen <= BEFORE:
            return None
        if self._again is not None:
            return self._replayed(arguments) if kind(arguments) == self._kind else None
        if kind(arguments) is None:
            self.given_up = True
            return None
        if self._earlier is None or kind(self._earlier[0]) != kind(arguments):
            found = self.forward(arguments)
            self._earlier = arguments, found
            return found
        return self._recorded(arguments, self.forward(arguments), *self._earlier)

    def close(self) -> None:
        """Leave the memory of the graph to the next capture."""
        self._done()

    def _recorded(self, now: Arguments, plain: T, before: Arguments, plain_before: T) -> T:
        """Capture the present batch; return the replayed result if it agrees with the plain one."""
        self._kind, self._earlier = kind(now), None
        self._inputs: Arguments = pytree.tree_map(lambda leaf: leaf.clone() if isinstance(leaf, Tensor) else leaf, now)
        with suppress(Exception):  # whatever a forward does that a graph cannot: it runs without one, as before
            without_waiting(lambda: self.forward(self._inputs))
            self._again, self._found, self._done = record(lambda: self.forward(self._inputs), self.device)
            known = plain_before, plain
            if self._agrees(before, plain_before, known) and self._agrees(now, plain, known):
                return self._found
        self.given_up, self._again = True, None
        return plain

    def _agrees(self, arguments: Arguments, plain: T, known: tuple[T, T]) -> bool:
        """Whether a replay writes all outputs, and agrees with the plain forward."""
        before = spoil(self._found, known)
        if alike(self._replayed(arguments), plain):
            return True
        for leaf, value in before:  # one that the graph does not write may be a constant of the network
            leaf.copy_(value)
        return False

    def _replayed(self, arguments: Arguments) -> T:
        pairs = zip(pytree.tree_leaves(self._inputs), pytree.tree_leaves(arguments), strict=True)
        for held, leaf in pairs:
            if isinstance(held, Tensor):
                held.copy_(leaf)
        assert self._again is not None
        self._again()
        return self._found


def without_waiting(work: Callable[[], Any]) -> None:
    """Run `work`, and raise where it synchronises with the GPU: PyTorch 2.11 does not recover from capturing that."""
    if not torch.cuda.is_available():
        return
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns that this mode does not detect every synchronisation
        try:
            torch.cuda.set_sync_debug_mode("error")
            work()
        finally:
            torch.cuda.set_sync_debug_mode(before)


def record(work: Callable[[], T], device: torch.device) -> tuple[Callable[[], None], T, Callable[[], None]]:
    """Capture the kernels that `work` launches, without running them.

    Returns a function that replays them, their results, and a function that releases the graph.
    """
    last, stream = _kept.pop(device, (None, None))
    with torch.cuda.device(device):
        stream = stream or torch.cuda.Stream()
        graph, pool = torch.cuda.CUDAGraph(), None if last is None else last.pool()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):  # torch.cuda.graph would empty the memory cache each time
            begin = partial(
                graph.capture_begin, pool, capture_error_mode="thread_local"
            )  # a loader's threads keep running
            found = captured(work, begin, graph.capture_end)

    def done() -> None:
        _kept[device] = graph, stream

    return graph.replay, found, done


class EmptyGraphError(RuntimeError):
    """A CUDA graph holds no kernel: replaying it would leave stale results."""


def captured(work: Callable[[], T], begin: Callable[[], None], end: Callable[[], None]) -> T:
    """Run `work` between the beginning and the end of a capture; an empty graph raises.

    A graph is empty where the work raises before its first kernel, such as one that draws from a generator of its own,
    and where its kernels run on another device or stream. PyTorch warns of it, and replays nothing.
    """
    begin()
    try:
        found = work()
    except BaseException:
        with warnings.catch_warnings(), suppress(Exception):  # the error of `work` is the cause
            warnings.filterwarnings("ignore", EMPTY)
            end()
        raise
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        end()
    for warning in heard:
        if re.match(EMPTY, str(warning.message)):
            raise EmptyGraphError("nothing was launched on the stream of the capture")
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return found


def spoil(found: T, known: tuple[T, ...]) -> list[tuple[Tensor, Tensor]]:
    """Fill the outputs of a graph with NaN, or whole numbers with 0 or 1, whichever is rarer; each with its copy.

    Tensors that plain forwards return from the same memory are constants, such as a weight: no graph writes them, and
    they are left alone.
    """
    before: list[tuple[Tensor, Tensor]] = []
    for leaf, *results in zip(*(pytree.tree_leaves(one) for one in (found, *known)), strict=True):
        if isinstance(leaf, Tensor) and leaf.numel() and not any(_shares_memory(leaf, one) for one in results):
            before.append((leaf, leaf.clone()))
            leaf.fill_(torch.nan if leaf.is_floating_point() else int((results[0] == 0).double().mean() > 0.5))
    return before


def _shares_memory(one: Tensor, other: Any) -> bool:
    return isinstance(other, Tensor) and one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def kind(arguments: Arguments) -> list[Any] | None:
    """The key that batches of one graph share; None where there can be no graph."""
    leaves, tree = pytree.tree_flatten(arguments)
    told: list[Any] = [tree]
    for leaf in leaves:
        if isinstance(leaf, Tensor) and leaf.device.type in DEVICES and _is_plain(leaf):
            told.append((leaf.shape, leaf.dtype, leaf.device, leaf.stride()))
        elif leaf is None or isinstance(leaf, bool | int | float | str):
            told.append((type(leaf), leaf))
        else:
            return None
    return told


def _is_plain(tensor: Tensor) -> bool:
    return tensor.layout == torch.strided and not tensor.is_nested


def alike(one: T, other: T) -> bool:
    """Whether two forwards agree up to rounding."""
    first, second = (pytree.tree_leaves(found) for found in (one, other))
    return len(first) == len(second) and all(map(_alike, first, second))


def _alike(one: Any, other: Any) -> bool:
    if not (isinstance(one, Tensor) and isinstance(other, Tensor)):
        return type(one) is type(other)
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if not one.numel():
        return True
    if not one.is_floating_point():  # an argmax, for example, of two nearly equal values
        return float((one != other).double().mean()) <= UNEQUAL
    size = other.double().abs().nan_to_num(0.0, 0.0, 0.0)
    scale = size.amax(-2, keepdim=True) if size.ndim > 1 else size.max()  # per feature: some are far larger
    off = (one.double() - other.double()).abs() > 1e-3 * scale
    return not bool(off.any()) and torch.equal(one.isfinite(), other.isfinite())
