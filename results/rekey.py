"""Bring every run that was ever kept into today's form: settings in five parts, points on axes, new keys.

    python results/rekey.py              # write results/<system>/<recipe>.json and results/keys.json
    python results/rekey.py --check      # say which runs the recipes find again, and which setting differs where not
    python results/rekey.py --check tunnel/ood

Runs of versions 1 and 2 are collected from the whole git history of results/. Nothing that was once committed is then
missing, and runs that another branch kept in the old form arrive by merging it (keep our files) and running this again.
Their settings were flat; `results/translate/<system>.py` holds what a recipe's own fields have become:

    CONFIGS = {"tunnel/swap": swap}    # by recipe, else by the old class name, such as "Swap"
    def swap(old, new): ...            # old settings (flat, with defaults), generic translation -> new settings

The point of a run is the one of the recipe whose settings are exactly the translated ones; where there is none, it is
the nearest point with the settings that differ. Of two runs with the same settings and seed the younger one counts: an
older one with the same readings is not kept twice, one with other readings is marked `superseded`. Nothing else of a
run changes; only absolute paths are taken out of its notes.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from winze.lab.runs.job import key_of  # noqa: E402
from winze.lab.runs.packing import READ, first_difference  # noqa: E402
from winze.lab.runs.results import VERSION, write  # noqa: E402

RESULTS = ROOT / "results"
KEYS = RESULTS / "keys.json"
Told = dict[str, Any]
Translation = Callable[[Told, Told], Told]

STUDY: Told = {
    **dict.fromkeys(("rule", "size", "limit", "per_class", "stream", "ood_limit")),
    "options": {},
    "ood": [],
    "places": "layers",
    "measures": ["probe", "rank"],
    "probe": "ridge",
    "pool": "mean",
    "every": 1,
    "max_features": 8000,
    "fit": "resize",
}
TRAINING: Told = {"repeat": 1, "compensate": False, "rates": []}
"""the values of settings that runs of before them have"""
REASONS = {
    "tunnel/held": "statistics of norms in held layers still moved",
    "temperature/training": "it was run again with the looks at the end of training",
}
PATH = re.compile(r"(?<![\w.:/<+-])/(?:[\w.+-]+/)+[\w.+-]+")


def collected(ref: str = "HEAD") -> dict[str, list[Told]]:
    """Every run of the old form that any commit up to `ref` holds, by recipe; equal runs once, the youngest last."""
    found: dict[str, dict[tuple[str, str], Told]] = {}
    for name, body in _files(ref):
        told = json.loads(body)
        if told.get("kind") != "winze results" or told.get("version") not in (1, 2):
            continue
        runs = found.setdefault(name, {})
        for entry in told["runs"]:
            same = (entry["key"], entry.get("started") or _started(runs, entry) or "")
            runs.pop((entry["key"], ""), None)
            runs[same] = entry
    return {name: list(runs.values()) for name, runs in sorted(found.items())}


def _started(runs: dict[tuple[str, str], Told], entry: Told) -> str | None:
    """When a run began that was first kept without saying so."""
    later = [started for key, started in runs if key == entry["key"] and started]
    return later[0] if later else None


def _files(ref: str) -> Iterator[tuple[str, bytes]]:
    """Every version of every file of results, the oldest first, as (recipe, content)."""
    log = _git("log", "--reverse", "--topo-order", "--format=", "--raw", "--no-abbrev", "-m", ref, "--", "results")
    seen: dict[str, str] = {}
    for line in log.decode().splitlines():
        if not line.startswith(":"):
            continue
        facts, *paths = line.split("\t")
        blob, path = facts.split()[3], paths[-1]
        if re.fullmatch(r"results/[a-z0-9_]+/[a-z0-9_]+\.json", path) and set(blob) != {"0"}:
            seen.setdefault(blob, path.removeprefix("results/").removesuffix(".json"))
    for blob, name in seen.items():
        yield name, _git("cat-file", "blob", blob)


def _git(*words: str) -> bytes:
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, check=True).stdout


def translated(name: str, config: Told) -> Told:
    """Flat settings of before in five parts, with what the recipe's own fields have become."""
    if "training" not in config:
        old, new = dict(config), dict(config)
    else:
        old = {**STUDY, **config, "training": {**TRAINING, **config["training"]}}
        new = _study(old)
    special = _translations(name.split("/")[0])
    change = special.get(name) or special.get(config["type"])
    return change(copy.deepcopy(old), new) if change is not None else new


