"""Data sets by name."""

from __future__ import annotations

import os
from pathlib import Path

from torch import Tensor

from winze.data.class_names import SYNTAX, Wanted, split_name
from winze.data.data_error import DataError, MissingDataError, UnknownDataError
from winze.data.dataset import Dataset
from winze.data.image_tensors import Fit, fitted, resize_square
from winze.data.select import choose
from winze.data.sources.catalog import ALIASES, CATALOG, Known, reader
from winze.data.sources.download import download as fetch
from winze.data.sources.download import missing
from winze.data.sources.image_folder import folder_source
from winze.data.sources.images import check_memory
from winze.data.sources.npz import npz_source
from winze.data.sources.search import find, roots
from winze.data.sources.source import Source
from winze.data.sources.torchvision import original_source
from winze.hints import did_you_mean


def load(
    name: str,
    root: str | os.PathLike[str] | None = None,
    classes: Wanted = None,
    limit: int | None = None,
    size: int | None = None,
    download: bool = True,
    fit: Fit = "resize",
) -> Dataset:
    """Load a data set: a known name, a folder of images or an `.npz` file, optionally with some of its classes.

    `cifar10[0-4]` and `cifar10[cat,dog]` pick classes as `classes=` does (numbers or names, renumbered in the order
    given). `limit` keeps at most this many training and this many test samples, spread over the classes. `size` resizes
    all images to squares of this many pixels; with `fit="pad"` smaller ones are padded with black instead. Known sets
    are looked for in `root`, or in the folder that WINZE_DATA names and then in winze's cache; torchvision downloads
    what is found nowhere, unless `download` is False. `torchvision/dtd` asks for torchvision's original where winze has
    small files under the same name.
    """
    base, bracket = split_name(name)
    if bracket is not None and classes is not None:
        raise DataError(f"{name!r} picks classes and classes= does too; give one of them")
    for what, number in (("limit", limit), ("size", size)):
        if number is not None and number < 1:
            raise DataError(f"{name}: {what} is {number}, it must be at least 1")
    source = open_source(base, root, size, download)
    chosen = choose(source, bracket if bracket is not None else classes, limit)
    train, test = chosen.train.read(), chosen.test.read()
    return Dataset(
        name=name.strip(),
        train_images=_sized(train[0], size, name, fit),
        train_labels=train[1],
        test_images=_sized(test[0], size, name, fit),
        test_labels=test[1],
        classes=chosen.classes,
        found=chosen.found,
        notes=chosen.notes,
    )


def open_source(name: str, root: str | os.PathLike[str] | None, size: int | None, download: bool) -> Source:
    """Find a set and read its labels; no pixels yet."""
    known, original = lookup(name)
    if known is None:
        path = Path(name).expanduser()
        return npz_source(name, path) if path.is_file() else folder_source(name, path, size)
    if known.make is not None:
        return known.make()
    places = roots(root)
    spot = find(known, places, original)
    if spot is not None and not spot.torchvision:
        read = reader(known, size)
        assert read is not None  # a set with a folder has a reader
        return read(spot.folder)
    if spot is None and not download:
        raise missing(known, places, original, "downloads are switched off")
    return original_source(known.name, spot.folder if spot else fetch(known, places, original), size)


def lookup(name: str) -> tuple[Known | None, bool]:
    """The known set of that name and whether torchvision's original is asked for; None for a path that exists."""
    bare = name.removeprefix("torchvision/")
    key = bare.lower().replace("-", "_").replace(" ", "_")
    known = CATALOG.get(ALIASES.get(key, key))
    if known is not None:
        if bare != name and known.original is None:
            raise UnknownDataError(f"torchvision has no data set {bare!r}")
        return known, bare != name
    path = Path(name).expanduser()
    if name and (path.is_dir() or (path.is_file() and path.suffix == ".npz")):
        return None, False
    if path.is_file():
        raise UnknownDataError(f"{name} is a file, but not an .npz archive")
    if os.sep in name or path.suffix == ".npz":
        raise MissingDataError(f"{name}: there is no such folder or .npz file")
    hint = did_you_mean(key, [*CATALOG, *ALIASES]) or f"; known: {', '.join(CATALOG)}"
    raise UnknownDataError(f"unknown data set {name!r}{hint} (or a folder, or an .npz file; {SYNTAX})")


def _sized(images: Tensor, size: int | None, what: str, fit: Fit) -> Tensor:
    if size is None or images.ndim != 4 or tuple(images.shape[2:]) == (size, size):
        return images
    check_memory(len(images), (images.shape[1], size, size), what)
    if fit == "pad" and max(images.shape[2:]) <= size:
        return fitted(images, (size, size), fit)
    return resize_square(images, size)
