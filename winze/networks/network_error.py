"""What can go wrong with networks and their weights; each message is one line that says what to do."""

from __future__ import annotations


class NetworkError(ValueError):
    """A network or a file of weights that cannot be used as asked."""


def one_line(error: BaseException) -> str:
    """The kind and the message of an error without its line ends."""
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