def _study(old: Told) -> Told:
    """Settings in five parts; fields of a subclass stay beside them under its name."""
    own = {key: value for key, value in old.items() if key not in {*STUDY, "type", "network", "data", "training"}}
    network = {"name": old["network"], "options": old["options"], "rule": old["rule"], "where": None}
    data = {"name": old.get("data", ""), **{key: old[key] for key in ("size", "limit", "per_class", "fit", "stream")}}
    reading = ("places", "measures", "probe", "pool", "max_features", "ood", "ood_limit")
    return {
        "type": old["type"],
        "network": {"type": "Network", **network, "every": old["every"], "outputs": None},
        "data": {"type": "Data", **data, "normalise": "own"},
        "training": training(old["training"]),
        "reading": {"type": "Reading", **{key: old[key] for key in reading}},
        "watching": None,
        **own,
    }


def training(old: Told) -> Told:
    """A flat training of before as today's."""
    shared = {key: old[key] for key in ("lr", "weight_decay", "decay_vectors", "rates")}
    if old["optimizer"] in ("sgd", "lars"):
        own = {"momentum": old["momentum"], "nesterov": old["nesterov"]}
    else:
        assert not any((old["momentum"], old["nesterov"])), old
        own = {"betas": old["betas"]}
    kind = {"sgd": "SGD", "lars": "Lars", "adam": "Adam", "adamw": "AdamW", "nadamw": "NAdam"}[old["optimizer"]]
    schedule: Told = {"warmup": epochs(old["warmup"]), "warmup_lr": old["warmup_lr"], "per": old["per"]}
    shape = {
        "constant": {"type": "Constant"},
        "cosine": {"type": "Cosine", "min_lr": old["min_lr"]},
        "step": {"type": "Milestones", "at": old["milestones"], "gamma": old["gamma"]},
    }[old["schedule"]]
    same = ("batch", "augment", "precision", "clip", "ema", "drop_last", "repeat", "channels_last")
    heat = {key: old[key] for key in ("smoothing", "temperature", "compensate")}
    return {
        "type": "Training",
        "length": epochs(old["epochs"]),
        "optimizer": {"type": kind, **shared, **own},
        "schedule": {**shape, **schedule},
        "objective": {"type": "Classify", **heat},
        **{key: old[key] for key in same},
        "evaluate": epochs(old["evaluate_every"]),
        "checkpoint": epochs(old["checkpoint_every"]),
    }


def epochs(count: float) -> Told:
    """A length of training."""
    return {"type": "Epochs", "count": count}


def steps(count: int) -> Told:
    """A length of training in steps."""
    return {"type": "Steps", "count": count}


_loaded: dict[str, dict[str, Translation]] = {}


