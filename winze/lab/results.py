"""Committed readings of real runs: `results/<system>/<recipe>.json`, one line a run; they are added, never replaced.

A run is kept with its settings, machine, versions and seconds, and with those of its readings that the recipe's
`measures` name. What is loaded are the runs whose settings are the recipe's now; a field that a config has got since
then counts as its default, so that a new option leaves old readings valid.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

from winze.files import write_atomically
from winze.lab import store
from winze.lab.job import plain
from winze.lab.members import apart
from winze.lab.packing import first_difference, packed, unpacked
from winze.lab.recipe import Recipe
from winze.readings import Readings

KIND, VERSION = "winze results", 1
TOLD = ("key", "scale", "arm", "seed", "device", "versions", "commit", "started", "seconds", "config")


class ResultsError(ValueError):
    """Readings that contradict those which are kept, or that cannot be kept."""


@dataclass(frozen=True)
class Kept:
    """A run that is kept: whose it is, where and how long it ran, its settings, and its readings."""

    key: str
    scale: str
    arm: str
    seed: int
    device: str
    versions: Mapping[str, Any]
    commit: str | None
    started: str
    seconds: float
    config: Mapping[str, Any]
    readings: Readings


def add(folder: str | os.PathLike[str], recipe: Recipe, root: str | os.PathLike[str] = "results") -> bool:
    """Keep the readings of a finished run; whether they are new.

    The same run with the same readings is kept once; with others it raises, and says where they differ.
    """
    path = Path(folder)
    told = store.read(path)
    if told is None or told.get("status") != "done":
        raise ResultsError(f"{path} is no finished run: nothing of it can be kept")
    if told["recipe"] != recipe.name:
        raise ResultsError(f"{path} is a run of {told['recipe']}, not of {recipe.name}")
    entry = {name: told.get(name) for name in TOLD} | packed(Readings.load(path), recipe.measures)
    file = file_of(recipe, root)
    entries = _entries(file)
    for old in entries:
        if old["key"] == entry["key"]:
            where = first_difference(*(_readings(one) for one in (old, entry)))
            if where:
                what = f"{old['arm']}, seed {old['seed']} (run {old['key']})"
                raise ResultsError(
                    f"{file} keeps other readings of {what}: {where}. Readings are never replaced: take that line out "
                    "of the file by hand if it is wrong"
                )
            return False
    _write(file, recipe.name, [*entries, entry])
    return True


def load(recipe: Recipe, root: str | os.PathLike[str] = "results") -> dict[str, dict[str, dict[int, Kept]]]:
    """The runs that are kept, by scale, arm and seed; only those whose settings are the recipe's now.

    Equal settings at two scales share their runs.
    """
    kept = [_kept(entry) for entry in _entries(file_of(recipe, root))]
    found: dict[str, dict[str, dict[int, Kept]]] = {}
    for scale in recipe.scales:
        for arm in recipe.arms_at(scale):
            config = recipe.config(scale, arm)
            for one in kept:
                if not same_settings(one.config, config):
                    continue
                seeds = found.setdefault(scale, {}).setdefault(arm, {})
                if one.seed in seeds:
                    pair = f"{seeds[one.seed].key} and {one.key}"
                    raise ResultsError(f"{file_of(recipe, root)} keeps {arm}, seed {one.seed}, twice: runs {pair}")
                seeds[one.seed] = one
    return found


def stale(recipe: Recipe, root: str | os.PathLike[str] = "results") -> list[Kept]:
    """The runs that are kept and whose settings the recipe no longer has at any scale."""
    configs = [recipe.config(scale, arm) for scale in recipe.scales for arm in recipe.arms_at(scale)]
    kept = [_kept(entry) for entry in _entries(file_of(recipe, root))]
    return [one for one in kept if not any(same_settings(one.config, config) for config in configs)]


def finished(recipe: Recipe, root: str | os.PathLike[str] = "runs") -> dict[str, dict[str, dict[int, Readings]]]:
    """The readings of a recipe's finished runs in a folder of runs, by scale, arm and seed.

    Of a run of several networks, each counts as a seed.
    """
    done = {one.key: one for one in store.Runs(root).all() if one.status == "done" and one.recipe == recipe.name}
    seeds = sorted({one.seed for one in done.values() if one.seed is not None})
    found: dict[str, dict[str, dict[int, Readings]]] = {}
    for scale in recipe.scales:
        for job in recipe.jobs(scale, seeds=seeds):
            if job.key in done:
                read = Readings.load(done[job.key].folder)
                found.setdefault(scale, {}).setdefault(job.arm, {}).update(apart(job.seed, read))
    return found


def readings_of(runs: Mapping[str, Mapping[int, Kept]]) -> dict[str, dict[int, Readings]]:
    """The readings alone, by arm and seed, as claims are judged by; each of several networks counts as a seed."""
    return {
        arm: {number: read for seed, one in sorted(seeds.items()) for number, read in apart(seed, one.readings).items()}
        for arm, seeds in runs.items()
    }


def file_of(recipe: Recipe, root: str | os.PathLike[str]) -> Path:
    """Where a recipe's readings are kept."""
    return Path(root) / f"{recipe.name}.json"


def same_settings(told: Any, now: Any) -> bool:
    """Whether settings as a run stored them are these; fields that came later are at their defaults."""
    if is_dataclass(now) and not isinstance(now, type):
        names = {field.name: field for field in fields(now)}
        if not isinstance(told, Mapping) or told.get("type") != type(now).__qualname__:
            return False
        if told.keys() - names.keys() - {"type"}:
            return False
        return all(
            same_settings(told[name], getattr(now, name)) if name in told else _is_default(field, getattr(now, name))
            for name, field in names.items()
        )
    if isinstance(now, Mapping):
        return (
            isinstance(told, Mapping)
            and told.keys() == now.keys()
            and all(same_settings(told[key], now[key]) for key in now)
        )
    if isinstance(now, list | tuple):
        return isinstance(told, list) and len(told) == len(now) and all(map(same_settings, told, now))
    return bool(told == plain(now))


def _is_default(field: Field[Any], value: Any) -> bool:
    if field.default is not MISSING:
        return bool(field.default == value)
    return field.default_factory is not MISSING and bool(field.default_factory() == value)


def _readings(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: entry[name] for name in ("conventions", "places", "rows", "arrays")}


def _kept(entry: dict[str, Any]) -> Kept:
    return Kept(**{name: entry[name] for name in TOLD}, readings=unpacked(entry))


def _entries(file: Path) -> list[dict[str, Any]]:
    if not file.exists():
        return []
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ResultsError(f"{file} was cut short or is no JSON: {error}") from error
    if not isinstance(told, dict) or told.get("kind") != KIND or told.get("version") != VERSION:
        raise ResultsError(f"{file} holds no {KIND} of version {VERSION}")
    entries = told["runs"]
    assert isinstance(entries, list)
    return entries


def _write(file: Path, recipe: str, entries: list[dict[str, Any]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    ordered = sorted(entries, key=lambda entry: (entry["scale"], entry["arm"], entry["seed"], entry["key"]))
    head = json.dumps({"kind": KIND, "version": VERSION, "recipe": recipe})[:-1]
    lines = ",\n".join(json.dumps(entry, separators=(",", ":"), allow_nan=False) for entry in ordered)
    write_atomically(file, f'{head}, "runs": [\n{lines}\n]}}\n'.encode())
