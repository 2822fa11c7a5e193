"""Let module calls, attributes, `isinstance` and tensor factories know of the recorder at work in this thread."""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from winze.shape.capture.traced import Traced, plain, traced_leaves

if TYPE_CHECKING:
    from winze.shape.capture.trace import Recorder

FACTORIES = ("arange", "empty", "eye", "full", "linspace", "ones", "rand", "randn", "zeros")
CONTEXTS = (torch.autocast, torch.no_grad, torch.enable_grad)

_state = threading.local()
_lock = threading.RLock()
_isinstance = builtins.isinstance


@contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """While open, what this thread does to traced values is written down by `recorder`."""
    with _patched(), _at_work(recorder):
        yield


@contextmanager
def pause() -> Iterator[None]:
    """While open, nothing is written down: the real thing runs."""
    with _at_work(None):
        yield


@contextmanager
def _at_work(recorder: Recorder | None) -> Iterator[None]:
    before = _active()
    _state.recorder = recorder
    try:
        yield
    finally:
        _state.recorder = before


def _active() -> Recorder | None:
    return getattr(_state, "recorder", None)


def is_recording() -> bool:
    """Whether what this thread does is written down right now."""
    return _active() is not None


@contextmanager
def _patched() -> Iterator[None]:
    with _lock:
        if getattr(_state, "patched", False):
            yield
            return
        patches = list(_patches())
        before = [(owner, name, getattr(owner, name)) for owner, name, _ in patches]
        for owner, name, new in patches:
            setattr(owner, name, new)
        _state.patched = True
        try:
            yield
        finally:
            _state.patched = False
            for owner, name, old in before:
                setattr(owner, name, old)


def _patches() -> Iterator[tuple[Any, str, Any]]:
    yield nn.Module, "__call__", _call(nn.Module.__call__)
    yield nn.Module, "__getattr__", _look_up(nn.Module.__getattr__)
    yield nn.Module, "__setattr__", _put(nn.Module.__setattr__)
    for context in CONTEXTS:
        yield context, "__enter__", _enter(context.__enter__)
    for name in FACTORIES:
        yield torch, name, _factory(getattr(torch, name))
    # a lambda, free of every other function of ours: type checkers that wrap functions call isinstance themselves
    yield (
        builtins,
        "isinstance",
        lambda item, classes: (
            _isinstance(item, classes)
            or (
                type(item) is Traced
                and getattr(_state, "recorder", None) is not None
                and _isinstance(item.value, classes)
            )
        ),
    )


def _call(original: Callable[..., Any]) -> Callable[..., Any]:
    def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        recorder = _active()
        if recorder is None:
            return original(module, *args, **kwargs)
        return recorder.call_module(module, args, kwargs)

    return call


def _look_up(original: Callable[..., Any]) -> Callable[..., Any]:
    def look_up(module: nn.Module, name: str) -> Any:
        found, recorder = original(module, name), _active()
        return recorder.attribute(found) if recorder is not None and isinstance(found, Tensor) else found

    return look_up


def _put(original: Callable[..., Any]) -> Callable[..., Any]:
    """What a forward puts on its module is stored plain, so that no trace outlives the run."""

    def put(module: nn.Module, name: str, value: Any) -> None:
        original(module, name, value if _active() is None else plain(value))

    return put


def _enter(original: Callable[..., Any]) -> Callable[..., Any]:
    """A graph has no contexts: note that the forward entered one."""

    def enter(context: Any) -> Any:
        recorder = _active()
        if recorder is not None:
            recorder.contexts.add(type(context).__name__)
        return original(context)

    return enter


def _factory(original: Callable[..., Any]) -> Callable[..., Any]:
    def make(*args: Any, **kwargs: Any) -> Any:
        recorder = _active()
        if recorder is None or not traced_leaves((args, kwargs)):
            return original(*args, **kwargs)
        return recorder.create_proxy("call_function", original, args, kwargs)

    return make
