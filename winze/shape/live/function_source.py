"""Replace the sums in a function's source by rules: the function is compiled again with a call in place of each sum.

A sum is known by the position of its instruction, which is that of one node in the source. The function that holds the
node is compiled anew from its syntax tree, with the globals, defaults and closure of the original; only the sum itself
has become a call of `join`. Whatever else the function does, it goes on doing.
"""

from __future__ import annotations

import ast
import copy
import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

from torch import nn
from torch._compile import _disable_dynamo

from winze.shape.live.anchors import Anchor, Hop, content, wraps
from winze.shape.live.definition import (
    CaptureError,
    Position,
    SourceError,
    codes_in,
    definition_of,
    fingerprint,
    position_of,
)
from winze.shape.live.site import function_of

JOIN, CALL, ME, KEYS = "__winze_join__", "__winze_call__", "__winze_me__", "__winze_keys__"
UNSEEN, INHERITED = "__winze_unseen__", "__winze_inherited__"
Positions = frozenset[Position]
OPERATORS = {ast.Add: "add", ast.Sub: "sub"}


@dataclass(frozen=True)
class SumSpot:
    """One sum in a function: its position, its number among the module's sums, and the names that tell its runs apart.

    `inner` are the positions of sums whose operands are terms of this one. `hops`: the calls through which the module's
    own function reaches it. Each name comes with the number of hops to the function that has it.
    """

    position: Position
    number: int
    names: tuple[tuple[int, str], ...] = ()
    inner: tuple[Position, ...] = ()
    hops: tuple[Hop, ...] = ()

    @property
    def path(self) -> tuple[Position, ...]:
        """Where it stands, seen from the module: one function may be called at several places."""
        return (*(hop.position for hop in self.hops), self.position)

    @property
    def nearer(self) -> SumSpot:
        """The same sum, seen from the function behind the first hop."""
        names = tuple((hops - 1, name) for hops, name in self.names if hops)
        return replace(self, hops=self.hops[1:], names=names)


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
        CellType(rebuilt(content(cell), code, made_anew)) if wraps(content(cell), code, (function,)) else cell
        for cell in function.__closure__ or ()
    )
    made = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, cells)
    made.__kwdefaults__ = function.__kwdefaults__
    made.__dict__.update({k: v for k, v in vars(function).items() if k != "__wrapped__"})
    return made


def joined(
    function: FunctionType, spots: list[SumSpot], me: str, seen: Positions, join: Any, call: Any, unseen: Any
) -> FunctionType:
    """The same function, with each sum handed to `join(module, number, key, operator, terms, in place)`.

    Sums that are not among those `seen` to run are handed to `unseen(module, operator, terms, in place, line)`.
    """
    edits = _Joins(spots, ast.Name(me, ast.Load()), seen=seen)
    return _compile(function, edits, {JOIN: join, CALL: call, UNSEEN: unseen}, arguments=())


def relay(spots: list[SumSpot], names: dict[str, Any]) -> Callable[..., Any]:
    """What stands for the call of a function that holds sums: it calls the function with the sums handed over.

    Each place that calls a function has a relay, and thereby a version of the function, of its own.
    """
    hop = spots[0].hops[0]
    inside = [spot.nearer for spot in spots]
    ready: dict[Any, FunctionType] = {}

    @_disable_dynamo
    def prepared(function: Any, me: nn.Module) -> FunctionType:
        if not isinstance(function, FunctionType) or fingerprint(function.__code__) != hop.source:
            raise CaptureError(
                f"line {hop.position[0]} of a function of {type(me).__name__} calls another function than {hop.name}, "
                "which it called when the network was rewired: rewire it again"
            )
        edits = _Joins(inside, ast.Name(ME, ast.Load()), KEYS)
        made = _compile(function, edits, names, arguments=(ME, KEYS))
        if function.__code__.co_freevars in ((), ("__class__",)):  # others may be made anew for each call
            ready[function] = made
        return made

    def relayed(me: nn.Module, keys: tuple[Any, ...], callee: Any, *args: Any, **kwargs: Any) -> Any:
        function, bound, keywords = function_of(callee)
        made = ready[function] if function in ready else prepared(function, me)
        return made(me, keys, *bound, *args, **keywords, **kwargs)

    return relayed


def _compile(function: FunctionType, edits: _Joins, names: dict[str, Any], arguments: tuple[str, ...]) -> FunctionType:
    """A function with joins; `arguments` are put before its own, and the functions in `names` can be called in it."""
    edited = edits.edit(copy.deepcopy(definition_of(function.__code__)))
    own = edited.args.posonlyargs or edited.args.args
    own[:0] = [ast.arg(name) for name in arguments]
    names = {**names, INHERITED: inherited}
    names.update({name: relay(spots, names) for name, spots in edits.relays.items()})
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


