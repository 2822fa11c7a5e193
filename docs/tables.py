"""Write the tables of README.md and docs/*.md from the files in results/.

A table stands between `<!-- table:NAME -->` and `<!-- /table -->`. NAME is the stem of a results file, or
`stem.view` where one file gives several tables. A results file that is not there leaves its tables as they are.
"""

import json
import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
OPENING = re.compile(r"<!-- table:[\w.-]+ -->")
BLOCK = re.compile(r"(<!-- table:([\w.-]+) -->\n)((?:(?!<!-- table:).)*?)(<!-- /table -->)", re.DOTALL)


def table(head: Iterable[str], rows: Iterable[Iterable[object]], below: str = "") -> str:
    """A Markdown table, and a line below it that says where the numbers come from."""
    head = list(head)
    # a bar or a line break inside a cell would end it
    cells = [[" ".join(str(cell).split()).replace("|", "\\|") for cell in row] for row in rows]
    lines = [head, ["---"] * len(head), *cells]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + (f"\n{below}\n" if below else "")


def origin(result: dict[str, Any]) -> str:
    """The machine and the versions behind a results file, as one line."""
    parts = []
    machine = result.get("machine")
    several = isinstance(machine, dict) and all(isinstance(value, dict) for value in machine.values())
    for entry in (*(machine.values() if several else [machine]), result.get("versions")):
        if isinstance(entry, dict):
            parts.append(", ".join(f"{key} {value}" for key, value in entry.items()))
        elif entry:
            parts.append(str(entry))
    return "; ".join(parts)


def verdict(row: dict[str, Any]) -> str:
    """How many rules work in a network, and which do not."""
    rules = row.get("rules") or {}
    failed = [name for name, answer in rules.items() if answer != "ok"]
    return f"{len(rules) - len(failed)} of {len(rules)}" + (f", not {', '.join(failed)}" if failed else "")


def yes(answer: bool | None) -> str:
    """A plain word for a check; a dash where it was not made."""
    return "-" if answer is None else "yes" if answer else "no"


def reach(result: dict[str, Any]) -> str:
    """One line a network: are its junctions found, and does every rule work there?"""
    head = [
        "network",
        "family",
        "source",
        "junctions",
        "expected",
        "bit-identical",
        "rules",
        "export",
        "scan",
        "cut",
        "seconds",
        "note",
    ]
    rows = [
        [
            f"`{row['network']}`",
            row["family"],
            row["source"],
            row["junctions"],
            "-" if row.get("expected") is None else row["expected"],
            yes(row.get("identical")),
            verdict(row),
            row.get("export") or "-",
            row.get("scan") or "-",
            row.get("truncate") or "-",
            "-" if row.get("seconds") is None else f"{row['seconds']:.1f}",
            row.get("reason") or "",
        ]
        for row in result["rows"]
    ]
    return table(head, rows, origin(result))


def reach_sources(result: dict[str, Any]) -> str:
    """One line a library: how many of its networks pass each check."""
    head = [
        "source",
        "networks",
        "families",
        "with junctions",
        "count as expected",
        "bit-identical",
        "all rules",
        "export",
        "scan",
        "cut",
    ]
    rows = []
    for source in dict.fromkeys(row["source"] for row in result["rows"]):
        own = [row for row in result["rows"] if row["source"] == source]
        known = [row for row in own if row.get("expected") is not None]
        rows.append(
            [
                source,
                len(own),
                len({row["family"] for row in own}),
                sum(bool(row["junctions"]) for row in own),
                f"{sum(row['junctions'] == row['expected'] for row in known)} of {len(known)} known",
                sum(bool(row.get("identical")) for row in own),
                sum(bool(row.get("rules")) and set(row["rules"].values()) == {"ok"} for row in own),
                *(sum(row.get(column) == "ok" for row in own) for column in ("export", "scan", "truncate")),
            ]
        )
    return table(head, rows, origin(result))


def junctions(result: dict[str, Any]) -> str:
    """One line a network and device: what a rewired forward costs against the untouched one."""
    head = ["network", "device", "time, rewired / untouched", "interval", "capture, seconds"]
    rows = [
        [
            f"`{row['network']}`",
            row["device"],
            f"{row['ratio']:.3f}",
            f"{row['low']:.3f} to {row['high']:.3f}",
            f"{row['capture_seconds']:.2f}",
        ]
        for row in result["rows"]
    ]
    return table(head, rows, origin(result))


def scan(result: dict[str, Any]) -> str:
    """One line a tool and device: what it costs against the plain forward, and how exact it is."""
    head = ["tool", "device", "time / plain forward", "extra memory", "error", "error, mean 100x the spread", "how"]
    rows = [
        [
            " ".join([row["tool"], row.get("version", "")]).strip(),
            row["device"],
            interval(row),
            "-" if row.get("extra_mb") is None else f"{row['extra_mb']:.0f} MB",
            size(row.get("error")),
            size(row.get("error_offset")),
            "; ".join(text for text in (row.get("how"), said(row), row.get("note")) if text),
        ]
        for row in result["rows"]
    ]
    return table(head, rows, origin(result))


