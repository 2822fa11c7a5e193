"""Fetch a set with torchvision; it appears in its place whole or not at all."""

from __future__ import annotations

from pathlib import Path

from winze.data.data_error import MissingDataError
from winze.data.sources.catalog import Known
from winze.data.sources.search import looked


def download(known: Known, places: list[Path], original: bool = False) -> Path:
    """Download into the last place and give the folder torchvision can read it from.

    torchvision works in a folder of another name, which is renamed when all parts are there; a download that was cut
    off leaves that folder for the next try, and no set that looks complete.
    """
    if known.original is None:
        raise missing(known, places, original, "winze has no download for it")
    target = places[-1] / "torchvision" / known.name
    unfinished = target.with_name(f".{known.name}.unfinished")
    try:
        unfinished.mkdir(parents=True, exist_ok=True)
        known.original.build(unfinished, download=True)
        unfinished.replace(target)
    except Exception as error:  # no network, no space, wrong checksum, a server's page instead of a file, ...
        reason = " ".join(str(error).split()) or type(error).__name__
        raise missing(known, places, original, f"torchvision's download failed ({reason})") from error
    return target


def missing(known: Known, places: list[Path], original: bool, why: str) -> MissingDataError:
    """Say everywhere a set was looked for and how to get it."""
    places_seen = ", ".join(looked(known, places, original))
    folder = known.folder or known.name
    own = f"the folder that holds {folder}/" if known.folder and not original else "torchvision's folder"
    return MissingDataError(
        f"{known.name} was not found; looked for {places_seen}; {why}; set WINZE_DATA (or root=) to {own}"
    )
