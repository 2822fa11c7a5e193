"""Rules in a forward that goes on running as its author wrote it: only the residual sums are handed over."""

from __future__ import annotations

import copy
import operator
import warnings
from collections.abc import Callable
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor, nn
from torch._compile import _disable_dynamo

from winze.shape.live.anchors import Anchor, functions_in
from winze.shape.live.definition import CaptureError, SourceError, fingerprint, written_from
from winze.shape.live.foreign_junction import ForeignJunction, Form
from winze.shape.live.function_source import Positions, SumSpot, joined, rebuilt
from winze.shape.rules.standard import Standard

LIVE = "_winze"
OPERATIONS: dict[str, Callable[..., Any]] = {"add": operator.add, "sub": operator.sub}
IN_PLACE: dict[str, Callable[..., Any]] = {"add": operator.iadd, "sub": operator.isub}
NAMED = {"iadd": "add_", "isub": "sub_", "subtract": "sub", "subtract_": "sub_"}
CALLS = {"add", "add_", "sub", "sub_", "subtract", "subtract_", "addcmul", "addcmul_", "iadd", "isub", "sum"}
SumRuns = dict[Any, tuple[ForeignJunction, Form] | None]


class Live:
    """The functions of one module in which sums are handed to junctions, and the junctions of each sum.

    `spots` are the sums of each function, by the name under which the module reaches it.
    """

    def __init__(self, owner: nn.Module) -> None:
        self.owner = owner
        self.methods: dict[str, tuple[str, CodeType | None, str]] = {}
        self.spots: dict[str, list[SumSpot]] = {}
        self.seen: dict[str, Positions] = {}
        self.junctions: list[SumRuns] = []
        self.originals: dict[str, Any] = {}
        self.hung: set[str] = set()
        self._forward: Any = None

    def add(self, anchored: Anchor, spot: SumSpot, junctions: SumRuns, seen: Positions) -> None:
        """Take over one more sum; None where it runs without being residual. `seen` are all sums of its function."""
        for name in anchored.names:
            self.seen[name] = seen
            self.methods[name] = anchored.me, anchored.code, fingerprint(anchored.code)
            self.spots.setdefault(name, []).append(spot)
        self.junctions.append(junctions)

    @property
    def all_junctions(self) -> list[ForeignJunction]:
        """The junctions of every sum taken over."""
        return list(dict.fromkeys(run[0] for found in self.junctions for run in found.values() if run is not None))

    def identities(self) -> dict[tuple[nn.Module, Any, Any], ForeignJunction]:
        """The junctions by module, position in the source, and key."""
        spots = [spot for found in self.spots.values() for spot in found]
        return {
            (self.owner, spot.path, key): run[0]
            for spot in spots
            for key, run in self.junctions[spot.number].items()
            if run is not None
        }

    def at(self, number: int, key: Any) -> tuple[ForeignJunction, Form] | None:
        """The junction of one run of a sum, None where that is a plain sum."""
        found = self.junctions[number]
        if key not in found:
            raise CaptureError(
                f"a sum of {type(self.owner).__name__} runs at a depth that it did not run at when it was rewired "
                f"({key!r}): rewire the network again"
            )
        run = found[key]
        return None if run is None or type(run[0].rule) is Standard else run

    def install(self) -> None:
        """Put functions with joins in the place of the module's own."""
        own = vars(self.owner)
        self.originals = {name: own.get(name) for name in {*self.methods, "forward"}}
        own[LIVE] = self
        for name in self.methods:
            method = Method(self, name)
            method.compile()
            self.hang(name, method.forward)

    def hang(self, name: str, stand_in: Any) -> None:
        """Put one function in the place of the module's own."""
        vars(self.owner)[name] = stand_in
        self.hung.add(name)

    @property
    def covered(self) -> str | None:
        """A function of ours that another one has replaced since."""
        hanging = ((name, getattr(vars(self.owner).get(name), "__self__", None)) for name in sorted(self.hung))
        return next((name for name, stand_in in hanging if not getattr(stand_in, "stands_in", False)), None)

    def restore(self) -> None:
        """Give the module its own functions back."""
        for name, original in self.originals.items():
            if original is None:
                vars(self.owner).pop(name, None)
            else:
                vars(self.owner)[name] = original

    def remove(self) -> None:
        """Take everything of ours off the module."""
        self.restore()
        vars(self.owner).pop(LIVE, None)

    def own_forward(self) -> Any:
        """The forward of the module without joins."""
        original = self.originals.get("forward")
        return type(self.owner).forward.__get__(self.owner) if original is None else original

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's forward with joins, also where a program stands before it."""
        if "forward" not in self.methods:
            return self.own_forward()(*args, **kwargs)
        if self._forward is None:
            self._forward = Method(self, "forward").forward
        return self._forward(*args, **kwargs)

    def compiled(self, name: str) -> FunctionType | Any:
        """The function that the module finds under a name, with its sums handed over; takes the module first."""
        me, code = self.methods[name][0], self.found_again(name)
        function = self.original(name)
        function = function.__func__ if isinstance(function, MethodType) else function
        made = rebuilt(function, code, lambda f: joined(f, self.spots[name], me, self.seen[name], join, call, unseen))
        if self.originals.get(name) is None or isinstance(self.originals[name], MethodType):
            return made
        return lambda module, *args, **kwargs: made(*args, **kwargs)  # a function that is no method

    def original(self, name: str) -> Any:
        """The module's own function: on itself, or its class's."""
        own = self.originals.get(name)
        return _class_function(type(self.owner), name) if own is None else own

    def __getstate__(self) -> dict[str, Any]:
        return {
            **vars(self),
            "_forward": None,
            "methods": {n: (me, None, print_) for n, (me, _, print_) in self.methods.items()},
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)

    def __deepcopy__(self, memo: dict[int, Any]) -> Live:
        made = Live.__new__(Live)
        memo[id(self)] = made
        made.methods, made.seen, made.hung = dict(self.methods), dict(self.seen), set(self.hung)
        made.owner, made.spots, made.junctions, made.originals = copy.deepcopy(
            (self.owner, self.spots, self.junctions, self.originals), memo
        )
        made._forward = None
        return made

    def found_again(self, name: str) -> CodeType:
        """The code of a function, also after loading, if its source is still what it was."""
        me, code, expected = self.methods[name]
        functions = functions_in(self.original(name))
        if code is not None and any(one.__code__ is code for one in functions):
            return code
        for candidate in functions:
            try:
                same = fingerprint(candidate.__code__) == expected
            except SourceError:
                continue
            if same:
                self.methods[name] = me, candidate.__code__, expected
                return candidate.__code__
        raise CaptureError(
            f"the source of {type(self.owner).__name__}.{name} is not what it was when the network was rewired: "
            "rewire it again"
        )