def train(result: dict[str, Any]) -> str:
    """One line a way to train: images a second, or seconds, against a hand-written loop."""
    head = ["network", "device", "how", "processes", "images/s", "ratio"]
    rows = [
        [
            row["network"],
            row["device"],
            row["how"],
            row["processes"],
            f"{row['images_per_second']:,}" if "images_per_second" in row else "-",
            f"{row['ratio']:.1f} x the speed" if "images_per_second" in row else f"{interval(row)} x the time",
        ]
        for row in result["rows"]
    ]
    return table(head, rows, origin(result))


def step_costs(result: dict[str, Any]) -> str:
    """One line a network and way to run the rules: time and memory of a training step against the plain one."""
    head = ["network", "way", "steps", "batch", "time", "stage 1", "stage 2", "memory", "stage 1", "stage 2"]
    rows = []
    for row in result["rows"]:
        stages = [f"{row[name]:.2f}" if name in row else "-" for name in ("stage1", "stage2")]
        used = [row.get(f"memory{stage}") for stage in ("", "_stage1", "_stage2")]
        memory = ["-" if most is None else f"{most / row['memory_plain']:.2f}" for most in used]
        rows.append([row["network"], row["way"], row["how"], row["batch"], f"{interval(row)} x", *stages, *memory])
    return table(head, rows, origin(result))


def spiral(result: dict[str, Any]) -> str:
    """One line a network and algorithm: how much faster its seeds train side by side than one after the other."""
    head = ["network", "device", "networks", "steps", "speed", "seconds one after the other"]
    rows = [
        [
            row["network"],
            row["device"],
            row["networks"],
            row["steps"],
            f"{1 / row['ratio']:.1f} x [{1 / row['high']:.1f}-{1 / row['low']:.1f}]",
            f"{row['seconds']:.1f}",
        ]
        for row in result["rows"]
    ]
    return table(head, rows, origin(result))


def interval(row: dict[str, Any]) -> str:
    """A ratio with its interval, where there is one."""
    if row.get("ratio") is None:
        return "-"
    ends = f" [{row['low']:.2f}-{row['high']:.2f}]" if row.get("low") is not None else ""
    return f"{row['ratio']:.2f}{ends}"


def size(error: float | None) -> str:
    """An error in one or two digits."""
    return "-" if error is None else f"{error:.1g}" if error < 0.01 else f"{error:.2f}"


def said(row: dict[str, Any]) -> str:
    """On how much a row was measured."""
    if not row.get("images"):
        return ""
    pairs = f", {row['pairs']} pairs" if row.get("ratio") is not None else ""
    return f"{row['places']} places, {row['images']} images{pairs}"


def verdicts(results: Path) -> str:
    """One section a recipe: every claim with the paper's number, ours, and what it rests on."""
    from winze.lab import recipes
    from winze.lab.lines import lines
    from winze.lab.results import stale

    head = ["claim", "paper", "ours", "n", "scale", "machine", "date", "seconds", "verdict", "departure"]
    parts = []
    for name, recipe in recipes().items():
        told = [f"## `{name}`: {recipe.shows}\n", f"{recipe.system}. [{recipe.paper}]({recipe.url})\n"]
        rows = [
            [
                one.claim,
                one.paper,
                one.ours,
                one.n,
                one.scale,
                one.machine,
                one.date,
                one.seconds,
                one.word,
                one.departure,
            ]
            for one in lines(recipe, results)
        ]
        told.append(table(head, rows))
        if recipe.departures:
            told.append("Departures of all scales: " + "; ".join(recipe.departures) + ".\n")
        told += [
            f"At scale {scale}: {'; '.join(one.departures)}.\n"
            for scale, one in recipe.scales.items()
            if one.departures
        ]
        old = stale(recipe, results)
        if old:
            told.append(f"{len(old)} runs of earlier settings are kept and not counted here.\n")
        parts.append("\n".join(told))
    return "\n" + "\n".join(parts) + "\n"


def tallies(results: Path) -> str:
    """One line a recipe: what it shows, and how many of its claims hold here."""
    from winze.lab import recipes
    from winze.lab.lines import lines
    from winze.lab.verdicts import WORDS

    told = {name: (recipe, Counter(one.word for one in lines(recipe, results))) for name, recipe in recipes().items()}
    rows = [
        [f"`{name}`", f"[{recipe.shows}]({recipe.url})", *(words[word] for word in WORDS)]
        for name, (recipe, words) in told.items()
    ]
    return table(["recipe", "what it shows", *WORDS], rows)


