"""Committed readings of real runs: `results/<system>/<recipe>.json`, one line per run; append-only.

A kept run has its settings, machine, versions and seconds, and the readings that the recipe's `measures` name. The
first line of a file seals the rest with its SHA-256, which every read verifies. `load` finds the runs whose settings
are the recipe's present ones; a field that was added to a config later counts as its default, so that a new option
leaves old readings valid. A run that is marked `superseded` (with the reason) is kept but not loaded.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

from winze.atomic import StoreError, write_atomically
from winze.lab.recipe import Recipe
from winze.lab.runs import store
from winze.lab.runs.job import key_of, plain
from winze.lab.runs.packing import first_difference, packed, unpacked
from winze.readings import ROWS, Point, Readings, ReadingsError

KIND, VERSION = "winze results", 3
SINCE = ("threads", "flags", "source", "resumed", "notes")  # runs that were kept before these have none
PATIENCE = 60.0  # seconds that one `keep` waits for another
MACHINE = re.compile(r"(?<![\w.:/<+-])/(?:[\w.+-]+/)+[\w.+-]+|\b[A-Za-z]:\\\\")
"""an absolute path in a text"""


class ResultsError(ValueError):
    """Readings that contradict the kept ones, or that cannot be kept."""


@dataclass(frozen=True)
class Kept:
    """A kept run: its point and seed, machine and seconds, settings, and readings. Every seed of an ensemble counts as
    a run; `key` and `seconds` are those of the whole ensemble.
    """

    key: str
    scale: str
    point: Point
    seed: int
    device: str
    versions: Mapping[str, Any]
    commit: str | None
    started: str
    seconds: float
    config: Mapping[str, Any]
    readings: Readings


TOLD = tuple(field.name for field in fields(Kept))[:-1]
"""the fields of `run.json` that every kept run has"""


def add_all(
    folders: Iterable[str | os.PathLike[str]],
    recipe: Recipe,
    root: str | os.PathLike[str] = "results",
    refuse: Callable[[str], None] | None = None,
) -> list[Path]:
    """Keep the readings of finished runs of one recipe, and return the folders of those that are new.

    Each run is checked: the hashes in its `run.json`, its key against its settings, its readings against the kept ones.
    The same run with other readings is refused, and the reason says where they differ. `refuse` is called with the
    reason for each refused run, and the others are kept; without it the first reason is raised and nothing is kept. The
    file is read and written once, by one process at a time.
    """
    file, new = file_of(recipe, root), []
    Path(root).mkdir(parents=True, exist_ok=True)
    with store.locked(Path(root), Path(root), PATIENCE):
        entries = _entries(file, recipe.name)
        for path in map(Path, folders):
            try:
                entry = _entry(path, recipe)
                if _is_kept(entry, entries, recipe, f"{path}: {file}"):
                    continue
            except (ResultsError, StoreError, ReadingsError) as error:
                if refuse is None:
                    raise
                refuse(str(error))
                continue
            entries.append(entry)
            new.append(path)
        if new:
            write(file, recipe.name, entries)
    return new


def _is_kept(entry: dict[str, Any], entries: list[dict[str, Any]], recipe: Recipe, where: str) -> bool:
    """Whether a run is already kept; other readings of it, or its readings under another seed, raise.

    A run that was kept before its config had some field is the same run, though its key differs.
    """
    scale, point, keys = entry["scale"], Point(entry["point"]), {entry["key"]}
    now = recipe.config(scale, point) if scale in recipe.scales and point in recipe.grid(scale) else None
    if same_settings(entry["config"], now):
        alike = (old for old in entries if old["seed"] == entry["seed"] and same_settings(old["config"], now))
        keys.update(old["key"] for old in alike)
    for old in entries:
        if old["key"] in keys and "superseded" not in old:
            differs = first_difference(old, entry)
            if differs:
                what = f"{Point(old['point'])}, seed {old['seed']} (run {old['key']}, on {old['device']})"
                raise ResultsError(
                    f"{where} keeps other readings of {what}: {differs}. Kept readings are never replaced"
                )
            return True
    for old in entries:
        if entry["rows"] and (old["config"], old["rows"]) == (entry["config"], entry["rows"]):
            raise ResultsError(
                f"{where}: {Point(entry['point'])}, seed {entry['seed']}, has the readings of seed {old['seed']} "
                f"(run {old['key']}): one run under two seeds is not kept"
            )
    return False


def _entry(folder: Path, recipe: Recipe) -> dict[str, Any]:
    """The kept form of a finished run, after checking that its files, key and settings belong together."""
    told = store.check(folder)
    absent = [name for name in (*TOLD, "sha256") if name not in told]
    absent += [] if any(Path(name).name == ROWS for name in told.get("sha256", {})) else [ROWS]
    if absent:
        raise ResultsError(f"{folder} cannot be kept: its run.json has no {', '.join(absent)}")
    if told["recipe"] != recipe.name:
        raise ResultsError(f"{folder} is a run of {told['recipe']}, not of {recipe.name}")
    entry = {name: told[name] for name in (*TOLD, *SINCE) if name in told}
    entry |= packed(store.readings(folder, told["seed"]), told["seed"], recipe.measures)
    path = MACHINE.search(json.dumps({name: part for name, part in entry.items() if name != "arrays"}))
    if path is not None:
        raise ResultsError(f"{folder} cannot be kept: it names a path of this machine, {path[0]}")
    return entry


ByPoint = dict[str, dict[Point, dict[int, Kept]]]
"""Kept runs by scale, point and seed."""


def load(recipe: Recipe, root: str | os.PathLike[str] = "results") -> ByPoint:
    """The kept runs by scale, point and seed; only those whose settings are the recipe's present ones.

    Equal settings at two scales share their runs.
    """
    found: ByPoint = {}
    alike: dict[str, list[Kept]] = {}  # all seeds have the same settings, which are compared once
    for one in kept_in(file_of(recipe, root), recipe.name):
        alike.setdefault(json.dumps(one.config, sort_keys=True), []).append(one)
    for scale, point, config in _configs(recipe):
        for one in (one for several in alike.values() if same_settings(several[0].config, config) for one in several):
            seeds = found.setdefault(scale, {}).setdefault(point, {})
            if one.seed in seeds:
                pair = f"{seeds[one.seed].key} and {one.key}"
                raise ResultsError(f"{file_of(recipe, root)} keeps {point}, seed {one.seed}, twice: runs {pair}")
            seeds[one.seed] = one
    return found


def kept_in(file: str | os.PathLike[str], recipe: str | None = None) -> list[Kept]:
    """All runs of one file that are not superseded, of this recipe or, even where none is known, of any."""
    path = Path(file)
    return [one for entry in _entries(path, recipe) if "superseded" not in entry for one in _kept(entry, path)]


def stale(recipe: Recipe, root: str | os.PathLike[str] = "results") -> list[Kept]:
    """The kept runs whose settings the recipe no longer has at any scale."""
    configs = [config for _, _, config in _configs(recipe)]
    kept = {one.key: one for one in kept_in(file_of(recipe, root), recipe.name)}.values()
    return [one for one in kept if not any(same_settings(one.config, config) for config in configs)]


def finished(
    recipe: Recipe, root: str | os.PathLike[str] = "runs", refuse: Callable[[str], None] | None = None
) -> dict[str, dict[Point, dict[int, Readings]]]:
    """The readings of a recipe's finished runs in a folder of runs, by scale, point and seed.

    `refuse` is called for damaged runs, which are left out; without it the first one raises.
    """
    done = {one.key: one for one in store.Runs(root).all() if one.status == "done" and one.recipe == recipe.name}
    seeds = sorted({one.seed for one in done.values() if one.seed is not None})
    found: dict[str, dict[Point, dict[int, Readings]]] = {}
    for scale in recipe.scales:
        for job in recipe.jobs(scale, seeds=seeds):
            if job.key not in done:
                continue
            try:
                store.check(done[job.key].folder)
                read = store.readings(done[job.key].folder, job.seed)
            except (StoreError, ReadingsError) as error:
                if refuse is None:
                    raise
                refuse(str(error))
                del done[job.key]
                continue
            found.setdefault(scale, {}).setdefault(job.point, {}).update(read)
    return found


def readings_of(runs: Mapping[Point, Mapping[int, Kept]]) -> dict[Point, dict[int, Readings]]:
    """The readings alone, by point and seed, which claims are judged by."""
    return {point: {seed: one.readings for seed, one in sorted(seeds.items())} for point, seeds in runs.items()}


def _configs(recipe: Recipe) -> Iterator[tuple[str, Point, Any]]:
    for scale in recipe.scales:
        for point in recipe.grid(scale).points:
            yield scale, point, recipe.config(scale, point)


def file_of(recipe: Recipe, root: str | os.PathLike[str]) -> Path:
    """The file with a recipe's kept readings."""
    return Path(root) / f"{recipe.name}.json"


