"""Hand the sums in somebody's source to rules: the same function, compiled again with a call in the place of each sum.

A sum is known by the position of its instruction, which is that of one node in the source. The function that holds the
node is compiled anew from its syntax tree, with the globals, defaults and closure of the original; only the sum itself
has become a call of `join`. Whatever else the function does, it goes on doing.
"""

from __future__ import annotations

import ast
import copy
import functools
import hashlib
import linecache
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

from torch import nn

from winze.shape.capture.dataflow import Position, Site

JOIN, CALL, OTHER = "__winze_join__", "__winze_call__", "__winze_me__"
OPERATORS = {ast.Add: "add", ast.Sub: "sub"}
Spans = tuple[int, ...]


class SourceError(Exception):
    """A sum that cannot be handed to a rule where it stands."""


@dataclass(frozen=True)
class Anchor:
    """A function of a module that holds a sum: where it hangs, and under which name it knows the module.

    `name` is the attribute by which the module reaches the function, be it its own, its class's or inside a wrapper.
    `via`: the sum itself stands in a function that this one calls by a global name.
    """

    owner: nn.Module
    name: str
    me: str
    code: CodeType
    via: str | None = None


@dataclass(frozen=True)
class Spot:
    """One sum in a function: its position, its number among the module's sums, and the names that tell its runs apart.

    `inner` are the positions of sums whose operands are terms of this one. `via` names the function that it stands in,
    where that is not the module's own.
    """

    position: Position
    number: int
    names: tuple[str, ...] = ()
    inner: tuple[Position, ...] = ()
    via: str | None = None


def anchor(site: Site, members: set[nn.Module]) -> Anchor:
    """The function through which a module of the network reaches a sum."""
    if None in site.position:
        raise SourceError("its instructions have no positions in a source")
    called = site.frames[0][0] if site.frames else None
    for depth, (code, names) in enumerate(site.frames):
        parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        for me in parameters:
            owner = names.get(me)
            if not (isinstance(owner, nn.Module) and owner in members):
                continue
            name = _attribute(owner, code)
            if name is None:
                raise SourceError(f"{code.co_name} is not reached through an attribute of {type(owner).__name__}")
            if _holds(code, site.code):
                return Anchor(owner, name, me, code)
            if depth == 1 and called is site.code and called.co_name in code.co_names:
                return Anchor(owner, name, me, code, via=called.co_name)
    raise SourceError(f"the sum is made in {site.code.co_name}, which is no method of a module")


def rebuilt(function: Any, code: CodeType, made_anew: Callable[[FunctionType], FunctionType]) -> Any:
    """`function` with the part that runs `code` replaced: itself, or what it wraps in a closure or a partial."""
    if isinstance(function, MethodType):
        return MethodType(rebuilt(function.__func__, code, made_anew), function.__self__)
    if isinstance(function, functools.partial):
        return functools.partial(rebuilt(function.func, code, made_anew), *function.args, **function.keywords)
    assert isinstance(function, FunctionType)
    if function.__code__ is code:
        return made_anew(function)
    cells = tuple(
        CellType(rebuilt(cell.cell_contents, code, made_anew)) if _wraps_cell(cell, code) else cell
        for cell in function.__closure__ or ()
    )
    made = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, cells)
    made.__kwdefaults__ = function.__kwdefaults__
    made.__dict__.update({k: v for k, v in vars(function).items() if k != "__wrapped__"})
    return made


def joined(function: FunctionType, spots: list[Spot], me: str, join: Any, call: Any) -> FunctionType:
    """The same function, with each sum handed to `join(module, number, key, operator, terms, in place)`."""
    names = {JOIN: join, CALL: call}
    vias = {spot.via for spot in spots if spot.via is not None}
    for via in vias:
        called = function.__globals__[via]
        own = [replace(spot, via=None) for spot in spots if spot.via == via]
        names[f"__winze_{via}__"] = _compile(called, own, OTHER, names, first=OTHER)
    return _compile(function, [spot for spot in spots if spot.via is None], me, names, vias=vias)


def _compile(
    function: FunctionType,
    spots: list[Spot],
    me: str,
    names: dict[str, Any],
    *,
    first: str | None = None,
    vias: set[str] | frozenset[str] = frozenset(),
) -> FunctionType:
    """A function with joins; `first` is put before its arguments, and calls of `vias` get the module as well."""
    edited = _Joins(spots, me, vias).edit(copy.deepcopy(definition_of(function.__code__)))
    if first is not None:
        (edited.args.posonlyargs or edited.args.args).insert(0, ast.arg(first))
    names = dict(names)
    free = function.__code__.co_freevars
    code = _compiled(edited, function, (*free, *names))
    cells = dict(zip(free, function.__closure__ or (), strict=True))
    cells.update({name: CellType(value) for name, value in names.items()})
    made = FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, tuple(cells[n] for n in code.co_freevars)
    )
    made.__kwdefaults__, made.__qualname__ = function.__kwdefaults__, function.__qualname__
    made.__annotations__, made.__module__, made.__doc__ = (
        function.__annotations__,
        function.__module__,
        function.__doc__,
    )
    made.__wrapped__ = function  # type: ignore[attr-defined]
    return made


