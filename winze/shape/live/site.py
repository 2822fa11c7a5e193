"""The position of an operation in the network's source, and the calls through which it was reached."""

from __future__ import annotations

import ast
import builtins
import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any

from torch import nn

from winze.shape.live.definition import Position, SourceError, expression_at, position_in

INSIDE_TORCH = ("torch/overrides.py", "torch/_tensor.py")
MODULE_CALL = "torch/nn/modules/module.py"
TELLING = (nn.Module, int, str)


@dataclass(eq=False)
class Frame:
    """One of the calls around an operation: modules and plain values it has names for, and what it was calling.

    `called` is the function behind the call at `position`, where the source tells which one that is.
    """

    code: CodeType
    names: dict[str, Any]
    position: Position
    called: FunctionType | None = None


@dataclass(eq=False)
class Site:
    """The position of an operation in the network's source, with the calls around it when it ran.

    `frames` are those from the operation outwards to the forward of the module that was running. `shared`: it writes
    into a tensor that something else refers to as well.
    """

    frames: list[Frame]
    shared: bool = False

    @property
    def code(self) -> CodeType:
        """The function that holds the operation."""
        return self.frames[0].code

    @property
    def position(self) -> Position:
        """Where in that function."""
        return self.frames[0].position

    def __str__(self) -> str:
        theirs = (frame for frame in self.frames if "/torch/" not in frame.code.co_filename)
        frame = next(theirs, self.frames[0])
        return f"{frame.code.co_filename}:{frame.position[0]}"


def site_here(ours: Callable[[FrameType], bool]) -> Site | None:
    """The site of the operation that is running; `ours` recognises the caller's frames."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (ours(frame) or frame.f_code.co_filename.endswith(INSIDE_TORCH)):
        frame = frame.f_back
    frames: list[Frame] = []
    in_function = True
    while frame is not None and not ours(frame):
        in_function = in_function and not frame.f_code.co_filename.endswith(MODULE_CALL)
        names = {name: value for name, value in frame.f_locals.items() if isinstance(value, TELLING)}
        called = _called(frame) if frames and in_function else None
        frames.append(Frame(frame.f_code, names, position_in(frame), called))
        frame = frame.f_back
    return Site(frames) if frames else None


def function_of(callee: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The function behind something that can be called, and the arguments that it is given besides."""
    if isinstance(callee, FunctionType):
        return callee, (), {}
    if isinstance(callee, MethodType):
        return callee.__func__, (callee.__self__,), {}
    if isinstance(callee, functools.partial):
        function, bound, keywords = function_of(callee.func)
        return function, (*bound, *callee.args), {**keywords, **callee.keywords}
    return type(callee).__call__, (callee,), {}


def _called(frame: FrameType) -> FunctionType | None:
    """The function that a frame is calling, where the source shows it."""
    try:
        node = expression_at(frame.f_code, position_in(frame))
        if not isinstance(node, ast.Call):
            return None
        function = function_of(_value(node.func, frame))[0]
    except (SourceError, LookupError, AttributeError, TypeError):
        return None
    return function if isinstance(function, FunctionType) else None


def _value(node: ast.expr, frame: FrameType) -> Any:
    """What a name, an attribute or an item is in a frame."""
    if isinstance(node, ast.Name):
        for names in (frame.f_locals, frame.f_globals, vars(builtins)):
            if node.id in names:
                return names[node.id]
    if isinstance(node, ast.Attribute):
        return getattr(_value(node.value, frame), node.attr)
    if isinstance(node, ast.Subscript):
        return _value(node.value, frame)[_value(node.slice, frame)]
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super":
        named = [_value(argument, frame) for argument in node.args]
        return super(*named or (frame.f_locals["__class__"], frame.f_locals[frame.f_code.co_varnames[0]]))
    raise LookupError
