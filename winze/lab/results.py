"""Committed readings of real runs: `results/<system>/<recipe>.json`, one line per run; added, never replaced.

A run is kept with its settings, machine, versions and seconds, and with those of its readings that the recipe's
`measures` name. The first line of a file seals the rest with its SHA-256, which is compared whenever it is read. What
is loaded are the runs whose settings are the recipe's now; a field that a config has got since then counts as its
default, so that a new option leaves old readings valid.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

from winze.files import StoreError, write_atomically
from winze.lab import store
from winze.lab.job import plain
from winze.lab.members import apart
from winze.lab.packing import first_difference, packed, unpacked
from winze.lab.recipe import Recipe
from winze.readings import ARRAYS, ROWS, Readings, ReadingsError

KIND, VERSION = "winze results", 2
TOLD = ("key", "scale", "arm", "seed", "device", "versions", "commit", "started", "seconds", "config")
SINCE = ("threads", "flags", "source", "resumed", "notes")  # runs that were kept before these have none
PATIENCE = 60.0  # seconds that one `keep` waits for another
MACHINE = re.compile(r"(?<![\w.:/<+-])/(?:[\w.+-]+/)+[\w.+-]+|\b[A-Za-z]:\\\\")
"""an absolute path in a text"""


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
    return bool(add_all([folder], recipe, root))


def add_all(
    folders: Iterable[str | os.PathLike[str]],
    recipe: Recipe,
    root: str | os.PathLike[str] = "results",
    refuse: Callable[[str], None] | None = None,
) -> list[Path]:
    """Keep the readings of finished runs of one recipe, and return the folders of those that are new.

    Each run is checked: the hashes in its `run.json`, its key against its settings, its readings against those that
    are kept. `refuse` hears why a run is left out, and the others are kept; without it the first reason is raised and
    nothing is. The file is read and written once, by one process at a time.
    """
    file, new = file_of(recipe, root), []
    with _locked(Path(root)):
        kept = _Known(recipe, file, _entries(file, recipe.name))
        for path in map(Path, folders):
            try:
                if kept.add(_entry(path, recipe), path):
                    new.append(path)
            except (ResultsError, StoreError, ReadingsError) as error:
                if refuse is None:
                    raise
                refuse(str(error))
        if new:
            write(file, recipe.name, kept.entries)
    return new


class _Known:
    """The runs that a file keeps, by key and by what they read."""

    def __init__(self, recipe: Recipe, file: Path, entries: list[dict[str, Any]]) -> None:
        self.recipe, self.file, self.entries = recipe, file, entries
        self._keys = {entry["key"]: entry for entry in entries}
        self._readings = {_told_and_read(entry): entry for entry in entries}

    def add(self, entry: dict[str, Any], folder: Path) -> bool:
        """Take in one more; whether it is new."""
        old = self._keys.get(entry["key"])
        if old is not None:
            where = first_difference(*(_readings(one) for one in (old, entry)))
            if where:
                what = f"{old['arm']}, seed {old['seed']} (run {old['key']}, on {old['device']})"
                raise ResultsError(
                    f"{folder}: {self.file} keeps other readings of {what}: {where}. Kept readings are never replaced"
                )
            return False
        twin = self._readings.get(_told_and_read(entry))
        if twin is not None and entry["rows"]:
            raise ResultsError(
                f"{folder}: {entry['arm']}, seed {entry['seed']}, has the very readings of seed {twin['seed']} (run "
                f"{twin['key']}): one run under two seeds is not kept"
            )
        self.entries.append(entry)
        self._keys[entry["key"]] = self._readings[_told_and_read(entry)] = entry
        return True


def _entry(folder: Path, recipe: Recipe) -> dict[str, Any]:
    """What is kept of a finished run, after checking that its files, key and settings belong together."""
    told = store.check(folder)
    absent = [name for name in (*TOLD, "sha256") if name not in told]
    absent += [name for name in (ROWS, ARRAYS) if name not in told.get("sha256", {})]
    if absent:
        raise ResultsError(f"{folder} cannot be kept: its run.json does not say {', '.join(absent)}")
    if told["recipe"] != recipe.name:
        raise ResultsError(f"{folder} is a run of {told['recipe']}, not of {recipe.name}")
    entry = {name: told[name] for name in (*TOLD, *SINCE) if name in told}
    entry |= packed(Readings.load(folder), recipe.measures)
    path = MACHINE.search(json.dumps({name: part for name, part in entry.items() if name != "arrays"}))
    if path is not None:
        raise ResultsError(f"{folder} cannot be kept: it names a path of this machine, {path[0]}")
    return entry


def _told_and_read(entry: Mapping[str, Any]) -> str:
    """The settings and the readings of a run, without its seed."""
    return json.dumps([entry["config"], entry["rows"]], sort_keys=True)


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    """One process at a time adds to a folder of results; the folder itself is what is locked."""
    root.mkdir(parents=True, exist_ok=True)
    handle = os.open(root, os.O_RDONLY)
    try:
        if not store.lock_within(handle, PATIENCE):
            raise store.BusyError(f"{root} is being written by another process")
        yield
    finally:
        os.close(handle)


def load(recipe: Recipe, root: str | os.PathLike[str] = "results") -> dict[str, dict[str, dict[int, Kept]]]:
    """The runs that are kept, by scale, arm and seed; only those whose settings are the recipe's now.

    Equal settings at two scales share their runs.
    """
    kept = _all_kept(recipe, root)
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
    kept = _all_kept(recipe, root)
    return [one for one in kept if not any(same_settings(one.config, config) for config in configs)]


def finished(
    recipe: Recipe, root: str | os.PathLike[str] = "runs", refuse: Callable[[str], None] | None = None
) -> dict[str, dict[str, dict[int, Readings]]]:
    """The readings of a recipe's finished runs in a folder of runs, by scale, arm and seed.

    Of a run of several networks, each counts as a seed. `refuse` hears of damaged runs, which are left out; without it
    the first one raises.
    """
    done = {one.key: one for one in store.Runs(root).all() if one.status == "done" and one.recipe == recipe.name}
    seeds = sorted({one.seed for one in done.values() if one.seed is not None})
    found: dict[str, dict[str, dict[int, Readings]]] = {}
    for scale in recipe.scales:
        for job in recipe.jobs(scale, seeds=seeds):
            if job.key in done:
                try:
                    store.check(done[job.key].folder)
                    read = Readings.load(done[job.key].folder)
                except (StoreError, ReadingsError) as error:
                    if refuse is None:
                        raise
                    refuse(str(error))
                    del done[job.key]
                    continue
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


def _all_kept(recipe: Recipe, root: str | os.PathLike[str]) -> list[Kept]:
    file = file_of(recipe, root)
    return [_kept(entry, file) for entry in _entries(file, recipe.name)]


def _kept(entry: dict[str, Any], file: Path) -> Kept:
    wrong = store.wrong_field(entry)
    if wrong is not None:
        raise ResultsError(f"{file}: {wrong} of run {entry['key']} is {entry[wrong]!r}")
    try:
        return Kept(**{name: entry[name] for name in TOLD}, readings=unpacked(entry))
    except (LookupError, TypeError, ValueError, AttributeError, zlib.error) as error:
        raise ResultsError(f"{file}: run {entry['key']} cannot be read: {error!r}") from error


def _entries(file: Path, recipe: str) -> list[dict[str, Any]]:
    """The runs of a file, after comparing its seal and every key."""
    try:
        body = file.read_bytes()
    except FileNotFoundError:
        return []
    try:
        told = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ResultsError(f"{file} was cut short or is no JSON: {error}") from error
    if not isinstance(told, dict) or told.get("kind") != KIND or told.get("version") != VERSION:
        raise ResultsError(f"{file} holds no {KIND} of version {VERSION}")
    if told.get("sha256") != hashlib.sha256(body.partition(b"\n")[2]).hexdigest():
        raise ResultsError(f"{file} was changed by hand: its SHA-256 differs; take back the file as it was committed")
    if told.get("recipe") != recipe:
        raise ResultsError(f"{file} keeps runs of {told.get('recipe')!r}, not of {recipe}")
    try:
        entries: list[dict[str, Any]] = told["runs"]
        for entry in entries:
            if entry["key"] != store.key_of(entry | {"recipe": recipe}):
                raise ResultsError(f"{file}: the key of run {entry['key']} is not that of its settings and seed")
    except (KeyError, TypeError) as error:
        raise ResultsError(f"{file} holds no runs as this winze keeps them: {error!r}") from error
    return entries


def write(file: Path, recipe: str, entries: list[dict[str, Any]]) -> None:
    """Write a recipe's kept runs, sealed by the SHA-256 of all after the first line."""
    file.parent.mkdir(parents=True, exist_ok=True)
    ordered = sorted(entries, key=lambda entry: (entry["scale"], entry["arm"], entry["seed"], entry["key"]))
    lines = ",\n".join(json.dumps(entry, separators=(",", ":"), allow_nan=False) for entry in ordered)
    body = f"{lines}\n]}}\n".encode()
    head = {"kind": KIND, "version": VERSION, "recipe": recipe, "sha256": hashlib.sha256(body).hexdigest()}
    write_atomically(file, f'{json.dumps(head)[:-1]}, "runs": [\n'.encode() + body)
