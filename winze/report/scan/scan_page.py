"""The report: one HTML file that needs no network, with the static figures in a folder beside it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from pathlib import Path

from winze.atomic import shortened, write_atomically
from winze.measure.registry import number_named
from winze.readings import Readings, ReadingsError, facts
from winze.report.scan.figure_files import drawn, store
from winze.report.scan.opening import opening
from winze.report.scan.payload import payload
from winze.report.scan.sections import folded, navigation, section, sections
from winze.report.scan.summary import comparison, findings, notes
from winze.report.scan.tables import hidden, prose

GLOSSARY = {
    "layer": "a place at which the network was read, counted from 1; the table of values has its module",
    "probe": "a linear classifier trained on the frozen features of one layer; its test accuracy says what they hold",
    "extractor": "the layers up to the first whose probe reaches the share of the reference accuracy asked for",
    "tunnel": "the layers after the extractor: they add almost nothing to the probe accuracy",
    "numerical rank": "directions of the features whose variance exceeds a thousandth of the largest",
    "CKA": "similarity of the features of two layers, from 0 to 1, whatever their rotation and scale",
    "OOD": "out-of-distribution data: data that the network was not trained on",
    "kappa (κ)": "share of the depth at which probes on this data reach 99 % of their best accuracy; small: early",
    "rho (ρ)": "share of the best OOD accuracy that the last layer has lost",
}
MOST = 5  # sentences about OOD data before the rest is folded away


def write(
    scans: Mapping[str, Readings],
    path: str | os.PathLike[str],
    title: str = "",
    threshold: float = 0.95,
    figures: bool = True,
) -> Path:
    """Write the report of one scan, or of several side by side; give its path.

    SVG and PNG of every figure go to `<stem>_figures/` beside it, unless `figures` is false.
    """
    if not scans:
        raise ReadingsError("a report needs at least one scan")
    target, named = Path(path), dict(scans)
    bodies: dict[Path, bytes] = {}
    if figures:
        folder = target.with_name(f"{shortened(target.stem)}_figures")
        bodies = drawn(named if len(named) > 1 else next(iter(named.values())), folder, threshold)
    static = [file.relative_to(target.parent).as_posix() for file in bodies if file.suffix == ".svg"]
    title = title or f"What the network{'s represent' if len(named) > 1 else ' represents'} at every depth"
    body = page(named, title, threshold, static).encode()  # before anything is written: readings may break it
    target.parent.mkdir(parents=True, exist_ok=True)
    store(bodies)
    write_atomically(target, body)
    return target


def page(scans: dict[str, Readings], title: str, threshold: float, static: list[str]) -> str:
    """The whole page as text."""
    from plotly.offline import get_plotlyjs

    first, *rest = sections(scans, threshold, static)
    found = section("findings", "Findings", _sentences(scans, threshold))
    parts = [first, found, *rest] if first.key == "depth-profile" else [found, first, *rest]
    fill = {
        "title": escape(title),
        "subtitle": escape(" · ".join(scans)),
        "css": _asset("page.css"),
        "navigation": navigation(parts),
        "summary": opening(scans, threshold),
        "sections": "\n".join(part.html if part.key == "depth-profile" else folded(part) for part in parts),
        "data": _json(payload(scans, threshold)),
        "plotly": get_plotlyjs(),
        "js": "\n".join(_asset(name) for name in ("charts.js", "panels.js", "page.js")),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: fill[found[1]], _asset("page.html"))


def _sentences(scans: dict[str, Readings], threshold: float) -> str:
    def sentences_of(readings: Readings) -> str:
        noted = "".join(f"<li>{prose(note)}</li>" for note in notes(readings))
        return listed(findings(readings, threshold)) + (
            hidden(f"<ul>{noted}</ul>", "Notes on this scan") if noted else ""
        )

    def listed(sentences: list[str]) -> str:
        if not sentences:
            return "<p>These readings hold no probes, so no tunnel can be found.</p>"
        others = [sentence for sentence in sentences if sentence.startswith("Best layer for `")]
        folded = others[MOST:] if len(others) > MOST + 1 else []
        open_list = "".join(f"<li>{prose(sentence)}</li>" for sentence in sentences if sentence not in folded)
        rest = "".join(f"<li>{prose(sentence)}</li>" for sentence in folded)
        return f"<ul>{open_list}</ul>" + (hidden(f"<ul>{rest}</ul>", f"{len(folded)} more data sets") if rest else "")

    joined = dict.fromkeys(measure for one in scans.values() for measure in facts.joined(one))
    known = {number.words: number.meaning for number in map(number_named, joined) if number.meaning}
    words = "".join(f"<dt>{escape(word)}</dt><dd>{escape(said)}</dd>" for word, said in (GLOSSARY | known).items())
    glossary = hidden(f"<dl>{words}</dl>", "What the words mean")
    if len(scans) == 1:
        return sentences_of(next(iter(scans.values()))) + glossary
    apart = comparison(scans, threshold)
    first = f"<h3>How they differ</h3>{listed(apart)}" if apart else ""
    return first + "".join(f"<h3>{escape(name)}</h3>{sentences_of(one)}" for name, one in scans.items()) + glossary


def _json(value: object) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _asset(name: str) -> str:
    return (files("winze.report") / "assets" / name).read_text(encoding="utf-8")