def inherited(kind: type, me: Any, name: str) -> Any:
    """What `super(kind, me)` has under a name, in a way that torch.compile follows."""
    order = type(me).__mro__
    for base in order[order.index(kind) + 1 :] if kind in order else ():
        if name in base.__dict__:
            function = base.__dict__[name]
            if isinstance(function, FunctionType):
                return functools.partial(function, me)
            break
    return getattr(super(kind, me), name)


def check(anchored: Anchor, spot: SumSpot) -> None:
    """Raise where a sum is written in a way that cannot be handed to a rule."""
    for code in anchored.codes:
        reason = _refusal(code, spot)
        if reason is not None:
            raise SourceError(reason)
        spot = spot.nearer


@functools.lru_cache(maxsize=512)
def _refusal(code: CodeType, spot: SumSpot) -> str | None:
    """Why a sum of a function cannot be handed over; blocks of one class are asked once."""
    try:
        _Joins([spot], ast.Name(ME)).edit(copy.deepcopy(definition_of(code)))
    except SourceError as error:
        return str(error)
    return None


class _Joins(ast.NodeTransformer):
    """Puts a call of `join` in the place of each sum; a sum whose operands another one needs gives them names.

    Calls of functions that hold sums themselves become calls of relays. `keys` is the name of the variable that holds
    what tells the runs of each sum apart, in a function that gets it from its caller.
    """

    def __init__(
        self, spots: list[SumSpot], me: ast.expr, keys: str | None = None, seen: Positions | None = None
    ) -> None:
        self.me, self.keys, self.seen = me, keys, seen
        self.indices = {spot: index for index, spot in enumerate(spots)}
        here = [spot for spot in spots if not spot.hops]
        self.spots = {spot.position: spot for spot in here}
        self.inner = {position: number for number, position in enumerate(p for s in here for p in s.inner)}
        self.calls: dict[Position, list[SumSpot]] = {}
        for spot in spots:
            if spot.hops:
                self.calls.setdefault(spot.hops[0].position, []).append(spot)
        self.relays = {f"__winze_relay_{i}__": own for i, own in enumerate(self.calls.values())}
        self.done: set[Position] = set()

    def edit(self, definition: ast.FunctionDef | ast.Lambda) -> ast.FunctionDef | ast.Lambda:
        """Change a definition; every sum asked for must be there."""
        self.first = [a.arg for a in (*definition.args.posonlyargs, *definition.args.args)][:1]
        names = (n.func for n in ast.walk(definition) if isinstance(n, ast.Call) and not n.args)
        if any(isinstance(name, ast.Name) and name.id in ("locals", "vars", "dir") for name in names):
            raise SourceError("its function looks at its own variables")
        made: ast.FunctionDef | ast.Lambda = self.visit(definition)
        missing = [p for p in (*self.spots, *self.inner, *self.calls) if p not in self.done]
        if missing:
            raise SourceError(f"line {missing[0][0]} makes its sum in a way that no rule can take over")
        return made

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        at, kind = position_of(node), OPERATORS.get(type(node.op))
        if kind is None or (at not in self.spots and at not in self.inner):
            node = self.generic_visit(node)  # type: ignore[assignment]
            return node if kind is None else self._unless_seen(node, kind, [node.left, node.right])
        self.done.add(at)
        if at in self.inner:
            left, right = (self._named(at, i, self.visit(e)) for i, e in enumerate((node.left, node.right)))
            return ast.copy_location(ast.BinOp(left, node.op, right), node)
        return self._join(node, kind, [self.visit(node.left), self.visit(node.right)], False)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        at, kind = position_of(node), OPERATORS.get(type(node.op))
        if kind is None or at not in self.spots:
            node = self.generic_visit(node)  # type: ignore[assignment]
            if kind is None or not isinstance(node.target, ast.Name):
                return node
            terms: list[ast.expr] = [ast.Name(node.target.id, ast.Load()), node.value]
            made = self._unless_seen(node, kind, terms, in_place=True)
            return node if made is node else ast.copy_location(ast.Assign([node.target], made), node)
        self.done.add(at)
        target = _CallsOnce(reads=True).visit(copy.deepcopy(node.target))
        target.ctx = ast.Load()
        value = self._join(node, kind, [target, self.visit(node.value)], True)
        return ast.copy_location(ast.Assign([_CallsOnce(reads=False).visit(node.target)], value), node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        at = position_of(node)
        if at in self.calls:
            self.done.add(at)
            node = self.generic_visit(node)  # type: ignore[assignment]
            keys = ast.Tuple([self._key(spot) for spot in self.calls[at]], ast.Load())
            name = f"__winze_relay_{list(self.calls).index(at)}__"
            return ast.copy_location(
                ast.Call(
                    ast.Name(name, ast.Load()), [self.me, keys, self._callee(node.func), *node.args], node.keywords
                ),
                node,
            )
        if at not in self.spots and at not in self.inner:
            return self.generic_visit(node)  # type: ignore[return-value]
        plain = not any(isinstance(a, ast.Starred) for a in node.args) and all(k.arg for k in node.keywords)
        node = self.generic_visit(node)  # type: ignore[assignment]
        if at in self.inner or not plain:
            raise SourceError(f"line {node.lineno} makes its sum in a way that no rule can take over")
        self.done.add(at)
        spot = self.spots[at]
        head = [self.me, ast.Constant(spot.number), self._key(spot), node.func]
        made = ast.Call(ast.Name(CALL, ast.Load()), [*head, *node.args], node.keywords)
        return ast.copy_location(made, node)

    def _callee(self, called: ast.expr) -> ast.expr:
        """What is called; a method of `super()` is looked up by `inherited`."""
        private = isinstance(called, ast.Attribute) and called.attr.startswith("__") and not called.attr.endswith("__")
        if private or not (isinstance(called, ast.Attribute) and isinstance(called.value, ast.Call)):
            return called
        over = called.value
        if not (isinstance(over.func, ast.Name) and over.func.id == "super" and len(over.args) in (0, 2)):
            return called
        given = over.args or [ast.Name(name, ast.Load()) for name in ("__class__", *self.first)]
        return ast.Call(ast.Name(INHERITED, ast.Load()), [*given, ast.Constant(called.attr)], [])

    def _unless_seen(self, node: Any, kind: str, terms: list[ast.expr], in_place: bool = False) -> Any:
        """A sum as it is, or, if it did not run while the network was read, one that is looked at when it does."""
        if self.seen is None or position_of(node) in self.seen:
            return node
        told = [ast.Constant(kind), ast.Tuple(terms, ast.Load()), ast.Constant(in_place), ast.Constant(node.lineno)]
        return ast.copy_location(ast.Call(ast.Name(UNSEEN, ast.Load()), [self.me, *told], []), node)

    def _join(self, node: ast.AST, kind: str, terms: list[ast.expr], in_place: bool) -> ast.Call:
        spot = self.spots[position_of(node)]
        named = [ast.Name(self._name(p, i), ast.Load()) for p in spot.inner for i in (0, 1)]
        tail = [
            ast.Constant(kind),
            ast.Tuple(terms, ast.Load()),
            ast.Constant(in_place),
            ast.Tuple(list(named), ast.Load()),
        ]
        made = ast.Call(
            ast.Name(JOIN, ast.Load()),
            [self.me, ast.Constant(spot.number), self._key(spot), *tail],
            [],
        )
        return ast.copy_location(made, node)

    def _key(self, spot: SumSpot) -> ast.expr:
        own: list[ast.expr] = [ast.Name(name, ast.Load()) for hops, name in spot.names if not hops]
        if self.keys is None:
            return ast.Tuple(own, ast.Load()) if spot.names else ast.Constant(None)
        given = ast.Subscript(ast.Name(self.keys, ast.Load()), ast.Constant(self.indices[spot]), ast.Load())
        return ast.Tuple([ast.Starred(given, ast.Load()), *own], ast.Load()) if own else given

    def _name(self, position: Position, operand: int) -> str:
        return f"__winze_{self.inner[position]}_{operand}__"

    def _named(self, position: Position, operand: int, value: ast.expr) -> ast.expr:
        return ast.copy_location(ast.NamedExpr(ast.Name(self._name(position, operand), ast.Store()), value), value)


class _CallsOnce(ast.NodeTransformer):
    """The target of `+=` is read and then written, but what it calls is called once: the reading keeps the results."""

    def __init__(self, reads: bool) -> None:
        self.reads, self.numbers = reads, itertools.count()

    def visit_Call(self, node: ast.Call) -> ast.expr:
        name = f"__winze_target_{next(self.numbers)}__"
        return ast.NamedExpr(ast.Name(name, ast.Store()), node) if self.reads else ast.Name(name, ast.Load())


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
    made = next((c for c in codes_in(code) if c.co_name == "__winze_factory__"), None)
    assert made is not None
    return next(c for c in made.co_consts if isinstance(c, CodeType) and c.co_name == name)


_FUTURE = 0x1000000  # from __future__ import annotations
