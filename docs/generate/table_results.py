"""The pages in docs/results, one per paper, and README's table of headline claims, from the runs kept in results/."""

import math
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kept_runs import PAPERS, ROOT, in_words, kept_of, largest, lines_of, recipes, runs_of
from table_text import table

from winze.lab import Recipe
from winze.lab.claims.claim import Claim, Judged, Question, RunReadings
from winze.lab.claims.quantities import Quantity, resolved
from winze.lab.claims.table import counted, failures
from winze.lab.claims.table import largest as at_largest
from winze.lab.claims.verdict import LEAST, NOT_RUN, SUPPORTED, Verdict
from winze.lab.runs.results import stale
from winze.readings import Point, Readings, ReadingsError
from winze.readings.point import shown
from winze.readings.wording import number

FOLDER = "docs/results"
SEEDS = re.compile(r" \((\d+ seeds?)\)")
FULL = ("gpu", "paper")  # scales whose verdicts README shows
MOST = 15  # headline claims in README
SHOWN = 4  # cells of a headline claim that are listed one by one, where the paper has a number for each
BRACKETS = (
    "Brackets: 95 % interval over seeds. In parentheses: supported cells; `a to b [c, d]` are the ends over cells, of "
    "their values and of their intervals; a cell of one seed has no interval. A slope is per unit of its axis "
    "(temperature: per factor of ten)."
)
READ = (
    "A cell is *supported* where the 95 % interval over seeds lies wholly on the claimed side, *contradicted* where it "
    "lies wholly on the other, and *inconclusive* otherwise and below three seeds. A claim is supported where no cell "
    "is contradicted and most are supported, and *mixed* where cells disagree. Counts are of each claim at the scale "
    "nearest to the paper that was run. Brackets hold 95 % intervals; runs on digits are not on this page (`winze list "
    "RECIPE` has them). Runs that "
    "did not learn their data are named and not averaged. *Post hoc*: written or sharpened after readings were seen."
)


def pages(results: Path) -> dict[str, str]:
    """The text of every page in docs/results, by its path."""
    return {f"{FOLDER}/{paper}.md": "\n".join(_page(paper, results)) + "\n" for paper in recipes()}


def headlines(results: Path) -> str:
    """README's table: the headline claims of every paper that ran at full size, at most MOST of them."""
    head = ["paper", "claim", "verdict", "published", "here", "runs"]
    rows = {
        paper: [
            _headline(recipe, line, f"{FOLDER}/{paper}.md#{recipe.name.replace('/', '')}")
            for recipe in several
            for line in at_largest(lines_of(recipe.name, results))
            if getattr(line.statement, "headline", False) and line.word != NOT_RUN and line.scale in FULL
        ]
        for paper, several in recipes().items()
    }
    while sum(map(len, rows.values())) > MOST:
        max(rows.values(), key=len).pop()
    below = " ".join(filter(None, (BRACKETS, _machines(results))))
    named = [[PAPERS.get(paper, paper) * (k == 0), *row] for paper, one in rows.items() for k, row in enumerate(one)]
    return table(head, named, below)


def _headline(recipe: Recipe, line: Judged, page: str) -> list[str]:
    """A claim in short, its verdict, the effects of its cells, the paper's numbers, and what they rest on."""
    ran = [
        (in_words(recipe, name), cell, verdict)
        for name, (cell, verdict) in zip(line.names, line.cells, strict=True)
        if verdict.word != NOT_RUN
    ]
    published = [line.statement.published(cell) for _, cell, _ in ran]
    said = list(dict.fromkeys(str(one) for one in published if one != ""))
    listed = isinstance(line.statement.paper, Mapping) and 1 < len(said) <= SHOWN
    here = _effects([(name, verdict) for name, _, verdict in ran], _unit(recipe, line, published), listed)
    theirs = "<br>".join(said) if len(said) <= SHOWN else str(getattr(line.statement, "source", ""))
    counts = sorted({verdict.n for *_, verdict in ran})
    seeds = "-".join(map(str, dict.fromkeys((counts[0], counts[-1])))) if counts else "-"
    supported = [verdict.word for *_, verdict in ran].count(SUPPORTED)
    word = f"**{line.word}**" + (f" ({supported} of {len(ran)})" if len(ran) > 1 else "")
    text = f"[{_short(line.statement.text)}]({page})"
    runs = f"{_trained(recipe, line)}, {seeds} seed{'s' * (seeds != '1')}"
    return [text, word, theirs or "-", here or "-", runs.removeprefix("-, ")]