def spread(values: list[float], digits: int, factor: float = 1.0) -> str:
    """The mean over seeds, and their standard deviation where there are several."""
    known = [factor * value for value in values if math.isfinite(value)]
    if not known:
        return "-"
    mean = f"{statistics.fmean(known):.{digits}f}"
    return f"{mean} ± {statistics.stdev(known):.{digits}f}" if len(known) > 1 else mean


def quantity(recipe: Any, runs: dict[int, Any], name: str) -> list[float]:
    """A quantity of every seed of an arm, each network of a run being one; NaN where it was not read."""
    from winze.lab.members import apart
    from winze.readings import ReadingsError

    values = []
    for readings in (read for seed, one in runs.items() for read in apart(seed, one.readings).values()):
        try:
            values.append(float(recipe.quantities[name](readings)))
        except ReadingsError:
            values.append(math.nan)
    return values


def droppath_table1(results: Path) -> str:
    """One line a network, data set and algorithm that was run: accuracies beside the paper's, and what was read."""
    from winze.lab.results import load
    from winze.recipes.residual_droppath.table1 import CELLS, READINGS, RULES, recipe

    head = ["network and data", "scale", "algorithm", "seeds", "top-1", "paper", "top-5", "paper"]
    head += ["effective rank, last block", "95 % at block", "other data, last block"]
    kept, lines = load(recipe, results), []
    for scale in (name for name in recipe.scales if name != "smoke"):
        for cell, told in CELLS.items():
            for name in RULES:
                runs = kept.get(scale, {}).get(f"{cell}_{name}")
                if not runs:
                    continue
                paper = told.ours if name in READINGS else getattr(told, name)
                shown = {each: quantity(recipe, runs, each) for each in recipe.quantities}
                lines.append(
                    [
                        *(told.says, scale, f"ours: {READINGS[name]}" if name in READINGS else name, len(runs)),
                        *(spread(shown["accuracy"], 2, 100), f"{paper[0]:.2f}" if paper[0] else "-"),
                        *(spread(shown["top5"], 2, 100), f"{paper[1]:.2f}" if paper[1] else "-"),
                        spread(shown["effective_rank_at_the_end"], 1),
                        spread(shown["tunnel_start"], 1),
                        spread(shown["other_data_at_the_end"], 1, 100),
                    ]
                )
    return table(head, lines)


def droppath_spiral(results: Path) -> str:
    """One line a network and algorithm: what its pictures say, as numbers."""
    from winze.lab.results import load
    from winze.recipes.residual_droppath.spiral import recipe

    readings = {"recurring_maps": ("", "_branches")} | dict.fromkeys(
        ("feature_reuse", "non_monotonicity"), ("", "_normalised", "_branches")
    )
    head = ["network", "scale", "algorithm", "networks", "lost", "accuracy", "maps that recur: streams / branches"]
    head += [f"{what}: streams / patterns / branches" for what in ("closer to one far before", "distance that falls")]
    head += ["R² of the input, last layer", "CKA to the input, last layer", "groups of similar nodes, last layer"]
    kept, lines = load(recipe, results), []
    for scale in (name for name in recipe.scales if name != "smoke"):
        for arm, runs in kept.get(scale, {}).items():
            shown = {name: quantity(recipe, runs, name) for name in recipe.quantities}
            network, algorithm = arm.split("_")
            means = [
                " / ".join(spread(shown[f"{name}{one}"], 1, 100).partition(" ")[0] for one in each)
                for name, each in readings.items()
            ]
            ends = spread(shown["input_kept"], 1, 100), spread(shown["input_alike"], 2)
            told = network, scale, algorithm, len(shown["lost"]), f"{sum(shown['lost']):.0f}"
            accuracy, groups = spread(shown["accuracy"], 1, 100), spread(shown["node_groups_at_the_end"], 1)
            lines.append([*told, accuracy, *means, *ends, groups])
    return table(head, lines, "In percent, but for CKA and counts; with ± the standard deviation over networks.")


def droppath_ablation(results: Path) -> str:
    """One line an arm: its accuracy at every scale that was run, and the difference from the plain algorithm."""
    from winze.lab.results import load
    from winze.recipes.residual_droppath.ablation import recipe

    kept = load(recipe, results)
    scales = [scale for scale in recipe.scales if scale in kept and scale != "smoke"]
    rows = []
    for arm in recipe.arms:
        cells = []
        for scale in scales:
            runs = kept[scale].get(arm, {})
            cells += [spread(quantity(recipe, runs, "accuracy"), 2, 100), len(runs)]
        rows.append([f"`{arm}`", *cells])
    return table(["arm", *(name for scale in scales for name in (f"top-1, {scale}", "seeds"))], rows)


