"""A page without scripts: sections of text, tables and figures in one file that opens anywhere."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from winze.atomic import write_atomically
from winze.report.scan.sections import Section, section

__all__ = ["Section", "picture", "section", "write_static"]


def write_static(path: str | os.PathLike[str], title: str, subtitle: str, sections: Sequence[Section]) -> Path:
    """Write the page; `subtitle` is HTML, `title` is not. Give its path."""
    links = "".join(f'<li><a href="#{part.key}">{escape(part.title)}</a></li>' for part in sections)
    fill = {
        "title": escape(title),
        "subtitle": subtitle,
        "css": _asset("page.css"),
        "navigation": f"<ul>{links}</ul>",
        "sections": "\n".join(part.html for part in sections),
    }
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    text = re.sub(r"\{\{(\w+)\}\}", lambda found: fill[found[1]], _asset("static.html"))
    write_atomically(target, text.encode())
    return target


def picture(light: bytes, dark: bytes, said: str) -> str:
    """A figure as SVG in light and dark, chosen by the color scheme of the browser; `said` is its text alternative."""
    return (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="{_data(dark)}">'
        f'<img src="{_data(light)}" alt="{escape(said)}"></picture>'
    )


def _data(svg: bytes) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode('ascii')}"


def _asset(name: str) -> str:
    return (files("winze.report") / "assets" / name).read_text(encoding="utf-8")
