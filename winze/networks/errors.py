"""What can go wrong with networks and their weights; each message is one line that says what to do."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class NetworkError(ValueError):
    """A network or a file of weights that cannot be used as asked."""


def nearest(word: str, known: Iterable[str], prefix: str = "") -> str:
    """The known words closest to a mistyped one, ready to be put into a sentence; a common prefix does not count."""
    names = [name.removeprefix(prefix) for name in known]
    close = [prefix + name for name in get_close_matches(word.lower().removeprefix(prefix), names, n=3, cutoff=0.5)]
    return f"; did you mean {' or '.join(close)}?" if close else ""


def one_line(error: BaseException) -> str:
    """The kind and the message of an error without its line ends."""
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
