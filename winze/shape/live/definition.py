"""The syntax tree of a function that runs, with positions as in its file."""

from __future__ import annotations

import ast
import functools
import hashlib
import itertools
import linecache
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

Position = tuple[int | None, int | None, int | None, int | None]


class CaptureError(RuntimeError):
    """A network, or one module of it, whose residual sums winze cannot read or hand to a rule."""


class SourceError(Exception):
    """A sum that cannot be handed to a rule where it stands."""


def written_from(function: Any) -> tuple[Any, ...]:
    """What makes a function the one that it is; to be compared by identity."""
    own = getattr(function, "__func__", function)
    return own, *(getattr(own, mark, None) for mark in ("__code__", "__defaults__", "__kwdefaults__"))


@functools.lru_cache(maxsize=512)
def fingerprint(code: CodeType) -> str:
    """A short hash of a function's source, so that a stored network is not joined at the wrong lines."""
    return hashlib.sha256(ast.dump(definition_of(code), include_attributes=False).encode()).hexdigest()[:16]


@functools.lru_cache(maxsize=512)
def definition_of(code: CodeType) -> ast.FunctionDef | ast.Lambda:
    """The syntax tree of a function, with positions as in its file."""
    lines = linecache.getlines(code.co_filename)
    if not lines:
        raise SourceError(f"the source of {code.co_name} ({code.co_filename}) is not available")
    try:
        tree = _parsed("".join(lines))
    except SyntaxError as error:
        raise SourceError(f"the source of {code.co_filename} cannot be parsed") from error
    lambdas = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda):
            if code.co_name == "<lambda>" and _is_lambda(node, code):
                lambdas.append(node)
        elif isinstance(node, ast.FunctionDef):
            first = min((d.lineno for d in node.decorator_list), default=node.lineno)
            if node.name == code.co_name and first == code.co_firstlineno:
                return node
    if lambdas:
        return lambdas[-1]  # of those around one another, the innermost comes last
    raise SourceError(f"the source of {code.co_name} ({code.co_filename}) does not match the code that runs")


def expression_at(code: CodeType, position: Position) -> ast.expr | None:
    """The expression at a position of a function; None where a statement stands there, or nothing."""
    return _expressions(code).get(position)


@functools.lru_cache(maxsize=512)
def _expressions(code: CodeType) -> dict[Position, ast.expr]:
    """Every expression of a function by its position; of those that begin and end alike, the outermost."""
    nodes = [node for node in ast.walk(definition_of(code)) if isinstance(node, ast.expr)]
    return {position_of(node): node for node in reversed(nodes)}


def position_of(node: ast.AST) -> Position:
    """Where a node stands, as instructions give their positions."""
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset  # type: ignore[attr-defined]


def position_in(frame: FrameType) -> Position:
    """The position of the instruction that a frame is at."""
    return next(itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """A function's code and that of the functions defined inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_in(constant)


def _arguments(code: CodeType) -> list[str]:
    return list(code.co_varnames[: code.co_argcount])


def _is_lambda(node: ast.Lambda, code: CodeType) -> bool:
    """Whether all instructions of a function come from inside a lambda with the same arguments."""
    spans = [p for p in code.co_positions() if None not in p and p[2:] != (0, 0)]
    inside = all(_within(position, node) for position in spans)
    return inside and node.lineno == code.co_firstlineno and [a.arg for a in node.args.args] == _arguments(code)


def _within(position: Position, node: ast.expr) -> bool:
    start, end = (position[0], position[2]), (position[1], position[3])
    return (node.lineno, node.col_offset) <= start and end <= (node.end_lineno, node.end_col_offset)


@functools.lru_cache(maxsize=64)
def _parsed(source: str) -> ast.Module:
    return ast.parse(source)