def temperature(results: Path) -> str:
    """One line a network and temperature that was run: κ and ρ beside the thesis's, accuracy, rank and tunnel."""
    from winze.lab.results import load
    from winze.recipes.temperature.settings import TEMPERATURES, arms_of
    from winze.recipes.temperature.training import TABLE, recipe

    head = ["network", "scale", "T", "seeds", "rate", "accuracy", "κ", "paper", "ρ", "paper"]
    head += ["rank, last hidden layer", "95 % at layer", "norm of the logits"]
    kept, lines = load(recipe, results), []
    for scale in (name for name in recipe.scales if name != "smoke"):
        for network, (name, kappas, rhos) in TABLE.items():
            arms = dict(zip(arms_of(network), zip(TEMPERATURES, kappas, rhos, strict=True), strict=True))
            for arm, (heat, kappa, rho) in (arms | {f"{network}_norm": ("norm", "-", "-")}).items():
                runs = kept.get(scale, {}).get(arm)
                if not runs:
                    continue
                shown = {each: quantity(recipe, runs, each) for each in recipe.quantities}
                lines.append(
                    [
                        *(name, scale, f"{heat:g}" if isinstance(heat, float) else heat, len(runs)),
                        *(spread(shown["rate"], 2), spread(shown["accuracy"], 1, 100)),
                        *(spread(shown["kappa"], 0, 100), kappa, spread(shown["rho"], 0, 100), rho),
                        *(spread(shown["rank_at_the_end"], 1), spread(shown["tunnel_start"], 1)),
                        spread(shown["logits_norm"], 1),
                    ]
                )
    return table(head, lines, "κ and ρ in percent; the thesis's ρ is that of SVHN (ImageNet: of CIFAR-100).")


def decayed(results: Path) -> str:
    """One line a number of blocks and alpha_min that was run: accuracy, ranks, and what the paper does not have."""
    from winze.lab.results import load
    from winze.recipes.decayed.supervised import recipe

    head = ["scale", "blocks", "alpha_min", "seeds", "accuracy", "effective rank, last block", "mean of all blocks"]
    head += ["95 % at layer", "other data, last block", "lost since the best block"]
    kept, lines = load(recipe, results), []
    for scale in (name for name in recipe.scales if name != "smoke"):
        for arm, runs in kept.get(scale, {}).items():
            config = recipe.config(scale, arm)
            shown = {each: quantity(recipe, runs, each) for each in recipe.quantities}
            lines.append(
                [
                    *(scale, config.blocks, f"{config.rule.alpha_min:g}", len(runs)),
                    *(spread(shown["accuracy"], 1, 100), spread(shown["rank_at_the_end"], 3)),
                    *(spread(shown["rank_of_all_blocks"], 3), spread(shown["tunnel_start"], 1)),
                    spread(shown["other_data_at_the_end"], 1, 100),
                    spread(shown["other_data_lost_at_the_end"], 1, 100),
                ]
            )
    return table(head, lines, "The paper, ResNet-18 (8 blocks): 94.4 at its best alpha_min, 93.6 at 1.")


FROM_FOLDER: dict[str, Callable[[Path], str]] = {
    "verdicts": verdicts,
    "verdicts.tally": tallies,
    "residual_droppath.table1": droppath_table1,
    "residual_droppath.ablation": droppath_ablation,
    "residual_droppath.spiral": droppath_spiral,
    "temperature": temperature,
    "decayed": decayed,
}
"""Tables made of several files of results/."""

TABLES: dict[str, Callable[[dict[str, Any]], str]] = {
    "reach": reach,
    "reach.sources": reach_sources,
    "junctions": junctions,
    "scan": scan,
    "train": train,
    "residual_droppath": step_costs,
    "spiral": spiral,
}


def refresh(text: str, results: Path) -> str:
    """The page with its tables as `results` has them."""

    def fill(block: re.Match[str]) -> str:
        opening, name, _, closing = block.groups()
        if name in FROM_FOLDER:
            return opening + FROM_FOLDER[name](results) + closing
        if name not in TABLES:
            raise ValueError(f"no table is called {name!r}; there are {', '.join(TABLES)}")
        source = results / f"{name.split('.')[0]}.json"
        if not source.exists():
            return block.group()
        return opening + TABLES[name](json.loads(source.read_text())) + closing

    if len(OPENING.findall(text)) != len(BLOCK.findall(text)):
        raise ValueError("a table is opened and not closed with <!-- /table -->")
    return BLOCK.sub(fill, text)


def pages(root: Path = ROOT) -> list[Path]:
    """The pages that may hold tables and code: README.md and docs/*.md."""
    return [page for page in (root / "README.md", *sorted(root.glob("docs/*.md"))) if page.exists()]


if __name__ == "__main__":
    for page in pages():
        page.write_text(refresh(page.read_text(), ROOT / "results"))
