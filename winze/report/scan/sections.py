"""The sections of the page: controls, a place for each chart, and its table; only what the readings hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape

from winze.readings import Readings, facts
from winze.readings.wording import label, percent
from winze.report.scan import tables
from winze.report.scan.controls import chart, row, select, small_charts, ticks
from winze.report.scan.cut_plot import COSTS, costs
from winze.report.scan.embedding_plot import chosen

SHOWN = 4  # OOD sets ticked at first
PANELS = 4  # scans that have a panel of the depth profile each at first


@dataclass(frozen=True)
class Section:
    """One part of the page: its anchor, its heading and its HTML."""

    key: str
    title: str
    html: str


def sections(scans: dict[str, Readings], threshold: float, static: list[str]) -> list[Section]:
    """Every section that the readings support, in reading order."""
    made = [
        _profile(scans, threshold),
        _each(
            "cka",
            "CKA between layers",
            scans,
            _has_cka,
            tables.cka_table,
            "1: the features are the same up to rotation and scale; 0: unrelated. Dotted: the start of the tunnel.",
        ),
        _each(
            "spectra",
            "Spectra",
            scans,
            lambda one: bool(facts.spectra(one)),
            tables.spectra_table,
            "Covariance eigenvalues of each layer, as shares of the largest: the faster they fall, the lower the rank.",
        ),
        _variances(scans),
        _embedding(scans),
        _cuts(scans),
        _training(scans),
        section("conventions", "Conventions", tables.conventions_table(scans)),
        _data(scans, static),
    ]
    return [section for section in made if section is not None]


def navigation(parts: list[Section]) -> str:
    """Links to the sections."""
    links = "".join(f'<li><a href="#{part.key}">{escape(part.title)}</a></li>' for part in parts)
    return f'<ul><li><a href="#summary">Summary</a></li>{links}</ul>'


def section(key: str, title: str, inner: str) -> Section:
    """A section of the page around its inner HTML."""
    html = (
        f'<section id="{key}" aria-labelledby="{key}-title"><h2 id="{key}-title">{escape(title)}</h2>{inner}</section>'
    )
    return Section(key, title, html)


def folded(part: Section) -> str:
    """A section that can be folded away; all but the conventions start open."""
    head = f'<h2 id="{part.key}-title">{escape(part.title)}</h2>'
    fold = f'<details class="fold"{"" if part.key == "conventions" else " open"}><summary>{head}</summary>'
    return part.html.replace(head, fold, 1).removesuffix("</section>") + "</details></section>"


def _profile(scans: dict[str, Readings], threshold: float) -> Section | None:
    known = list(dict.fromkeys(measure for one in scans.values() for measure in facts.measures(one)))
    if not known:
        return None
    seconds = [measure for measure in known if measure != "probe"]
    first = "numerical_rank" if "numerical_rank" in seconds else next(iter(seconds), "")
    controls = select("second", "Dashed, right axis", {**{m: label(m) for m in seconds}, "": "nothing"}, first)
    if len(scans) > 1:
        ways = {"apart": "one panel per scan", "together": "all in one panel"}
        controls += select("panels", "Draw", ways, "apart" if len(scans) <= PANELS else "together")
        controls += select("depth", "Depth as", {"layer": "layer number", "share": "share of the depth"}, "layer")
        controls += ticks(
            "which", "Scans", {str(i): name for i, name in enumerate(scans)}, [str(i) for i in range(len(scans))]
        )
    sets = list(dict.fromkeys(data for one in scans.values() for data in facts.others(one)))
    if sets:
        controls += ticks(
            "ood", "Probes on OOD data", {data: data for data in sets}, sets[: SHOWN if len(scans) == 1 else 1]
        )
    said = ". ".join(_profile_words(name, one, threshold, len(scans) > 1) for name, one in scans.items())
    note = "<p>Grey: the tunnel. Bar at the foot: 95 % interval of its start. Dotted: the accuracy to reach.</p>"
    if len(scans) > 1:
        note = note.replace("</p>", " In one panel for all scans, a dotted vertical line is the start of a tunnel.</p>")
    shaded = note if any(facts.has(one, "probe") for one in scans.values()) else ""
    inner = chart("profile", said) + shaded + row(controls)
    for name, one in scans.items():
        caption = f"Values at every layer{_of(name, scans)}"
        measures = [measure for measure in facts.measures(one) if not measure.startswith("cut_")]
        inner += tables.hidden(tables.by_place(one, measures, facts.others(one), caption), caption)
        best = tables.transfer_table(one, f"The best layer for OOD data{_of(name, scans)}")
        inner += tables.hidden(best, f"The best layer for OOD data{_of(name, scans)}") if best else ""
    return section("depth-profile", "Depth profile", inner)


def _profile_words(name: str, readings: Readings, threshold: float, several: bool) -> str:
    places, probe = facts.places(readings), facts.column(readings, "probe")
    if not facts.has(readings, "probe"):
        return "Measures over depth; the values are in the table below"
    said = f"Probe accuracy over {len(places)} layers, from {percent(float(probe[0]))} to {percent(float(probe[-1]))}"
    found = facts.entrance(readings, threshold)
    if found is not None and found.tunnel.start is not None and found.tunnel.start.index + 1 < len(places):
        said += f"; the tunnel starts after layer {found.tunnel.start.index + 1}"
    return f"{name}: {said}" if several else said


def _has_steps(readings: Readings) -> bool:
    return bool(facts.steps(readings))


def _has_cka(readings: Readings) -> bool:
    return readings.arrays.get("cka") is not None and readings.arrays["cka"].size > 0


def _each(
    key: str,
    title: str,
    scans: dict[str, Readings],
    holds: Callable[[Readings], bool],
    as_table: Callable[[Readings, str], str],
    note: str,
    controls: str = "",
    drawn: Callable[[str, str], str] = chart,
) -> Section | None:
    """One panel per scan, side by side where there is room."""
    panels = ""
    for spot, (name, one) in enumerate(scans.items()):
        if holds(one):
            caption = f"{title}{_of(name, scans)}"
            head = f"<h3>{escape(name)}</h3>" if len(scans) > 1 else ""
            body = drawn(f"{key}-{spot}", f"{caption}; the values are in the table below")
            panels += f'<div class="panel">{head}{body}{tables.hidden(as_table(one, caption))}</div>'
    inner = f'<p>{escape(note)}</p>{controls}<div class="panels">{panels}</div>'
    return section(key, title, inner) if panels else None


def _variances(scans: dict[str, Readings]) -> Section | None:
    both = list(facts.VARIANCES)
    found = {name: one for name, one in scans.items() if any(facts.has(one, measure) for measure in both)}
    if not found:
        return None
    said = "Variance per feature within and between classes over depth; the table below has the sums over features"
    inner = "<p>Solid: within classes. Dashed: between class means.</p>" + chart("variances", said)
    for name, one in found.items():
        caption = f"Class variances{_of(name, scans)}"
        inner += tables.hidden(tables.by_place(one, both, [], caption), caption)
    return section("class-variances", "Class variances", inner)


def _embedding(scans: dict[str, Readings]) -> Section | None:
    found = {name: one for name, one in scans.items() if chosen(one)}
    if not found:
        return None
    shown = {str(index + 1) for one in found.values() for index in chosen(one)}
    stored = sorted({index + 1 for one in found.values() for index in chosen(one, 10**6)})
    controls = ""
    if len(stored) > len(shown):
        controls = ticks("embedded", "Layers", {str(number): str(number) for number in stored}, sorted(shown))
        controls = row(controls)
    kind = next((str(one.conventions.embedding or "") for one in found.values()), "")
    how = {"pca": "PCA", "tsne": "t-SNE", "umap": "UMAP"}.get(kind, kind)
    note = f"{how + ': ' if how else ''}test samples in two dimensions, coloured by class."
    return _each(
        "embedding",
        "Embeddings",
        scans,
        lambda one: bool(chosen(one)),
        tables.embedding_table,
        note,
        controls,
        small_charts,
    )


def _cuts(scans: dict[str, Readings]) -> Section | None:
    found = {name: one for name, one in scans.items() if costs(one)}
    known = [cost for cost in COSTS if any(cost in costs(one) for one in found.values())]
    if not known:
        return None
    controls = select("cost", "Cost", {cost: COSTS[cost][1] for cost in known}, known[0])
    said = "Accuracy of the network cut after each layer against its cost; the values are in the table below"
    inner = row(controls) + chart("cuts-chart", said)
    inner += "<p>Each point: the network cut after that layer, with the probe on top. "
    inner += "Ring: the start of the tunnel. Diamond: the whole network.</p>"
    for name, one in found.items():
        caption = f"Cuts{_of(name, scans)}"
        inner += tables.hidden(
            tables.by_place(one, ["probe", *(f"cut_{cost}" for cost in known)], [], caption), caption
        )
    return section("cuts", "What a cut costs and saves", inner)


def _training(scans: dict[str, Readings]) -> Section | None:
    known = list(dict.fromkeys(m for one in scans.values() if facts.steps(one) for m in facts.measures(one)))
    known = [measure for measure in known if any(facts.over_steps(one, measure)[0] for one in scans.values())]
    if not known:
        return None
    first = "numerical_rank" if "numerical_rank" in known else known[0]
    controls = select("trained", "Measure", {measure: label(measure) for measure in known}, first)

    def as_table(readings: Readings, caption: str) -> str:
        return "".join(
            tables.training_table(readings, measure, f"{caption}: {label(measure)}")
            for measure in known
            if facts.over_steps(readings, measure)[0]
        )

    note = "One line per layer; the table has the first and the last step."
    return _each("training", "During training", scans, _has_steps, as_table, note, row(controls))


def _data(scans: dict[str, Readings], static: list[str]) -> Section:
    measures = dict.fromkeys(row.measure for one in scans.values() for row in one.rows)
    choice = select("only", "Measure", {"": "all", **{measure: label(measure) for measure in measures}}, "")
    button = '<button type="button" id="download">Download CSV</button>'
    inner = row(button, choice) + tables.data_table(scans)
    if static:
        links = "".join(f'<li><a href="{escape(_quoted(file))}">{escape(file)}</a></li>' for file in static)
        inner += tables.hidden(f"<ul>{links}</ul>", "Static figures (SVG)")
    return section("data", "Data", inner)


def _quoted(file: str) -> str:
    from urllib.parse import quote

    return quote(file)


def _of(name: str, scans: dict[str, Readings]) -> str:
    return f", {name}" if len(scans) > 1 else ""