def same_settings(told: Any, now: Any) -> bool:
    """Whether the stored settings of a run equal these; fields that were added later count as their defaults."""
    defaults = {}
    if is_dataclass(now) and not isinstance(now, type):
        defaults = {field.name: _default(field) for field in fields(now)}
        now = {"type": type(now).__qualname__} | {name: getattr(now, name) for name in defaults}
    if isinstance(now, Mapping):
        if not isinstance(told, Mapping) or told.keys() - now.keys():
            return False
        return all(
            same_settings(told[name], value) if name in told else name in defaults and bool(defaults[name] == value)
            for name, value in now.items()
        )
    if isinstance(now, list | tuple):
        return isinstance(told, list) and len(told) == len(now) and all(map(same_settings, told, now))
    return bool(told == plain(now))


def _default(field: Field[Any]) -> Any:
    """The default of a field; MISSING, which equals no value, where it has none."""
    return field.default if field.default_factory is MISSING else field.default_factory()


def _kept(entry: dict[str, Any], file: Path) -> list[Kept]:
    wrong = store.wrong_field(entry)
    if wrong is not None:
        raise ResultsError(f"{file}: {wrong} of run {entry['key']} is {entry[wrong]!r}")
    try:
        told = {name: entry[name] for name in TOLD} | {"point": Point(entry["point"])}
        return [Kept(**told | {"seed": seed}, readings=one) for seed, one in unpacked(entry, entry["seed"]).items()]
    except (LookupError, TypeError, ValueError, AttributeError, zlib.error) as error:
        raise ResultsError(f"{file}: run {entry['key']} cannot be read: {error!r}") from error