def _translations(system: str) -> dict[str, Translation]:
    if system not in _loaded:
        path = RESULTS / "translate" / f"{system}.py"
        _loaded[system] = {}
        if path.is_file():
            spec = importlib.util.spec_from_file_location(f"translate_{system}", path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules.setdefault("rekey", sys.modules[__name__])
            spec.loader.exec_module(module)
            _loaded[system] = module.CONFIGS
    return _loaded[system]


class Points:
    """The points of a recipe by their settings."""

    def __init__(self, name: str) -> None:
        from winze.lab.recipe import recipe
        from winze.lab.runs.job import plain

        made = recipe(name)
        self.known = [
            (scale, point, plain(made.config(scale, point)))
            for scale in made.scales
            for point in made.grid(scale).points
        ]

    def of(self, scale: str, config: Told) -> Any:
        """The point that has exactly these settings, at this scale or at another; None where there is none."""
        same = [(at, point) for at, point, one in self.known if one == config]
        return next((point for at, point in same if at == scale), same[0][1] if same else None)

    def difference(self, scale: str, config: Told) -> str:
        """What tells settings from those of the nearest point, at this scale where it has any."""
        near = [one for one in self.known if one[0] == scale] or self.known
        mine = _flat(config)
        told = []
        for at, point, one in near:
            other = _flat(one)
            names = [key for key in dict.fromkeys((*mine, *other)) if mine.get(key) != other.get(key)]
            told.append((len(names), f"{at}: {point}", names, other))
        _, point, names, other = min(told, key=lambda one: one[0])
        parts = [f"{key} is {mine.get(key)}, the recipe has {other.get(key)}" for key in names[:6]]
        return f"nearest {point}: " + "; ".join(parts) + ("; ..." if len(names) > 6 else "")

    def near(self, scale: str, config: Told) -> Told:
        """The values of the nearest point, and the settings that tell it from these."""
        there = [one for one in self.known if one[0] == scale] or self.known
        mine = _flat(config)
        apart = [
            ({key for key in {*mine, *_flat(one)} if mine.get(key) != _flat(one).get(key)}, point)
            for _, point, one in there
        ]
        names, point = min(apart, key=lambda one: len(one[0]))
        return {**point, **{key: json.loads(mine[key]) for key in sorted(names) if key in mine}}


def rekeyed(name: str, entries: list[Told]) -> list[Told]:
    """Old runs with new settings, points and keys; of equal settings and seed, one that counts."""
    points, by_key = Points(name), {}
    for entry in sorted(entries, key=lambda one: one["started"]):
        config = translated(name, entry["config"])
        point = points.of(entry["scale"], config)
        facts = {
            "key": key_of(name, config, entry["seed"]),
            "scale": entry["scale"],
            "point": dict(point) if point is not None else points.near(entry["scale"], config),
            **{key: value for key, value in entry.items() if key not in ("key", "scale", "arm", "config", *READ)},
            "config": config,
            **{key: without_paths(entry[key]) if key == "conventions" else entry[key] for key in READ},
        }
        by_key.setdefault(facts["key"], []).append(facts)
    found = []
    for *older, last in by_key.values():
        found += [{**one, "superseded": superseded(name, last)} for one in older if first_difference(one, last)]
        found.append(last)
    return found


def superseded(name: str, by: Told) -> str:
    """Why an older run does not count."""
    reason = REASONS.get(name, "it was run again")
    return f"{reason}; the run that began at {by['started']} counts"


def without_paths(conventions: Told) -> Told:
    """The same without paths of a machine, which stand where data were not found."""
    absent = conventions.get("not_run") or {}
    clean = {name: f"{name} was not found" if PATH.search(why) else why for name, why in absent.items()}
    return {**conventions, "not_run": clean} if absent else conventions


def rekey(names: list[str]) -> int:
    """Write every recipe's results and the map of keys; the number of recipes that could not be."""
    keys: dict[str, dict[str, str]] = json.loads(KEYS.read_text()) if KEYS.is_file() else {}
    failed = 0
    for name, entries in collected().items():
        if names and name not in names:
            continue
        file = RESULTS / f"{name}.json"
        told = json.loads(file.read_text()) if file.is_file() else {"version": VERSION, "runs": []}
        before = set(keys.get(name, {}).values())
        own = [one for one in told["runs"] if one["key"] not in before] if told["version"] == VERSION else []
        try:
            new = rekeyed(name, entries)
        except Exception as error:
            _say(f"{name}: {type(error).__name__}: {error}")
            failed += 1
            continue
        keys[name] = {
            entry["key"]: key_of(name, translated(name, entry["config"]), entry["seed"])
            for entry in sorted(entries, key=lambda one: one["key"])
        }
        write(file, name, [*new, *own])
        aside = sum("superseded" in one for one in new)
        _say(f"{name}: {len(new)} old runs ({aside} superseded), {len(own)} new ones")
    KEYS.write_text(json.dumps(dict(sorted(keys.items())), indent=0) + "\n")
    return failed


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def _flat(value: Any, name: str = "") -> Told:
    if isinstance(value, dict) and value:
        parts = (_flat(inner, f"{name}.{key}" if name else key) for key, inner in value.items())
        return {key: inner for part in parts for key, inner in part.items()}
    return {name: json.dumps(value)}


def check(names: list[str]) -> int:
    """Say of every recipe which of its runs are found again; the number of those that are not."""
    lost = 0
    for name, entries in collected().items():
        if names and name not in names:
            continue
        try:
            points = Points(name)
        except Exception as error:
            _say(f"{name}: {type(error).__name__}: {error}")
            lost += len(entries)
            continue
        groups: dict[tuple[str, str], int] = {}
        for entry in entries:
            config = translated(name, entry["config"])
            point = points.of(entry["scale"], config)
            lost += point is None
            told = f"-> {point}" if point is not None else f"LOST, {points.difference(entry['scale'], config)}"
            groups[f"{entry['scale']} {entry['arm']}", told] = (
                groups.get((f"{entry['scale']} {entry['arm']}", told), 0) + 1
            )
        _say(f"{name}: {len(entries)} runs")
        for (what, told), count in sorted(groups.items()):
            _say(f"  {what} x {count} {told}")
    _say(f"{lost} runs are not found again")
    return lost


if __name__ == "__main__":
    sys.modules.setdefault("rekey", sys.modules[__name__])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, say what is found again")
    parser.add_argument("recipes", nargs="*", help="only these")
    options = parser.parse_args()
    sys.exit(bool(check(options.recipes) if options.check else rekey(options.recipes)))