def check(anchored: Anchor, spots: list[Spot], site: Site) -> None:
    """Raise where a sum is written in a way that cannot be handed to a rule."""
    _Joins(spots, anchored.me).edit(copy.deepcopy(definition_of(site.code if anchored.via else anchored.code)))
    if anchored.via is None:
        return
    calls = [n for n in ast.walk(definition_of(anchored.code)) if isinstance(n, ast.Call) and _is_name(n, anchored.via)]
    globe = _globals_of(anchored)
    found = globe.get(anchored.via)
    if len(calls) != 1 or not isinstance(found, FunctionType) or found.__code__ is not site.code or found.__closure__:
        raise SourceError(f"the sum is made in {anchored.via}, which is no method of a module")


def _is_name(node: ast.Call, name: str) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id == name


def _globals_of(anchored: Anchor) -> dict[str, Any]:
    """The globals of the function that an anchor is in."""
    own = vars(anchored.owner).get(anchored.name)
    found = own if own is not None else getattr(type(anchored.owner), anchored.name)
    made: list[FunctionType] = []

    def note(function: FunctionType) -> FunctionType:
        made.append(function)
        return function

    rebuilt(found, anchored.code, note)
    return made[0].__globals__


@functools.lru_cache(maxsize=512)
def fingerprint(code: CodeType) -> str:
    """A short hash of a function's source, so that a stored network is not joined at the wrong lines."""
    return hashlib.sha256(ast.dump(definition_of(code), include_attributes=False).encode()).hexdigest()[:16]


@functools.lru_cache(maxsize=512)
def definition_of(code: CodeType) -> ast.FunctionDef | ast.Lambda:
    """The syntax tree of a function, with positions as in its file."""
    lines = linecache.getlines(code.co_filename)
    if not lines:
        raise SourceError(f"the source of {code.co_name} ({code.co_filename}) is not at hand")
    try:
        tree = _parsed("".join(lines))
    except SyntaxError as error:
        raise SourceError(f"the source of {code.co_filename} cannot be parsed") from error
    starts = [p for p in code.co_positions() if None not in p]
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda):
            inside = all(_within(p, node) for p in starts) and code.co_name == "<lambda>"
            if inside and node.lineno == code.co_firstlineno and [a.arg for a in node.args.args] == _arguments(code):
                return node
        elif isinstance(node, ast.FunctionDef):
            first = min((d.lineno for d in node.decorator_list), default=node.lineno)
            if node.name == code.co_name and first == code.co_firstlineno:
                return node
    raise SourceError(f"the source of {code.co_name} ({code.co_filename}) is not what runs")


def _arguments(code: CodeType) -> list[str]:
    return list(code.co_varnames[: code.co_argcount])


def _within(position: Position, node: ast.expr) -> bool:
    start, end = (position[0], position[2]), (position[1], position[3])
    return (node.lineno, node.col_offset) <= start and end <= (node.end_lineno, node.end_col_offset)


@functools.lru_cache(maxsize=64)
def _parsed(source: str) -> ast.Module:
    return ast.parse(source)


def _at(node: ast.AST) -> Position:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset  # type: ignore[attr-defined]