class Method:
    """A function of a module with its sums handed over; it survives copying and pickling.

    `forward` is what hangs on the module: a bound method with the signature of the original. A pickled bound method is
    looked up by that name.
    """

    stands_in = True

    def __init__(self, live: Live, name: str, function: Any = None) -> None:
        self.live, self.name, self.function = live, name, function
        self.owner = live.owner
        self.written_from: tuple[Any, ...] = ()

    @property
    def forward(self) -> Any:
        """The method that stands in for the module's own."""

        def forward(self: Method, *args: Any, **kwargs: Any) -> Any:
            function = self.function
            if function is None or not (torch.compiler.is_compiling() or self.is_current()):
                function = self.compile()
            return function(self.owner, *args, **kwargs)

        original = self.live.original(self.name)
        forward.__wrapped__ = getattr(original, "__func__", original)  # type: ignore[attr-defined]
        return MethodType(forward, self)

    @_disable_dynamo  # unlike torch.compiler.disable, it does not import the compiler
    def compile(self) -> Any:
        """Write the function, from the module's own; a class may get another one later, or other default values."""
        self.written_from = written_from(self.found())
        self.function = self.live.compiled(self.name)
        return self.function

    def is_current(self) -> bool:
        """Whether the function was written from the one that Python finds now, with the default values of now."""
        function, code, defaults, keywords = self.written_from
        found = self.found()
        return found is function and (
            code is None
            or (found.__code__ is code and found.__defaults__ is defaults and found.__kwdefaults__ is keywords)
        )

    def found(self) -> Any:
        """The function that Python finds on the module, or on its class."""
        own = self.live.originals.get(self.name)
        return getattr(type(self.live.owner), self.name, None) if own is None else getattr(own, "__func__", own)

    def __reduce__(self) -> Any:
        return Method, (self.live, self.name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Method:
        made = Method.__new__(Method)
        memo[id(self)] = made
        made.name, made.function, made.written_from = self.name, self.function, self.written_from
        made.live = copy.deepcopy(self.live, memo)
        made.owner = copy.deepcopy(self.owner, memo)
        return made


def join(
    me: nn.Module, number: int, key: Any, kind: str, terms: tuple[Any, ...], in_place: bool, named: tuple[Any, ...]
) -> Any:
    """What a residual sum has become: `terms[0] + terms[1]` by the rule of the junction there."""
    found: tuple[ForeignJunction, Form] | None = me.__dict__[LIVE].at(number, key)
    if found is None:
        return (IN_PLACE if in_place else OPERATIONS)[kind](*terms)
    junction, form = found
    second = -1.0 if kind == "sub" else 1.0
    picked = tuple((named if inner else terms)[i] for inner, i in form.order)
    signs = tuple(1.0 if inner or i == 0 else second for inner, i in form.order)
    return junction.add_up(form, picked, signs, terms[0] if in_place and form.shared else None)


def call(me: nn.Module, number: int, key: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
    """The same for a sum that is written as a call: `torch.add(x, f)`, `x.add_(f)`, `sum([x, f])`."""
    found: tuple[ForeignJunction, Form] | None = me.__dict__[LIVE].at(number, key)
    name = NAMED.get(function.__name__, function.__name__)
    if name == "sum":
        args = (list(args[0]), *args[1:])
    if found is None:
        return function(*args, **kwargs)
    junction, form = found
    if name == "sum":
        start = args[1:] or tuple(kwargs.values())
        terms = tuple(term for term in (*start, *args[0]) if not (isinstance(term, int | float) and term == 0))
        if len(terms) != len(form.order) or not all(isinstance(term, Tensor) for term in terms):
            raise CaptureError(
                f"sum() of {type(me).__name__} adds up {len(terms)} terms, but {len(form.order)} tensors when the "
                "network was rewired: rewire it again"
            )
        return junction.add_up(form, terms, (1.0,) * len(terms))
    bound = getattr(function, "__self__", None)
    given = [bound, *args] if isinstance(bound, Tensor) else list(args)
    given.extend(kwargs[n] for n in ("input", "other", "tensor1", "tensor2") if n in kwargs)
    if name.startswith("addcmul"):
        factors, factor = given[1:], kwargs.get("value", 1)
        given = [given[0], factors[0] * factors[1]]
        fused = partial(_addcmul, factors[0], factors[1], factor)
    else:
        factor = kwargs.get("alpha", 1) * (-1 if name.startswith("sub") else 1)
        fused = partial(torch.add, other=given[1], alpha=factor)
    target = given[0] if name.endswith("_") else None
    picked = tuple(given[i] for _, i in form.order)
    signs = tuple(1.0 if i == 0 else factor for _, i in form.order)
    return junction.add_up(form, picked, signs, target, None if form.shortcut else fused)


def unseen(me: nn.Module, kind: str, terms: tuple[Any, Any], in_place: bool, line: int) -> Any:
    """A sum that did not run while the network was read: warn where it adds two tensors that may be a stream."""
    one, two = terms
    tensors = isinstance(one, Tensor) and isinstance(two, Tensor) and not (one.is_nested or two.is_nested)
    if tensors and one.shape == two.shape and one.ndim > 1:
        place = type(me), line
        if one.is_floating_point() and place not in _told:
            _told.add(place)
            _warn(me, line)
    return (IN_PLACE if in_place else OPERATIONS)[kind](one, two)


@_disable_dynamo
def _warn(me: nn.Module, line: int) -> None:
    code = getattr(type(me).forward, "__code__", None)
    warnings.warn(
        f"{type(me).__name__} adds two tensors in line {line} of {code.co_filename if code else 'its source'}, which "
        "did not run when the network was rewired: no rule is applied there. Rewire with an example that runs it",
        stacklevel=3,
    )


_told: set[tuple[type, int]] = set()


def live_of(module: nn.Module) -> Live | None:
    """What hands a module's sums to junctions, if something does."""
    found = vars(module).get(LIVE)
    return found if isinstance(found, Live) else None


def own_forward(module: nn.Module) -> Callable[..., Any]:
    """The forward that a module has without rules of ours."""
    live = live_of(module)
    return module.forward if live is None else live.own_forward()


def _addcmul(one: Tensor, other: Tensor, factor: float, shortcut: Tensor) -> Tensor:
    return torch.addcmul(shortcut, one, other, value=factor)


def _class_function(kind: type, name: str) -> FunctionType:
    for base in kind.__mro__:
        if name in vars(base):
            return vars(base)[name]
    raise CaptureError(f"{kind.__name__} no longer has {name}")