def _entries(file: Path, recipe: str | None) -> list[dict[str, Any]]:
    """The runs of a file, after comparing its seal and every key."""
    try:
        body = file.read_bytes()
    except FileNotFoundError:
        return []
    try:
        told = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ResultsError(f"{file} was cut short or is not JSON: {error}") from error
    if not isinstance(told, dict) or told.get("kind") != KIND or told.get("version") != VERSION:
        raise ResultsError(
            f"{file} holds no {KIND} of version {VERSION}; results/rekey.py translates older ones, `winze runs keep` "
            "writes new ones"
        )
    if told.get("sha256") != hashlib.sha256(body.partition(b"\n")[2]).hexdigest():
        raise ResultsError(f"{file} was changed by hand: its SHA-256 differs; restore the committed file")
    if recipe is not None and told.get("recipe") != recipe:
        raise ResultsError(f"{file} keeps runs of {told.get('recipe')!r}, not of {recipe}")
    try:
        entries: list[dict[str, Any]] = told["runs"]
        for entry in entries:
            if entry["key"] != key_of(told["recipe"], entry["config"], entry["seed"]):
                raise ResultsError(f"{file}: the key of run {entry['key']} is not that of its settings and seed")
    except (KeyError, TypeError) as error:
        raise ResultsError(f"{file} holds no runs in the format of this winze: {error!r}") from error
    return entries


def write(file: Path, recipe: str, entries: list[dict[str, Any]]) -> None:
    """Write a recipe's kept runs, sealed by the SHA-256 of everything after the first line."""
    file.parent.mkdir(parents=True, exist_ok=True)
    ordered = sorted(entries, key=_order)
    lines = ",\n".join(json.dumps(entry, separators=(",", ":"), allow_nan=False) for entry in ordered)
    body = f"{lines}\n]}}\n".encode()
    head = {"kind": KIND, "version": VERSION, "recipe": recipe, "sha256": hashlib.sha256(body).hexdigest()}
    write_atomically(file, f'{json.dumps(head)[:-1]}, "runs": [\n'.encode() + body)


def _order(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        entry["scale"],
        json.dumps(entry["point"], sort_keys=True),
        entry["seed"],
        entry["key"],
        str(entry["started"]),
    )
