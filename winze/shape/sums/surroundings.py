"""Run a network and leave as it was what its functions write outside of it: globals, closures, class attributes."""

from __future__ import annotations

import ast
import builtins
import itertools
import random
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from types import CellType, FunctionType
from typing import Any

import numpy as np
import torch
from torch import nn

from winze.modes import ATOMS, GENERATORS, unchanged
from winze.shape.live.definition import codes_in

CONTAINERS = (list, dict, set, tuple, deque, Counter, OrderedDict, defaultdict)  # not their subclasses: see ACT2FN
LIBRARIES = ("torch", "builtins", "winze", "typing", "abc", "enum", "functools", "contextlib", "collections")
MISSING = object()
Slot = tuple[Any, str, Any]


@contextmanager
def at_rest(net: nn.Module, training: bool | None = None) -> Iterator[None]:
    """While open, the network may run, in the mode `training`; afterwards it is as before, and so is what its functions
    write: their globals, default values, attributes and closures, and the attributes of its modules' classes.
    """
    functions: dict[FunctionType, None] = {}
    slots = list(_slots(net, functions))
    scope = nn.Module()
    held = [value for _, _, value in slots if type(value) in CONTAINERS or isinstance(value, GENERATORS)]
    held += [part for f in functions for part in (vars(f), f.__defaults__, f.__kwdefaults__) if part]
    vars(scope)["held"] = held
    counts = {id(value): state_of(value) for _, _, value in slots if type(value) is itertools.count}
    try:
        with unchanged(net, scope, training=training):
            yield
    finally:
        for owner, name, before in slots:
            now = _read(owner, name)
            if type(before) is itertools.count and state_of(before) != counts[id(before)]:
                told = ast.literal_eval(counts[id(before)].removeprefix("count"))
                _write(owner, name, itertools.count(*(told if isinstance(told, tuple) else (told,))))
            elif now is not before and (before is not MISSING or _is_data(now)):
                _write(owner, name, before)


def state_of(source: Any) -> Any:
    """Where a random generator or a counter is."""
    if isinstance(source, torch.Generator):
        return source.get_state().numpy().tobytes()
    if isinstance(source, np.random.Generator):
        return repr(source.bit_generator.state)
    if isinstance(source, np.random.RandomState):
        return repr(source.get_state())
    return source.getstate() if isinstance(source, random.Random) else repr(source)


def _slots(net: nn.Module, functions: dict[FunctionType, None]) -> Iterator[Slot]:
    """Where data lies that a run of the network may replace; the functions of its modules join `functions`."""
    kinds = dict.fromkeys(kind for module in net.modules() for kind in type(module).__mro__)
    for kind in [kind for kind in kinds if not _is_library(kind.__module__)]:
        for name, value in list(vars(kind).items()):
            _add(getattr(value, "__func__", getattr(value, "fget", value)), functions)
            if _is_data(value) and not name.startswith("__"):
                yield kind, name, value
    for module in net.modules():
        for name, value in vars(module).items():
            _add(getattr(value, "__func__", value), functions)
            if type(value) is itertools.count:
                yield vars(module), name, value
    for function in functions:
        names = {name for code in codes_in(function.__code__) for name in code.co_names}
        scope = function.__globals__
        for name in names - vars(builtins).keys():
            value = scope.get(name, MISSING)
            if value is MISSING or _is_data(value):
                yield scope, name, value
        for cell in function.__closure__ or ():
            value = _read(cell, "")
            if _is_data(value):
                yield cell, "", value


def _add(function: Any, found: dict[FunctionType, None]) -> None:
    """Note a function, and those that it wraps or calls by a global name."""
    if not isinstance(function, FunctionType) or function in found or _is_library(function.__module__):
        return
    found[function] = None
    for cell in function.__closure__ or ():
        _add(_read(cell, ""), found)
    for name in function.__code__.co_names:
        _add(function.__globals__.get(name), found)


def _is_data(value: Any) -> bool:
    kinds = (*ATOMS, *GENERATORS, itertools.count)
    return isinstance(value, kinds) or type(value) in CONTAINERS


def _is_library(module: str | None) -> bool:
    return (module or "").partition(".")[0] in LIBRARIES


def _read(owner: Any, name: str) -> Any:
    if isinstance(owner, CellType):
        try:
            return owner.cell_contents
        except ValueError:  # empty
            return MISSING
    return (owner if isinstance(owner, dict) else vars(owner)).get(name, MISSING)


def _write(owner: Any, name: str, value: Any) -> None:
    if isinstance(owner, CellType):
        owner.cell_contents = value
    elif isinstance(owner, dict):
        owner.pop(name) if value is MISSING else owner.update({name: value})
    else:
        setattr(owner, name, value)
