"""One scan or several by name: what every figure takes, and the error where the readings lack what it draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from winze.readings import Readings, ReadingsError

Scans = Readings | Mapping[str, Readings]


class UnreadError(ReadingsError):
    """The readings hold nothing that this figure could draw."""


def by_name(scans: Scans) -> dict[str, Readings]:
    """Several scans by name; one alone has the empty name."""
    return {"": scans} if isinstance(scans, Readings) else dict(scans)


def holding(scans: Scans, holds: Callable[[Readings], bool], what: str) -> dict[str, Readings]:
    """The scans that hold `what`; an error that names it where none does."""
    named = by_name(scans)
    found = {name: one for name, one in named.items() if holds(one)}
    if not found:
        raise UnreadError(f"these readings hold no {what}")
    return found if len(named) > 1 else {"": next(iter(found.values()))}
