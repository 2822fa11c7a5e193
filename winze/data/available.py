"""What data is at hand, without decoding any of it."""

from __future__ import annotations

import os
from dataclasses import dataclass

from winze.data.data_error import DataError
from winze.data.select import choose
from winze.data.sources.catalog import CATALOG, Known, reader
from winze.data.sources.search import find, looked, roots


@dataclass(frozen=True)
class Listing:
    """One known set: where it is (None: nowhere yet), where it was looked for, and its sizes as `load` gives them.

    Sizes of a set that is not at hand, or that only torchvision can open, are the published ones. `problem` says why
    a set that was found cannot be used.
    """

    name: str
    about: str
    found: str | None
    looked: tuple[str, ...]
    train: int | None = None
    test: int | None = None
    classes: int | None = None
    shape: tuple[int, ...] | None = None
    downloads: bool = False
    notes: tuple[str, ...] = ()
    problem: str | None = None


def available(root: str | os.PathLike[str] | None = None) -> list[Listing]:
    """Every known set, with its place and its sizes."""
    return [_listing(known, root) for known in CATALOG.values()]


def _listing(known: Known, root: str | os.PathLike[str] | None) -> Listing:
    places = roots(root)
    spot = find(known, places)
    tried = tuple(looked(known, places))
    downloads = known.original is not None
    read = reader(known, None)
    open_it = known.make
    if open_it is None and spot is not None and not spot.torchvision and read is not None and known.published is None:
        folder, read_folder = spot.folder, read
        open_it = lambda: read_folder(folder)  # noqa: E731
    if open_it is None:
        return _published(known, str(spot.folder) if spot else None, tried)
    try:
        chosen = choose(open_it())
    except DataError as error:
        found = str(spot.folder) if spot else None
        return Listing(known.name, known.about, found, tried, downloads=downloads, problem=str(error))
    return Listing(
        known.name,
        known.about,
        chosen.found,
        tried,
        len(chosen.train),
        len(chosen.test),
        len(chosen.classes),
        chosen.train.shape,
        downloads,
        chosen.notes,
    )


def _published(known: Known, found: str | None, tried: tuple[str, ...]) -> Listing:
    """Sizes from the catalogue, for sets that are not read here."""
    sizes = known.original.sizes if known.original else known.published
    if sizes is None:
        return Listing(known.name, known.about, found, tried)
    train, test, classes = sizes
    if test == 0:
        train, test = train - train // 2, train // 2
    shape = known.original.shape if known.original else None
    downloads = known.original is not None
    return Listing(known.name, known.about, found, tried, train, test, classes, shape, downloads)
