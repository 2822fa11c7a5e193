"""Tell the runs of one sum apart, where a line of source makes several: by the names around it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import fx, nn

from winze.shape.live.anchors import holds, hops_to
from winze.shape.live.definition import SourceError
from winze.shape.live.site import Site

if TYPE_CHECKING:
    from winze.shape.sums.sum_search import Found, Search

Names = dict[tuple[int, str], Any]


def names_around(site: Site | None, like: Found) -> Names | None:
    """What names mean around a sum that has run by the same calls, each name with the hops to its function."""
    other, anchored = like.operation.site, like.anchored
    assert other is not None
    assert anchored is not None
    if site is None or site.code is not other.code:
        return None
    depth = next((i for i, frame in enumerate(site.frames) if frame.code is anchored.code), None)
    try:
        same = depth is not None and hops_to(site, depth)[0] == anchored.hops
    except SourceError:
        return None
    if not same or depth is None:
        return None
    found: Names = {}
    hops, code = 0, anchored.code
    for frame in reversed(site.frames[: depth + 1]):
        if not holds(code, frame.code):
            hops, code = hops + 1, frame.code
        found.update({(hops, name): value for name, value in frame.names.items()})
    return found


def tell_apart(found: list[Found], graph: fx.Graph) -> list[Found]:
    """Where one line of source makes several sums in one call, the names around it that tell them apart.

    Not all of them need be residual: those that are not are noted as `others`. Returns those that no name tells apart.
    """
    operations = [node.meta["operation"] for node in graph.nodes if "operation" in node.meta]
    groups: dict[Any, list[Found]] = {}
    for one in found:
        assert one.anchored is not None
        groups.setdefault((one.anchored.owner, one.spot.path), []).append(one)
    alike: list[Found] = []
    for (owner, _), group in groups.items():
        anchored = group[0].anchored
        assert anchored is not None
        around = {
            operation: meant
            for operation in operations
            if operation.site is not None and operation.site.position == group[0].position
            if (meant := names_around(operation.site, group[0])) and meant.get((0, anchored.me)) is owner
        }
        runs = list(around)
        if len(runs) == 1:
            continue
        shared = set.intersection(*(set(names) for names in around.values()))
        names = sorted(
            (n for n in around[runs[0]] if n in shared), key=lambda n: _rank([a[n] for a in around.values()])
        )
        alone = [n for n in names if len({_hashed(each[n]) for each in around.values()}) == len(runs)]
        chosen = tuple(alone[:1] or names)
        keys = {operation: tuple(each[n] for n in chosen) for operation, each in around.items()}
        if not chosen or len({tuple(map(_hashed, key)) for key in keys.values()}) < len(runs):
            for one in group:
                one.reason = "one line makes several sums that nothing around it tells apart"
            alike += group
            continue
        residual = {one.operation for one in group}
        others = tuple(key for operation, key in keys.items() if operation not in residual)
        for one in group:
            one.key, one.names, one.others = keys[one.operation], chosen, others
    return alike


def agree(*searches: Search) -> None:
    """Identify a sum of a loop that ran once in one mode (LayerDrop) by the names that the other mode needs."""
    groups: dict[Any, list[Found]] = {}
    for one in (one for found in searches for one in found.sums if not one.reason):
        assert one.anchored is not None
        groups.setdefault((one.anchored.owner, one.spot.path), []).append(one)
    for group in groups.values():
        names = next((one.names for one in group if one.names), ())
        for one in group if names else ():
            around = None if one.names else names_around(one.operation.site, one)
            if around is not None and all(name in around for name in names):
                one.names, one.key = names, tuple(around[name] for name in names)


def _rank(values: list[Any]) -> int:
    """How well the values of a name tell the runs of a line apart: modules best, lengths of an input worst."""
    if all(isinstance(value, nn.Module | str) for value in values):
        return 0
    counts = all(isinstance(value, int) and value == values[0] + i for i, value in enumerate(values))
    return 1 if counts else 2


def _hashed(value: Any) -> Any:
    return id(value) if isinstance(value, nn.Module) else value
