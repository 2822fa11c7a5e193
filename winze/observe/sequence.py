"""The readings of a sequence of tasks: accuracy matrix, forgetting, transfer, and a depth profile after each task."""

from __future__ import annotations

import os
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from winze.measure import task_accuracy as lost
from winze.networks import head_of
from winze.observe.between import cka_between
from winze.observe.places.chosen_calls import PlaceNames
from winze.observe.places.find_places import find_spots
from winze.observe.places.pooling import check_pool
from winze.observe.scan import checked_measures, scan
from winze.place import Place
from winze.readings import Array, Readings, ReadingsError

if TYPE_CHECKING:
    import pandas

MATRIX, START, CURVES = "accuracy_matrix", "accuracy_before", "curves"
DRIFT = "cka_drift"
ROUNDING = 1e-9  # the drift of equal features is 0, not the 1e-16 of rounding


class Sequence:
    """The readings of a network that was trained on one task after another; tasks are counted from 1."""

    def __init__(self, readings: Readings) -> None:
        if MATRIX not in readings.arrays:
            raise ReadingsError("these readings are not those of a sequence of tasks: they hold no accuracy matrix")
        self.readings = readings

    def __repr__(self) -> str:
        told = self.readings.conventions
        mean, gone = self.average_accuracy[-1], self.forgetting[:-1].mean()
        return (
            f"<Sequence of {len(self.matrix)} tasks ({told.get('incremental')}-incremental), {told.get('network')} on "
            f"{told.get('data')}: average accuracy {mean:.1%}, forgetting {100 * gone:.1f} points>"
        )

    @property
    def tasks(self) -> list[str]:
        """The names of the tasks: "task 1", "task 2", ..."""
        return list(self.readings.conventions["tasks"])

    @property
    def places(self) -> list[Place]:
        """The places of depth profiles; empty where no measure was requested."""
        names = self.readings.conventions.get("places", [])
        return [Place(i, len(names), name) for i, name in enumerate(names)]

    @property
    def table(self) -> pandas.DataFrame:
        """All readings as one tidy table; `after` is the number of tasks trained so far, 0 before the first."""
        return self.readings.table.rename(columns={"step": "after"})

    @property
    def matrix(self) -> Array:
        """R[t, k]: the accuracy on task k + 1 after training on task t + 1."""
        return self.readings.arrays[MATRIX]

    @property
    def start(self) -> Array:
        """The accuracy on each task before the first."""
        return self.readings.arrays[START]

    @property
    def average_accuracy(self) -> Array:
        """After each task, the mean accuracy on the tasks seen so far."""
        return lost.average_accuracy(self.matrix)

    @property
    def forgetting(self) -> Array:
        """The accuracy that each task loses between its own end and the end of the sequence: R[k, k] - R[T, k]."""
        return lost.forgetting(self.matrix)

    @property
    def backward_transfer(self) -> float:
        """Backward transfer: the mean over k < T of R[T, k] - R[k, k]."""
        return lost.backward_transfer(self.matrix)

    @property
    def forward_transfer(self) -> float:
        """Forward transfer, before a task is trained on: the mean over k > 1 of R[k - 1, k] - b_k."""
        return lost.forward_transfer(self.matrix, self.start)

    def profile(self, measure: str, task: int = 1) -> Array:
        """A measure [after task, place] on the data of a task: probe, numerical_rank, cka_drift..."""
        name, count = f"task {task}", len(self.matrix)
        if not 1 <= task <= count:
            raise ReadingsError(f"there is no task {task}; they are numbered 1 to {count}")
        return np.stack([self.readings.curve(measure, name, step=after) for after in range(1, count + 1)])

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Save the readings to a folder."""
        self.readings.save(folder)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Sequence:
        """Load a folder that `save` wrote."""
        return cls(Readings.load(folder))

    def report(self, file: str | os.PathLike[str]) -> Path:
        """Write one HTML page: the accuracy matrix, accuracy during training, forgetting, and features over depth."""
        from winze.report.sequence_page import write_sequence

        return write_sequence(self.readings, file)


def store_matrix(readings: Readings, tests: Mapping[str, int], matrix: Array, start: Array) -> None:
    """Add the accuracies on every task (by name, with its number of test samples) before and after each task."""
    readings.arrays[MATRIX], readings.arrays[START] = matrix, start
    for after, row in enumerate((start, *matrix)):
        for (name, samples), value in zip(tests.items(), row, strict=True):
            readings.add("accuracy", value, step=after, data=name, split="test", n=samples)


@dataclass
class DepthProfiles:
    """Scans a network after each task: the measures of a scan on every task, and the CKA drift since task 1.

        cka_drift = 1 - CKA(features after task 1, features now), on the test samples of task 1

    `data` are (train, test) by name, the first task first. The output is not a place, since heads change between tasks.
    """

    data: Mapping[str, tuple[Any, Any]]
    places: PlaceNames = None
    measures: tuple[str, ...] = ("probe", "rank")
    probe: str = "ridge"
    pool: Any = "mean"
    progress: bool | None = None
    max_features: int = 8000
    readings: Readings = field(default_factory=Readings)
    _first: nn.Module | None = None

    def check(self, net: nn.Module) -> None:
        """Raise before anything is trained where the measures, the probe, the pool or the places cannot be read."""
        if not self.measures:
            return
        train, test = next(iter(self.data.values()))
        if scanned := [one for one in self.measures if one != DRIFT]:
            checked_measures(scanned, self.probe, train)
        check_pool(self.pool)
        self._names(net, test)

    def read(self, net: nn.Module, after: int) -> None:
        """Add the profile of the network after `after` tasks."""
        if not self.measures:
            return
        (name, (train, test)), *others = self.data.items()
        scanned = [one for one in self.measures if one != DRIFT]
        names = self._names(net, test)
        if scanned:
            found = scan(
                net,
                train,
                test,
                ood=dict(others) if "probe" in scanned else None,
                places=names,
                measures=scanned,
                probe=self.probe,
                pool=self.pool,
                max_features=self.max_features,
                name=name,
                progress=self.progress,
            )
            rows = [replace(row, step=after) for row in found.readings.rows if row.index is not None]
            self.readings.rows += rows
            kept = ("pool", "probe", "measures", "rank")
            told = {key: found.readings.conventions[key] for key in kept if key in found.readings.conventions}
            self.readings.declare(**told)
        if self._first is None:
            self._first = deepcopy(net)
        between = cka_between(
            self._first, net, test, places=names, other_places=names, pool=self.pool, progress=self.progress
        )
        self.readings.arrays[f"cka_to_first/{after}"] = between.cka
        for place, value in zip(between.places, between.cka.diagonal(), strict=True):
            where: Any = {"place": place, "data": name, "split": "test", "n": between.n}
            drift = 0.0 if abs(1 - value) < ROUNDING else 1 - float(value)
            note = "constant features have no CKA" if np.isnan(value) else ""
            self.readings.add(DRIFT, drift, step=after, note=note, **where)

    def _names(self, net: nn.Module, test: Any) -> list[str]:
        if "places" not in self.readings.conventions:
            example = next(iter(test))[0][:2] if not isinstance(test, tuple) else test[0][:2]
            head = head_of(net) or ""
            inside = head.partition(".heads.")[0]
            found = [spot.place.name for spot in find_spots(net, example, self.places)]
            hidden = [one for one in found if one != inside and not one.startswith(f"{inside}.")]
            self.readings.declare(places=hidden or found)
        return list(self.readings.conventions["places"])
