"""Where data is looked for: a given folder, or WINZE_DATA and then winze's cache."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from winze.data.sources.catalog import Known


def cache() -> Path:
    """winze's own folder for downloads: $XDG_CACHE_HOME/winze or ~/.cache/winze."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "winze"


def roots(root: str | os.PathLike[str] | None = None) -> list[Path]:
    """The folders to look in, the first one first; downloads go into the last."""
    if root is not None:
        return [Path(root).expanduser()]
    named = os.environ.get("WINZE_DATA")
    return [*([Path(named).expanduser()] if named else []), cache()]


@dataclass(frozen=True)
class FoundFolder:
    """A folder that holds a set, as winze's files or as torchvision's."""

    folder: Path
    torchvision: bool


def find(known: Known, places: list[Path], original: bool = False) -> FoundFolder | None:
    """The first place that has the set; `original` passes winze's own files by."""
    for place in places:
        folder = place / known.folder
        if known.folder and not original and any(folder.glob(known.pattern)):
            return FoundFolder(folder, torchvision=False)
        for base in (place, place / "torchvision" / known.name):
            if known.original is not None and (base / known.original.marker).exists():
                return FoundFolder(base, torchvision=True)
    return None


def looked(known: Known, places: list[Path], original: bool = False) -> list[str]:
    """Every path at which `find` looks, for a message."""
    paths: list[Path] = []
    for place in places:
        if known.folder and not original:
            paths.append(place / known.folder)
        if known.original is not None:
            paths += [place / known.original.marker, place / "torchvision" / known.name / known.original.marker]
    return [str(path) for path in paths]
