"""Pieces of HTML: an empty chart with its words, lists to choose from, boxes to tick."""

from __future__ import annotations

from collections.abc import Collection
from html import escape


def chart(key: str, said: str, kind: str = "chart") -> str:
    """An empty chart with its words for screen readers, and its legend."""
    body = f'<div class="{kind}" id="{key}" role="figure" aria-label="{escape(said)}"></div>'
    return f'{body}<ul class="legend" id="{key}-legend"></ul>'


def small_charts(key: str, said: str) -> str:
    """An empty grid of small charts."""
    return chart(key, said, "small-charts")


def select(key: str, title: str, options: dict[str, str], first: str) -> str:
    """A labelled list to choose from."""
    inner = "".join(
        f'<option value="{escape(value)}"{" selected" if value == first else ""}>{escape(said)}</option>'
        for value, said in options.items()
    )
    return f'<span><label for="{key}">{escape(title)}</label> <select id="{key}">{inner}</select></span>'


def ticks(key: str, title: str, options: dict[str, str], ticked: Collection[str]) -> str:
    """A group of boxes to tick."""
    boxes = [
        f'<label><input type="checkbox" value="{escape(value)}"{" checked" if value in ticked else ""}> '
        f"{escape(said)}</label>"
        for value, said in options.items()
    ]
    return f'<fieldset id="{key}"><legend>{escape(title)}</legend>{"".join(boxes)}</fieldset>'


def row(*controls: str) -> str:
    """Controls in one row that wraps."""
    return f'<div class="controls">{"".join(controls)}</div>'
