"""Text from files and data, made safe for a terminal."""

from __future__ import annotations


def plain(text: str) -> str:
    """The text without control characters, which a terminal would obey; lines stay lines.

    >>> plain("a \\x1b[31mred\\x1b[0m name")
    'a ?[31mred?[0m name'
    """
    return "".join(each if each.isprintable() or each == "\n" else "?" for each in text)
