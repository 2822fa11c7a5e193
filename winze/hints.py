"""Hints in errors: the known names that are most like one that is not known."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches


def nearest(word: str, names: Iterable[str], cutoff: float = 0.0, key: Callable[[str], str] = str.lower) -> list[str]:
    """At most three of the names, the most similar first; `key` is what is compared of each."""
    by_key = {key(name): name for name in names}
    return [by_key[match] for match in get_close_matches(key(word), list(by_key), n=3, cutoff=cutoff)]


def did_you_mean(word: str, names: Iterable[str], key: Callable[[str], str] = str.lower) -> str:
    """What was probably meant, as the end of a sentence; empty where nothing is similar."""
    near = nearest(word, names := list(names), 0.8, key) or nearest(word, names, 0.5, key)  # a slip, else a guess
    return f"; did you mean {' or '.join(near)}?" if near else ""
