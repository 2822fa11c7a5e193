"""What the code behind a program reads besides tensors: a program holds only as long as none of it has changed."""

from __future__ import annotations

import gc
import operator
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from types import CellType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from winze.shape.capture.traced import PLAIN
from winze.shape.live.anchors import content
from winze.shape.live.definition import written_from
from winze.shape.sums.surroundings import state_of

OF_EVERY_MODULE = frozenset(vars(nn.Module()))
UNWATCHED = {*OF_EVERY_MODULE - {"training"}, "forward", "_winze"}
DEEP = 3  # a list in an object in an object; what is further away is not looked at
LIBRARIES = ("torch", "numpy", "math", "winze", "builtins")
CONTAINERS, ARRAYS, LIVE = (list, tuple, set, frozenset), (np.ndarray, np.generic), (Tensor, nn.Module)  # for dynamo
DRAWN = ("Generator", "Random", "RandomState", "count")  # by name, for dynamo
STANDARD = sysconfig.get_paths()["stdlib"]

AUTOCAST = {"is_autocast_enabled", "is_autocast_cpu_enabled", "get_autocast_dtype", "get_autocast_gpu_dtype"}

Functions = dict[CodeType, tuple[dict[str, Any], tuple[CellType, ...]]]
"""Functions that ran, each with its globals and the cells of those of its free variables that hold data."""


@contextmanager
def noting(functions: Functions, counts: Callable[[], bool]) -> Iterator[None]:
    """While open, the Python functions that begin while `counts()` are noted, but for those of libraries.

    The garbage collector waits: what it calls, at any moment, is no part of a forward.
    """

    def began(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code not in functions and not _is_library(code.co_filename) and counts():
            free = [frame.f_locals.get(name) for name in code.co_freevars if name != "__class__"]
            functions[code] = frame.f_globals, _cells(code) if any(map(_may_change, free)) else ()

    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()
    sys.setprofile(began)
    try:
        yield
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()


def _cells(code: CodeType) -> tuple[CellType, ...]:
    """The cells that functions with this code share with those around them; a frame shows their contents only."""
    functions = (one for one in gc.get_referrers(code) if isinstance(one, FunctionType))
    return tuple(cell for function in functions for cell in function.__closure__ or () if _may_change(content(cell)))


def _is_library(file: str) -> bool:
    within = file.partition("/site-packages/")[2]
    return within.startswith("torch/") or "/winze/shape/" in file or (not within and file.startswith((STANDARD, "<")))


class Watched:
    """Where the values lie that some functions read: attributes of modules and of their classes, globals, closures."""

    def __init__(self, modules: Sequence[nn.Module], functions: Functions) -> None:
        self.names = tuple(sorted({name for code in functions for name in code.co_names}))
        self.owners: list[tuple[Any, str]] = []
        self.scopes: list[tuple[dict[str, Any], str]] = []
        self.cells = [cell for _, cells in functions.values() for cell in cells]
        self.autocast = not AUTOCAST.isdisjoint(self.names)
        children = [(m._modules[n], ()) for m in modules for n in self.names if m._modules.get(n) is not None]
        for module, known in [*((m, PLAIN) for m in modules), *children]:
            own = vars(module)
            inside = [n for n in self.names if n in own and n not in UNWATCHED]
            self.owners += [(module, n) for n in inside if not isinstance(own[n], (*known, Tensor, nn.Module))]
            of_class = {n for kind in type(module).__mro__[: -len(nn.Module.__mro__)] for n in vars(kind)}
            self.owners += [(module, n) for n in self.names if n in of_class and _may_change(getattr(type(module), n))]
        self.methods = [(type(m), n) for m in modules for n in ("forward", *self.names) if _is_method(type(m), n)]
        self.written_from = self._sources()
        for code, (scope, _) in functions.items():
            for name in code.co_names:
                value = scope.get(name)
                if isinstance(value, ModuleType) and value.__name__.partition(".")[0] not in LIBRARIES:
                    self.owners += [(value, n) for n in self.names if n in vars(value) and _may_change(vars(value)[n])]
                elif name in scope and _may_change(value):
                    self.scopes.append((scope, name))

    def values(self) -> tuple[Any, ...]:
        """What lies there now, as something that can be compared."""
        if not (self.owners or self.scopes or self.cells or self.autocast):
            return ()
        found = [_told(getattr(owner, name, None), self.names) for owner, name in self.owners]
        found += [_told(scope.get(name), self.names) for scope, name in self.scopes]
        found += [_told(content(cell), self.names) for cell in self.cells]
        if self.autocast:
            found += [(torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in ("cpu", "cuda")]
        return tuple(found)

    def is_current(self) -> bool:
        """Whether the modules' classes still have the functions that ran."""
        return all(map(operator.is_, self.written_from, self._sources()))

    def _sources(self) -> list[Any]:
        return [mark for kind, name in self.methods for mark in written_from(getattr(kind, name, None))]


def _is_method(kind: type, name: str) -> bool:
    """Whether a class has a function of this name that `nn.Module` does not have; each has a forward of its own."""
    return name == "forward" or (isinstance(getattr(kind, name, None), FunctionType) and not hasattr(nn.Module, name))


def left_behind(modules: Iterable[nn.Module], before: dict[nn.Module, dict[str, Any]]) -> list[Any]:
    """What a run has left on modules, as far as it can be compared with what another run has."""
    return [
        (name, _told(value, None) if not isinstance(value, Tensor) else value is before[module].get(name))
        for module in modules
        for name, value in vars(module).items()
        if name not in OF_EVERY_MODULE and name not in UNWATCHED
    ]


def _may_change(value: Any) -> bool:
    """Whether a value that a class or a file holds is data, and not a function or a part of a library."""
    return not (callable(value) or isinstance(value, Tensor | nn.Module | ModuleType | property | staticmethod))


def _told(value: Any, names: tuple[str, ...] | None, depth: int = 0) -> Any:
    """Something that is equal as long as a value, and what is in it under one of the names, stays the same."""
    if isinstance(value, PLAIN):
        return value
    if depth > DEEP or isinstance(value, LIVE):
        return id(value) if names is not None else type(value)
    if isinstance(value, CONTAINERS):
        return (type(value), *[_told(each, names, depth + 1) for each in value])
    if isinstance(value, dict):
        return tuple([(_told(key, names, depth + 1), _told(each, names, depth + 1)) for key, each in value.items()])
    if isinstance(value, ARRAYS):
        return value.shape, value.tobytes()
    if type(value).__name__ in DRAWN:
        return state_of(value)
    own = getattr(value, "__dict__", None)
    if not isinstance(own, dict):
        slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
        own = {name: getattr(value, name) for name in slots if hasattr(value, name)} or None
    if isinstance(value, Enum) or not isinstance(own, dict) or callable(value):
        return type(value) if names is None else value if isinstance(value, Enum) else id(value)
    inside = [name for name in (own if names is None else names) if name in own]
    return (type(value), *[(name, _told(own[name], names, depth + 1)) for name in inside])
