"""Which rows of a set are used: classes, halves, limits. All of it uses labels only and is fixed by a seed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from winze.data.class_names import Wanted, resolve
from winze.data.data_error import DataError
from winze.data.sources.source import Part, RowNumbers, Source, SplitLabels

SEED = 0


@dataclass(frozen=True, eq=False)
class Selection:
    """A set with both parts, ready to be read: classes numbered from 0, every class in both parts."""

    name: str
    classes: tuple[str, ...]
    train: Part
    test: Part
    found: str
    notes: tuple[str, ...]


def choose(source: Source, wanted: Wanted = None, limit: int | None = None) -> Selection:
    """Both parts with only the wanted classes, and at most `limit` samples a part.

    Classes that train and test do not share are left out; a missing part is half of the other one, class by class.
    """
    kept = resolve(wanted, source.classes, source.name)
    train, test, notes = *_both(source), list(source.notes)
    if source.train is None or source.test is None or not len(source.train) or not len(source.test):
        notes.append(f"one part only: split half and half by class, seed {SEED}")
    common = _common(source, kept, train, test, explicit=wanted is not None)
    if len(common) < len(kept):
        notes.append(
            f"train has {len(set(train.labels))} classes and test {len(set(test.labels))}: "
            f"the {len(common)} common ones are used, numbered anew"
        )
    elif wanted is not None:
        notes.append(f"{len(common)} of {len(source.classes)} classes, numbered anew: {few(source.classes, common)}")
    train, test = train.relabel(common), test.relabel(common)
    if limit is not None:
        full = len(train), len(test)
        train, test = (part.take(spread(part.labels, limit, source.name)) for part in (train, test))
        if (len(train), len(test)) != full:
            notes.append(f"limit {limit}: {len(train)} of {full[0]} train, {len(test)} of {full[1]} test, seed {SEED}")
    names = tuple(source.classes[number] for number in common)
    return Selection(source.name, names, train, test, source.found, tuple(notes))


def _both(source: Source) -> tuple[Part, Part]:
    """Train and test, one of them made from the other where the source has one only."""
    if source.train is not None and source.test is not None and len(source.train) and len(source.test):
        return source.train, source.test
    only = source.train if source.train is not None and len(source.train) else source.test
    assert only is not None  # a source holds at least one sample
    first, second = halves(only.labels)
    return only.take(first), only.take(second)


def _common(source: Source, kept: list[int], train: Part, test: Part, explicit: bool) -> list[int]:
    """The kept classes that both parts have samples of."""
    both = set(train.labels.tolist()) & set(test.labels.tolist())
    common = [number for number in kept if number in both]
    lacking = [number for number in kept if number not in both]
    if explicit and lacking:
        where = "train" if lacking[0] not in train.labels else "test"
        what = f"{source.name}: class {lacking[0]} ({source.classes[lacking[0]]})"
        raise DataError(f"{what} has no {where} samples; classes with both: {few(source.classes, sorted(both))}")
    if len(common) < 2:
        raise DataError(f"{source.name}: {len(common)} class with both train and test samples; at least two are needed")
    return common


def halves(labels: SplitLabels) -> tuple[RowNumbers, RowNumbers]:
    """Split half and half by class; of an odd count the first half gets one more."""
    rank, count = _ranks(labels)
    first = 2 * rank < count[labels]
    return np.flatnonzero(first), np.flatnonzero(~first)


def spread(labels: SplitLabels, limit: int, what: str) -> RowNumbers:
    """At most `limit` rows in file order, each class in proportion and none left out.

    Sample r of the n_c samples of its class (in an order drawn from the seed) stands at r / n_c; the first rows win.
    """
    classes = len(np.unique(labels))
    if limit < classes:
        raise DataError(f"{what}: a limit of {limit} samples is below the number of classes, {classes}")
    rank, count = _ranks(labels)
    order = np.argsort(rank / count[labels], kind="stable")
    return np.sort(order[:limit])


def of_each(labels: SplitLabels, count: int) -> RowNumbers:
    """At most `count` rows of every class, in file order; a smaller count takes some of what a larger one does."""
    return np.flatnonzero(_ranks(labels)[0] < count)


def _ranks(labels: SplitLabels) -> tuple[RowNumbers, RowNumbers]:
    """The place of every sample in a random order of its class, and the size of each class."""
    draw = np.random.default_rng(SEED).random(len(labels))
    order = np.lexsort((draw, labels))
    count = np.bincount(labels)
    start = np.cumsum(count) - count
    rank = np.empty(len(labels), dtype=np.int64)
    rank[order] = np.arange(len(labels)) - start[labels[order]]
    return rank, count


def few(classes: tuple[str, ...], numbers: list[int], most: int = 12) -> str:
    """The first names of a list of classes, for a note."""
    names = [classes[number] for number in numbers[:most]]
    return ", ".join(names) + (", ..." if len(numbers) > most else "")
