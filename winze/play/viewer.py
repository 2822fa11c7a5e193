"""Stored readings for the page: a scan, several scans, or the runs of a recipe."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from winze.lab.runs import store
from winze.readings import MANIFEST, Readings, ReadingsError
from winze.report.scan.payload import payload
from winze.report.scan.summary import findings

MOST = 24  # scans on one page
THRESHOLD = 0.95


def opened(folders: Sequence[Path]) -> dict[str, Any]:
    """Everything that the scan viewer shows, by the name of each scan."""
    found: dict[str, Readings] = {}
    for folder in folders:
        for name, readings in _in(folder).items():
            found[name if name not in found else f"{name} ({folder})"] = readings
    if len(found) > MOST:
        raise ReadingsError(f"{len(found)} scans are more than one page shows ({MOST}): name some of them")
    told = payload(found, THRESHOLD)
    told.pop("csv")
    return told | {"findings": {name: findings(one, THRESHOLD) for name, one in found.items()}}


def _in(folder: Path) -> dict[str, Readings]:
    """The readings of a folder, or of the folders in it."""
    if not folder.is_dir():
        raise ReadingsError(f"{folder} is no folder; give one that `winze scan` or `winze run` wrote")
    if _holds(folder):
        return _read(folder, folder.resolve().name)
    inside = [one for one in sorted(folder.iterdir()) if one.is_dir() and not one.name.startswith(".")]
    found = {name: one for path in inside if _holds(path) for name, one in _read(path, path.name).items()}
    if not found:
        raise ReadingsError(f"{folder} holds no scan and no finished run, nor does a folder in it")
    return found


def _holds(folder: Path) -> bool:
    return (folder / MANIFEST).is_file() or any(folder.glob(f"{store.MEMBER}*/{MANIFEST}"))


def _read(folder: Path, name: str) -> dict[str, Readings]:
    """A scan under its folder's name, a run under its point and seed."""
    told = store.read(folder) if (folder / store.RUN).is_file() else None
    if told is None:
        return {name: Readings.load(folder)}
    point = ", ".join(f"{axis} {value}" for axis, value in told.get("point", {}).items()) or name
    return {f"{point}, seed {seed}": one for seed, one in store.readings(folder, told.get("seed", 0)).items()}
