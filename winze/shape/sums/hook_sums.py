"""Sums in users' forward hooks, which do not fire while a network is read: found in their source."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from torch import nn

from winze.shape.live.definition import SourceError, definition_of
from winze.shape.live.live import CALLS
from winze.shape.live.site import function_of

WITHOUT_NUMBERS = ("shape", "size", "dtype", "device", "ndim", "dim", "numel", "len", "isinstance")
BLENDING = CALLS | {"lerp", "lerp_", "stack"}
Sources = frozenset[str]
NOTHING: Sources = frozenset()


def adding_hook(module: nn.Module, is_own: Callable[[Any], bool]) -> str:
    """Where a hook of a module adds the module's input to something made from it, and hands the sum on; else nothing.

    `is_own` tells hooks that are part of torch or winze. A vector that a hook adds to an output is no shortcut.
    """
    hooks = (*module._forward_hooks.values(), *module._forward_pre_hooks.values())
    for hook in hooks:
        function, bound, _ = function_of(hook)
        if is_own(hook) or not isinstance(function, FunctionType):
            continue
        try:
            definition = definition_of(function.__code__)
        except SourceError:
            continue
        given = [a.arg for a in (*definition.args.posonlyargs, *definition.args.args)][len(bound) + 1 :]
        if given and _hands_on(definition) and _adds(definition, given):
            return f"{function.__code__.co_filename}:{definition.lineno}"
    return ""


def _hands_on(definition: ast.FunctionDef | ast.Lambda) -> bool:
    if isinstance(definition, ast.Lambda):
        return True
    values = [node.value for node in ast.walk(definition) if isinstance(node, ast.Return)]
    return any(value is not None and not isinstance(value, ast.Constant) for value in values)


def _adds(definition: ast.FunctionDef | ast.Lambda, given: list[str]) -> bool:
    """Whether two terms of a sum come from the hook's arguments, one of them from the module's input."""
    source = {name: frozenset({name}) for name in given}
    for node in ast.walk(definition):  # a statement comes before those after it
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr | ast.For | ast.comprehension):
            value = node.iter if isinstance(node, ast.For | ast.comprehension) else node.value
            made = _from(value, source) if value is not None else NOTHING
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in (n for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)):
                source[target.id] = source.get(target.id, NOTHING) | made
    for terms in _sums(definition):
        made_from = [found for term in terms if (found := _from(term, source))]
        if len(made_from) > 1 and given[0] in frozenset().union(*made_from):
            return True
    return False


def _sums(definition: ast.AST) -> Iterator[list[ast.expr]]:
    for node in ast.walk(definition):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            yield [node.left, node.right]
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.Sub):
            yield [node.target, node.value]
        elif isinstance(node, ast.Call) and _called(node) in BLENDING:
            listed = [e for a in node.args for e in (a.elts if isinstance(a, ast.List | ast.Tuple) else [a])]
            yield [*([node.func.value] if isinstance(node.func, ast.Attribute) else []), *listed]


def _from(node: ast.expr, source: dict[str, Sources]) -> Sources:
    """Which of the hook's arguments the numbers of an expression come from."""
    if isinstance(node, ast.Name):
        return source.get(node.id, NOTHING)
    if isinstance(node, ast.Attribute) and node.attr in WITHOUT_NUMBERS:
        return NOTHING
    if isinstance(node, ast.Call):
        name = _called(node)
        if name in WITHOUT_NUMBERS or "rand" in name or name.endswith("_like") or name.startswith("new_"):
            return NOTHING
    children = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr | ast.keyword)]
    inside = [child.value if isinstance(child, ast.keyword) else child for child in children]
    return NOTHING.union(*(_from(child, source) for child in inside))


def _called(node: ast.Call) -> str:
    return str(getattr(node.func, "attr", getattr(node.func, "id", "")))
