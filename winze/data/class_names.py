"""Some classes of a set: `cifar10[0-4]`, `cifar10[cat,dog]`, or `classes=[3, 5]`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from winze.data.data_error import DataError
from winze.hints import did_you_mean

Wanted = str | Sequence[int | str] | None
"""Classes as a user writes them: "0-4,7", "cat,dog", [0, 1, 2], ["cat", "dog"], range(5), or None for all."""

SYNTAX = (
    "NAME[CLASSES] picks classes, numbered anew in the order given: cifar10[0-4] (both ends included), "
    "cifar10[0-4,7], cifar10[cat,dog]; a number is a place in the class list, anything else a class name"
)


def split_name(text: str) -> tuple[str, str | None]:
    """Take a name and its bracket apart; a folder that exists keeps the brackets in its own name.

    >>> split_name("cifar10[0-4]")
    ('cifar10', '0-4')
    >>> split_name("cifar10")
    ('cifar10', None)
    """
    match = re.fullmatch(r"(.*?)\[([^\[\]]*)\]", text.strip())
    if match is None or _is_path(text):
        if match is None and "[" in text and not _is_path(text):
            raise DataError(f"{text!r} is not a data set: {SYNTAX}")
        return text.strip(), None
    return match[1].strip(), match[2]


def _is_path(text: str) -> bool:
    try:
        return Path(text).expanduser().exists()
    except OSError:  # a long list of classes is no file name
        return False


def resolve(wanted: Wanted, classes: Sequence[str], what: str) -> list[int]:
    """The class numbers that were asked for, in the order given."""
    if wanted is None:
        return list(range(len(classes)))
    tokens = [token.strip() for token in wanted.split(",")] if isinstance(wanted, str) else list(wanted)
    written = isinstance(wanted, str)
    numbers = [number for token in tokens for number in _numbers(token, classes, what, written)]
    if not numbers:
        raise DataError(f"{what}: no classes were asked for; {SYNTAX}")
    twice = next((number for number in numbers if numbers.count(number) > 1), None)
    if twice is not None:
        raise DataError(f"{what}: class {twice} ({classes[twice]}) was asked for twice")
    return numbers


def _numbers(token: int | str, classes: Sequence[str], what: str, written: bool) -> list[int]:
    """One token as class numbers; only written text ("0-4") may hold numbers and ranges inside a string."""
    if isinstance(token, str):
        span = re.fullmatch(r"(\d+)(?:\s*-\s*(\d+))?", token) if written else None
        if span is None or (span[2] is not None and token in classes):
            return [_by_name(token, classes, what)]
        first, last = int(span[1]), int(span[2] or span[1])
        if last < first:
            raise DataError(f"{what}: the class range {token} runs backwards")
    else:
        first = last = int(token)
    if first < 0 or last >= len(classes):
        outside = first if first < 0 or first >= len(classes) else last
        raise DataError(f"{what}: class {outside} is out of range, it has {len(classes)} (0-{len(classes) - 1})")
    return list(range(first, last + 1))


def _by_name(name: str, classes: Sequence[str], what: str) -> int:
    """The class of this name; capitals matter only where two names differ by nothing else."""
    exact = [number for number, known in enumerate(classes) if known == name]
    loose = [number for number, known in enumerate(classes) if known.lower() == name.lower()]
    for found in (exact, loose):
        if len(found) == 1:
            return found[0]
    if not name:
        raise DataError(f"{what}: an empty class name; {SYNTAX}")
    raise DataError(f"{what} has no class {name!r}{did_you_mean(name, classes)}")