def _short(text: str) -> str:
    """A claim without its parentheses and without what follows a colon."""
    return re.sub(r" \([^)]*\)", "", text).split(": ")[0]


def _unit(recipe: Recipe, line: Judged, published: Sequence[str | float]) -> str:
    """The unit of a claim about accuracies: points for a difference, % for a level; none for other quantities."""
    check = line.statement.check
    quantities = [one.quantity for one in getattr(check, "checks", {"": check}).values() if one.quantity is not None]
    names = [resolved(one, recipe.quantities)[1] for one in quantities]
    if published and all(str(one).endswith("%") for one in published):
        return " %"
    points = any(str(one).endswith("points") for one in published) or "points" in line.statement.text
    return " points" if points or any("accuracy" in name or "forgetting" in name for name in names) else ""


def _effects(cells: Sequence[tuple[str, Verdict]], unit: str, listed: bool) -> str:
    """The range over cells, differences and slopes apart; one line per cell where they are `listed`."""
    factor = 100 if unit else 1
    known = [(name, verdict) for name, verdict in cells if math.isfinite(verdict.estimate)]
    if len(known) > 1 and not listed:
        kinds = {kind: [one for _, one in known if ("slope" in one.sentence) == bool(kind)] for kind in ("", "slope ")}
        return "<br>".join(kind + _range(some, factor) + unit for kind, some in kinds.items() if some)
    names = _apart([name for name, _ in known])
    return "<br>".join(
        f"{name}{': ' * bool(name)}{_effect(one, factor, unit)}" for name, (_, one) in zip(names, known, strict=True)
    )


def _range(verdicts: Sequence[Verdict], factor: float) -> str:
    """The least and the largest estimate, and around the intervals of all cells; too few seeds give none."""
    estimates = [one.estimate for one in verdicts]
    bounds = [edge for one in verdicts for edge in (one.low, one.high) if math.isfinite(edge)]
    ends = dict.fromkeys(_brief(factor * edge(estimates)) for edge in (min, max))
    edges = estimates + bounds
    return " to ".join(ends) + (_between(factor * min(edges), factor * max(edges)) if bounds else "")


def _effect(verdict: Verdict, factor: float, unit: str) -> str:
    """An estimate with its interval; a slope says which means it connects."""
    text = _brief(factor * verdict.estimate) + _between(factor * verdict.low, factor * verdict.high)
    if "slope" not in verdict.sentence:
        return text + unit
    means = [statistics.fmean(seeds.values()) for seeds in verdict.values.values()]
    return f"{_brief(factor * means[0])} to {_brief(factor * means[-1])}{unit} (slope {text})"


def _apart(names: Sequence[str]) -> list[str]:
    """Names without the parts that all of them share."""
    parts = [name.split(", ") for name in names]
    shared = set.intersection(*map(set, parts)) if parts else set()
    return [", ".join(part for part in one if part not in shared) for one in parts]


def _between(low: float, high: float) -> str:
    return f" [{_brief(low)}, {_brief(high)}]" if math.isfinite(low + high) else ""


def _brief(value: float) -> str:
    """Two significant digits, or none behind the point."""
    return f"{value:,.0f}" if abs(value) >= 10 or value == round(value) else f"{value:.2g}"


def _trained(recipe: Recipe, line: Judged) -> str:
    """The networks and the data that a line rests on."""
    if not line.scale:
        return "-"
    grid = recipe.grid(line.scale)
    ran = [cell for cell, verdict in line.cells if verdict.word != NOT_RUN]
    points = [point for cell in ran for point in line.statement.check.points(cell, grid)]
    configs = [recipe.config(line.scale, point) for point in dict.fromkeys(points)]
    nets = dict.fromkeys(
        str(getattr(getattr(one, "network", ""), "name", "")).removeprefix("winze/") for one in configs
    )
    data = dict.fromkeys(str(getattr(getattr(one, "data", ""), "name", "")).split("[")[0] for one in configs)
    said = [_some(nets), _some(data)]
    return " on ".join(filter(None, said)) or "-"


def _some(names: Mapping[str, Any]) -> str:
    known = [name for name in names if name]
    return ", ".join(known[:3]) + (f" and {len(known) - 3} more" if len(known) > 3 else "")