class _Joins(ast.NodeTransformer):
    """Puts a call of `join` in the place of each sum; a sum whose operands another one needs gives them names."""

    def __init__(self, spots: list[Spot], me: str, vias: set[str] | frozenset[str] = frozenset()) -> None:
        self.vias = vias
        self.spots = {spot.position: spot for spot in spots}
        self.me = me
        self.inner = {position: number for number, position in enumerate(p for s in spots for p in s.inner)}
        self.done: set[Position] = set()

    def edit(self, definition: ast.FunctionDef | ast.Lambda) -> ast.FunctionDef | ast.Lambda:
        """Change a definition; every sum asked for must be there."""
        made: ast.FunctionDef | ast.Lambda = self.visit(definition)
        missing = [p for p in (*self.spots, *self.inner) if p not in self.done]
        if missing:
            raise SourceError(f"line {missing[0][0]} makes its sum in a way that no rule can take over")
        return made

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        at, kind = _at(node), OPERATORS.get(type(node.op))
        if kind is None or (at not in self.spots and at not in self.inner):
            return self.generic_visit(node)  # type: ignore[return-value]
        self.done.add(at)
        if at in self.inner:
            left, right = (self._named(at, i, self.visit(e)) for i, e in enumerate((node.left, node.right)))
            return ast.copy_location(ast.BinOp(left, node.op, right), node)
        return self._join(node, kind, [self.visit(node.left), self.visit(node.right)], False)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        at, kind = _at(node), OPERATORS.get(type(node.op))
        if kind is None or at not in self.spots:
            return self.generic_visit(node)  # type: ignore[return-value]
        self.done.add(at)
        target = copy.deepcopy(node.target)
        target.ctx = ast.Load()
        value = self._join(node, kind, [target, self.visit(node.value)], True)
        return ast.copy_location(ast.Assign([node.target], value), node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        at = _at(node)
        if any(_is_name(node, via) for via in self.vias):
            node = self.generic_visit(node)  # type: ignore[assignment]
            function = ast.Name(f"__winze_{node.func.id}__", ast.Load())  # type: ignore[attr-defined]
            given = [ast.Name(self.me, ast.Load()), *node.args]
            return ast.copy_location(ast.Call(function, given, node.keywords), node)
        if at not in self.spots and at not in self.inner:
            return self.generic_visit(node)  # type: ignore[return-value]
        plain = not any(isinstance(a, ast.Starred) for a in node.args) and all(k.arg for k in node.keywords)
        node = self.generic_visit(node)  # type: ignore[assignment]
        if at in self.inner or not plain:
            raise SourceError(f"line {node.lineno} makes its sum in a way that no rule can take over")
        self.done.add(at)
        spot = self.spots[at]
        head = [ast.Name(self.me, ast.Load()), ast.Constant(spot.number), self._key(spot), node.func]
        made = ast.Call(ast.Name(CALL, ast.Load()), [*head, *node.args], node.keywords)
        return ast.copy_location(made, node)

    def _join(self, node: ast.AST, kind: str, terms: list[ast.expr], in_place: bool) -> ast.Call:
        spot = self.spots[_at(node)]
        named = [ast.Name(self._name(p, i), ast.Load()) for p in spot.inner for i in (0, 1)]
        tail = [
            ast.Constant(kind),
            ast.Tuple(terms, ast.Load()),
            ast.Constant(in_place),
            ast.Tuple(list(named), ast.Load()),
        ]
        made = ast.Call(
            ast.Name(JOIN, ast.Load()),
            [ast.Name(self.me, ast.Load()), ast.Constant(spot.number), self._key(spot), *tail],
            [],
        )
        return ast.copy_location(made, node)

    def _key(self, spot: Spot) -> ast.expr:
        if not spot.names:
            return ast.Constant(None)
        return ast.Tuple([ast.Name(name, ast.Load()) for name in spot.names], ast.Load())

    def _name(self, position: Position, operand: int) -> str:
        return f"__winze_{self.inner[position]}_{operand}__"

    def _named(self, position: Position, operand: int, value: ast.expr) -> ast.expr:
        return ast.copy_location(ast.NamedExpr(ast.Name(self._name(position, operand), ast.Store()), value), value)


def _compiled(definition: ast.FunctionDef | ast.Lambda, function: FunctionType, free: tuple[str, ...]) -> CodeType:
    """The code of an edited definition, with `free` as its free variables and names mangled as in its class."""
    name = function.__code__.co_name
    arguments = ast.arguments([], [ast.arg(n) for n in free], None, [], [], None, [])
    if isinstance(definition, ast.Lambda):
        body: list[ast.stmt] = [ast.Return(definition)]
    else:
        definition.decorator_list, definition.returns = [], None
        body = [definition, ast.Return(ast.Name(name, ast.Load()))]
    factory = ast.FunctionDef("__winze_factory__", arguments, body, [])
    outer: ast.stmt = factory
    parts = function.__qualname__.split(".")
    if len(parts) > 1 and parts[-2].isidentifier():
        outer = ast.ClassDef(parts[-2], [], [], [factory], [])
    tree = ast.fix_missing_locations(ast.Module([outer], []))
    flags = function.__code__.co_flags & _FUTURE
    code = compile(tree, function.__code__.co_filename, "exec", flags=flags, dont_inherit=True)
    made = next((c for c in _codes(code) if c.co_name == "__winze_factory__"), None)
    assert made is not None
    return next(c for c in made.co_consts if isinstance(c, CodeType) and c.co_name == name)


_FUTURE = 0x1000000  # from __future__ import annotations


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _holds(code: CodeType, inner: CodeType) -> bool:
    return any(c is inner for c in _codes(code))


def _attribute(owner: nn.Module, code: CodeType) -> str | None:
    """The name under which a module finds a function with this code, wrapped or not; its own come first."""
    for name, value in vars(owner).items():
        if _wraps(value, code):
            return name
    seen = set(vars(owner))
    for kind in type(owner).__mro__:
        for name, value in vars(kind).items():
            if name not in seen and isinstance(value, FunctionType) and _wraps(value, code):
                return name
            seen.add(name)
    return None


def _wraps(function: Any, code: CodeType, depth: int = 0) -> bool:
    if depth > 6:
        return False
    if isinstance(function, MethodType):
        return _wraps(function.__func__, code, depth + 1)
    if isinstance(function, functools.partial):
        return _wraps(function.func, code, depth + 1)
    if not isinstance(function, FunctionType):
        return False
    return function.__code__ is code or any(_wraps_cell(c, code, depth + 1) for c in function.__closure__ or ())


def _wraps_cell(cell: CellType, code: CodeType, depth: int = 0) -> bool:
    try:
        return _wraps(cell.cell_contents, code, depth)
    except ValueError:  # an empty cell
        return False
