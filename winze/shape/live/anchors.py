"""Find the function through which a module of the network reaches a sum, and the calls on the way to it."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

from torch import nn

from winze.shape.live.definition import Position, SourceError, codes_in, fingerprint
from winze.shape.live.site import Site


@dataclass(frozen=True)
class Hop:
    """A call, at a position of one function, of the function that is nearer to the sum."""

    position: Position
    name: str
    source: str


@dataclass(frozen=True)
class Anchor:
    """A function of a module that holds a sum: where it hangs, and under which name it knows the module.

    `names` are the attributes by which the module reaches it, be it its own, its class's or inside a wrapper.
    Where the sum stands in a function that this one calls, `hops` are the calls on the way there, and `codes` the
    functions, from `code` to the one with the sum.
    """

    owner: nn.Module
    names: tuple[str, ...]
    me: str
    code: CodeType
    hops: tuple[Hop, ...] = ()
    codes: tuple[CodeType, ...] = ()


def anchors(site: Site, members: set[nn.Module], holder: nn.Module) -> Iterator[Anchor]:
    """The functions through which a module of the network reaches a sum: those inside its holder first."""
    if None in site.position:
        raise SourceError("its instructions have no positions in a source")
    inside = set(holder.modules())
    reason = f"the sum is made in {site.code.co_name}, which is not a method of a module"
    for owners in (members & inside, members - inside):
        try:
            yield from _anchors(site, owners)
        except SourceError as error:
            reason = str(error)
    raise SourceError(reason)


def _anchors(site: Site, members: set[nn.Module]) -> Iterator[Anchor]:
    for depth, frame in enumerate(site.frames):
        for me in frame.code.co_varnames[: frame.code.co_argcount + frame.code.co_kwonlyargcount]:
            owner = frame.names.get(me)
            if not (isinstance(owner, nn.Module) and owner in members):
                continue
            names = _attributes(owner, frame.code)
            if not names:
                continue
            if names[0].startswith("__") and names[0].endswith("__"):
                raise SourceError(
                    f"the sum is made in {names[0]}, which Python looks up on the class: make it in forward"
                )
            hops, codes = hops_to(site, depth)
            inside = (one.code for one in site.frames[:depth] if holds(frame.code, one.code))
            if any(me in (*one.co_varnames, *one.co_cellvars) for one in inside):
                raise SourceError(f"a function inside {frame.code.co_name} uses the name {me} for something else")
            yield Anchor(owner, names, me, frame.code, hops, codes)


def hops_to(site: Site, depth: int) -> tuple[tuple[Hop, ...], tuple[CodeType, ...]]:
    """The calls that lead from one of the frames around a sum to the function that holds it."""
    if holds(site.frames[depth].code, site.code):
        return (), (site.frames[depth].code,)
    hops: list[Hop] = []
    codes = [site.code]
    for frame in site.frames[1 : depth + 1]:
        if holds(frame.code, codes[0]):
            codes[0] = frame.code
        elif frame.called is not None and frame.called.__code__ is codes[0]:
            hops.insert(0, Hop(frame.position, codes[0].co_name, fingerprint(codes[0])))
            codes.insert(0, frame.code)
        else:
            raise SourceError(
                f"the sum is made in {codes[0].co_name}, which {frame.code.co_name} does not call by a name"
            )
    return tuple(hops), tuple(codes)


def holds(code: CodeType, inner: CodeType) -> bool:
    """Whether a function is another one, or has it inside."""
    return any(c is inner for c in codes_in(code))


def _attributes(owner: nn.Module, code: CodeType) -> tuple[str, ...]:
    """The names under which a module finds a function with this code, wrapped or not; its own come first."""
    found = {name: value for name, value in vars(owner).items() if wraps(value, code)}
    seen = set(vars(owner))
    for kind in type(owner).__mro__:
        for name, value in vars(kind).items():
            if name not in seen and isinstance(value, FunctionType) and wraps(value, code):
                found[name] = value
            seen.add(name)
    first = next(iter(found.values()), None)
    return tuple(name for name, value in found.items() if value is first)


def functions_in(function: Any, known: Iterable[Any] = ()) -> list[FunctionType]:
    """A function and those that it wraps, but for those `known`; a wrapper may hold itself."""
    found: list[FunctionType] = []
    seen, waiting = {id(one) for one in known}, [function]
    while waiting:
        one = waiting.pop()
        if isinstance(one, MethodType | functools.partial):
            waiting.append(one.__func__ if isinstance(one, MethodType) else one.func)
        elif isinstance(one, FunctionType) and id(one) not in seen:
            seen.add(id(one))
            found.append(one)
            waiting.extend(content(cell) for cell in reversed(one.__closure__ or ()))
    return found


def content(cell: CellType) -> Any:
    """What a closure's cell holds; None where it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def wraps(function: Any, code: CodeType, known: Iterable[Any] = ()) -> bool:
    """Whether a function has this code, or wraps one that has."""
    return any(one.__code__ is code for one in functions_in(function, known))