def _machines(results: Path) -> str:
    """Where and when the runs behind the headlines were made."""
    found = [
        (one.device, one.started[:10])
        for several in recipes().values()
        for recipe in several
        for scale, points in kept_of(recipe.name, results).items()
        if scale in runs_of(recipe.name, results)
        for seeds in points.values()
        for one in seeds.values()
    ]
    days = sorted({day for _, day in found})
    where = ", ".join(dict.fromkeys(device for device, _ in found))
    return f"Runs on {where}, {days[0]} to {days[-1]}." if found else ""


def _page(paper: str, results: Path) -> Iterator[str]:
    several = recipes()[paper]
    first = several[0]
    yield f"# {PAPERS.get(paper, paper)}: claims and numbers\n"
    yield f"[{first.paper.split(',')[0]}]({first.url}). {READ}\n"
    rows = []
    for one in several:
        counts = counted(at_largest(lines_of(one.name, results)))
        name = f"[`{one.name}`](#{one.name.replace('/', '')})" if runs_of(one.name, results) else f"`{one.name}`"
        rows.append([name, one.shows, counts])
    yield table(["recipe", "what it shows", "verdicts"], rows)
    for recipe in several:
        if runs_of(recipe.name, results):
            yield from _section(recipe, results)
    yield "## Departures from the paper\n"
    yield "".join(f"- {why}\n" for why in _departures(several, results))


def _departures(several: Sequence[Recipe], results: Path) -> Iterator[str]:
    """Every departure of what was run once, with those of the recipes on the page that it is about."""
    found: dict[str, list[str]] = {}
    ran = [one for one in several if runs_of(one.name, results)]
    for recipe in ran:
        scales = [(f"scale {scale}: ", recipe.scale(scale).departures) for scale in runs_of(recipe.name, results)]
        for start, reasons in [("", recipe.departures), *scales]:
            for why in reasons:
                found.setdefault(start + why, []).append(recipe.name.split("/")[1])
    every = [recipe.name.split("/")[1] for recipe in ran]
    for why, names in found.items():
        others = [name for name in every if name not in names]
        about = f"all but {', '.join(others)}" if others else "all"
        yield f"{why} ({about if len(every) > 1 and len(others) < len(names) else ', '.join(names)})"


def _section(recipe: Recipe, results: Path) -> Iterator[str]:
    runs = runs_of(recipe.name, results)
    lines = lines_of(recipe.name, results)
    yield f"## {recipe.name}\n"
    yield f"{recipe.shows[:1].upper()}{recipe.shows[1:]} ({recipe.system}).\n"
    for scale, read in runs.items():
        seeds = sorted({len(one) for one in read.values() if one})
        many = " to ".join(map(str, dict.fromkeys((seeds[0], seeds[-1]))))
        points = f"{len(read)} point{'s' * (len(read) > 1)}"
        yield f"`winze run {recipe.name} --scale {scale}`: {points}, {many} seeds each.\n"
    for kind, title in ((Claim, "claim"), (Question, "question of our own")):
        rows = [row for line in lines if isinstance(line.statement, kind) for row in _rows(recipe, line)]
        if rows:
            heads = [title, "verdict", "paper", "here"]
            yield table(heads, rows)
    scale, read = largest(recipe.name, results)
    if read:
        yield from _numbers(recipe, scale, read)
    for scale, one in runs.items():
        failed = failures(recipe, one)
        if failed:
            said = "; ".join(in_words(recipe, one) for one in failed)
            yield f"Failed to learn at scale {scale}, in no verdict: {said}.\n"
    for path, title in figures_of(recipe, results).items():
        yield f"![{title}](../figures/{path})\n"
    old = stale(recipe, results)
    if old:
        yield f"{len(old)} runs of former settings are kept in results/ and not counted.\n"


