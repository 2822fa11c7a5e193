"""Stored readings for the page: a scan, several scans, the runs of a recipe, or a file of kept runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from winze.lab.runs import results, store
from winze.readings import MANIFEST, Point, Readings, ReadingsError, facts
from winze.report.scan.payload import payload
from winze.report.scan.summary import findings

NUMBER = re.compile(r"(\d+(?:\.\d+)?)")
MOST = 24  # scans on one page
THRESHOLD = 0.95


def opened(paths: Sequence[Path]) -> dict[str, Any]:
    """Everything that the scan viewer shows, by the name of each scan."""
    found: dict[str, Readings] = {}
    note = ""
    for path in paths:
        if path.is_file():
            several, note = _kept(path)
        else:
            several = _in(path)
        for name, readings in several.items():
            found[name if name not in found else f"{name} ({path})"] = readings
    if len(found) > MOST:
        raise ReadingsError(f"{len(found)} scans are more than one page shows ({MOST}): name some of them")
    told = payload(found, THRESHOLD)
    told.pop("csv")
    return told | {"note": note, "findings": {name: findings(one, THRESHOLD) for name, one in found.items()}}


def _kept(file: Path) -> tuple[dict[str, Readings], str]:
    """The kept runs of a file by scale, point and seed, at most as many as fit, and what was left out."""
    runs = [one for one in results.kept_in(file) if facts.places(one.readings)]
    if not runs:
        raise ReadingsError(
            f"{file} keeps no readings over depth, which this page shows; `winze list` has its verdicts"
        )
    shown = runs
    if len(shown) > MOST:
        lowest: dict[tuple[str, Point], int] = {}
        for one in runs:
            lowest[one.scale, one.point] = min(one.seed, lowest.get((one.scale, one.point), one.seed))
        shown = [one for one in runs if one.seed == lowest[one.scale, one.point]][:MOST]
    note = "" if len(shown) == len(runs) else f"{len(shown)} of {len(runs)} kept runs: one seed of each point"
    several = len({one.scale for one in shown}) > 1
    points = _told_apart([one.point for one in shown])
    names = [
        ", ".join([*([one.scale] if several else []), *([point] if point else []), f"seed {one.seed}"])
        for one, point in zip(shown, points, strict=True)
    ]
    alike = {name for name in names if names.count(name) > 1}
    return {
        f"{name} ({one.key})" if name in alike else name: one.readings for name, one in zip(names, shown, strict=True)
    }, note


def _told_apart(points: Sequence[Point]) -> list[str]:
    """Each point by the axes on which they differ; one that is alone by all of its axes."""
    differs = {axis for point in points for axis in point if any(other.get(axis) != point[axis] for other in points)}
    return [_named({axis: one for axis, one in point.items() if axis in differs or not differs}) for point in points]


def _named(point: Mapping[str, Any]) -> str:
    return ", ".join(f"{axis} {value}" for axis, value in point.items())


def _in(folder: Path) -> dict[str, Readings]:
    """The readings of a folder, or of the folders in it."""
    if not folder.is_dir():
        raise ReadingsError(
            f"{folder} does not exist: give a folder that `winze scan` or `winze run` wrote, or a file of kept runs"
        )
    if _holds(folder):
        return _read(folder, folder.resolve().name)
    inside = [one for one in sorted(folder.iterdir()) if one.is_dir() and not one.name.startswith(".")]
    found = {name: one for path in inside if _holds(path) for name, one in _read(path, path.name).items()}
    if not found:
        raise ReadingsError(f"{folder} holds no scan and no finished run, nor does a folder in it")
    return dict(sorted(found.items(), key=lambda named: _by_number(named[0])))


def _by_number(name: str) -> list[tuple[float, str]]:
    """What a name is sorted by, so that layer 10 comes after layer 9.

    >>> sorted(["blocks 16, seed 0", "blocks 8, seed 1", "blocks 8, seed 0"], key=_by_number)
    ['blocks 8, seed 0', 'blocks 8, seed 1', 'blocks 16, seed 0']
    """
    return [(float(part) if i % 2 else -1.0, part) for i, part in enumerate(NUMBER.split(name))]


def _holds(folder: Path) -> bool:
    return (folder / MANIFEST).is_file() or any(folder.glob(f"{store.MEMBER}*/{MANIFEST}"))


def _read(folder: Path, name: str) -> dict[str, Readings]:
    """A scan under its folder's name, a run under its point and seed."""
    told = store.read(folder) if (folder / store.RUN).is_file() else None
    if told is None:
        return {name: Readings.load(folder)}
    point = _named(told.get("point", {})) or name
    return {f"{point}, seed {seed}": one for seed, one in store.readings(folder, told.get("seed", 0)).items()}