def _rows(recipe: Recipe, line: Judged) -> Iterator[list[str]]:
    said, names = line.statement, [in_words(recipe, name) for name in line.names]
    source = getattr(said, "source", "")
    marks = [f"({source})" if source else "", f"*Post hoc: {said.post_hoc}.*" if said.post_hoc else ""]
    marks += [f"Departure: {said.departure}." if said.departure else ""]
    text = " ".join(filter(None, (said.text, *marks)))
    where = f"{line.word}, {line.scale}" if line.scale else line.word
    cells = list(zip(names, line.cells, strict=True))
    if names == [""]:
        cell, verdict = line.cells[0]
        yield [text, f"**{where}**", str(said.published(cell)), in_words(recipe, _terse(verdict.sentence))]
        return
    ran = [(name, pair) for name, pair in cells if pair[1].word != NOT_RUN]
    many = f"{len(ran)} of {len(cells)} cells ran" if len(ran) < len(cells) else f"{len(cells)} cells"
    shared, sentences = _shared([in_words(recipe, _terse(verdict.sentence)) for _, (_, verdict) in ran])
    by_cell = isinstance(said.paper, Mapping)
    yield [text, f"**{where}**", "" if by_cell or not cells else said.paper, many + shared if cells else ""]
    for (name, (cell, verdict)), sentence in zip(ran, sentences, strict=True):
        yield [f"· {name}", verdict.word, str(said.published(cell)) if by_cell else "", sentence]


def _shared(sentences: Sequence[str]) -> tuple[str, list[str]]:
    """What the sentences of several cells have in common (the seeds, the quantity), and the rest of each."""
    shared, rest = "", list(sentences)
    counts = {tuple(SEEDS.findall(one)) for one in rest}
    if len(counts) == 1 and len(count := counts.pop()) == 1 < len(rest):
        shared, rest = f", {count[0]}", [SEEDS.sub("", one) for one in rest]
    quantities = {one.partition(": ")[0] if ": " in one else "" for one in rest}
    if len(quantities) == 1 and len(rest) > 1 and (quantity := quantities.pop()):
        shared, rest = f"{shared}: {quantity}", [one.partition(": ")[2] for one in rest]
    return shared, rest


def _terse(sentence: str) -> str:
    """A verdict without what the page says once, and without the module of a layer whose number it gives."""
    short = re.sub(r"(at layer [^,;]+), `[^`]+`", r"\1", sentence)
    short = re.sub(r"; mean curve of (\d+ seeds?)", r" (\1)", short).replace("; 95 % [", " [")
    return short.replace(f"; fewer than {LEAST} seeds", "")


def _numbers(recipe: Recipe, scale: str, runs: RunReadings) -> Iterator[str]:
    """A line per point: the quantities that statements read, as means with standard deviations over sound seeds."""
    asked = [one.check.quantity for one in (*recipe.claims, *recipe.questions) if one.check.quantity is not None]
    named: dict[str, Quantity] = {}
    for one in asked:
        quantity, name = resolved(one, recipe.quantities)
        named.setdefault(name, quantity)
    sound = {point: list(seeds.values()) for point, seeds in recipe.sound(runs).items() if seeds}
    values = {
        name: {point: _spread(quantity, seeds) for point, seeds in sound.items()} for name, quantity in named.items()
    }
    columns = [name for name, by_point in values.items() if any(one != "-" for one in by_point.values())]
    axes = [axis for axis in next(iter(sound), Point()) if len({point[axis] for point in sound}) > 1]
    rows = [
        [*(shown(point[axis]) for axis in axes), len(seeds), *(values[name][point] for name in columns)]
        for point, seeds in sound.items()
    ]
    if rows and columns:
        yield table(
            [*(in_words(recipe, axis) for axis in axes), "seeds", *columns],
            rows,
            f"Scale {scale}: mean ± deviation over seeds.",
        )


def _spread(quantity: Quantity, seeds: list[Readings]) -> str:
    found = []
    for one in seeds:
        try:
            found.append(float(quantity(one)))
        except ReadingsError:
            continue
    known = [value for value in found if math.isfinite(value)]
    if not known:
        return "-"
    mean = statistics.fmean(known)
    spread = statistics.stdev(known) if len(known) > 1 else math.nan
    if not spread > 0:
        return number(mean) + " ± 0" * (spread == 0)
    digits = max(0, 1 - math.floor(math.log10(spread)))  # as many as the deviation knows
    return f"{mean:.{digits}f} ± {spread:.{digits}f}"


def figures_of(recipe: Recipe, results: Path) -> dict[str, str]:
    """The figures of a recipe that docs/figures has, and their titles."""
    start = f"{recipe.name.replace('/', '_')}_"
    drawn = {path.name for path in (ROOT / "docs" / "figures").glob(f"{start}*.svg")}
    from winze.report.scan.figure_files import folders

    titles = [one.title for one in recipe.figures]
    names = [f"{start}{name.lower()}.svg" for name in folders(titles)]
    return {name: title for name, title in zip(names, titles, strict=True) if name in drawn}
