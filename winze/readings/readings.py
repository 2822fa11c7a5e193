"""What was read: tidy rows, arrays and conventions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any, SupportsFloat, SupportsIndex

import numpy as np

from winze.hints import nearest
from winze.readings import disk as files
from winze.readings.conventions import Conventions
from winze.readings.disk import Array
from winze.readings.rows import COLUMNS, NAN, REAL, WHOLE, HasPlace, ReadingsError, Row

if TYPE_CHECKING:
    import pandas

Text = str | None


@dataclass(init=False)
class Readings:
    """Rows in the order they were added, arrays by name, and conventions that JSON can hold."""

    rows: list[Row]
    arrays: dict[str, Array]
    conventions: Conventions

    def __init__(
        self,
        rows: list[Row] | None = None,
        arrays: dict[str, Array] | None = None,
        conventions: Mapping[str, Any] | None = None,
    ) -> None:
        self.rows = [] if rows is None else rows
        self.arrays = {} if arrays is None else arrays
        self.conventions = Conventions.of(conventions or {})

    def __repr__(self) -> str:
        return f"Readings: {len(self.rows)} in rows, {len(self.arrays)} arrays"

    def __len__(self) -> int:
        return len(self.rows)

    def add(
        self,
        measure: str,
        value: SupportsFloat,
        *,
        place: HasPlace | str = "",
        index: SupportsIndex | None = None,
        total: SupportsIndex | None = None,
        data: str = "",
        split: str = "",
        step: SupportsIndex | None = None,
        low: SupportsFloat = NAN,
        high: SupportsFloat = NAN,
        n: SupportsIndex | None = None,
        note: str = "",
    ) -> None:
        """Add one reading; `place` is a `Place`, or a name with `index` and `total`. Line ends in texts become \\n."""
        name, index, total = (place, index, total) if isinstance(place, str) else (place.name, place.index, place.total)
        where = (_whole(step), _line(data), _line(split), _line(name), _whole(index), _whole(total))
        self.rows.append(Row(*where, _line(measure), float(value), float(low), float(high), _whole(n), _line(note)))

    @property
    def table(self) -> pandas.DataFrame:
        """All rows as a pandas table; whole-number columns with gaps are pandas' nullable Int64."""
        import pandas

        table = pandas.DataFrame([astuple(row) for row in self.rows], columns=list(COLUMNS))
        for name in WHOLE:
            table[name] = table[name].astype("Int64")
            if not table[name].isna().any():
                table[name] = table[name].astype("int64")
        return table.astype(dict.fromkeys(REAL, "float64"))

    def select(self, measure: Text = None, data: Text = None, split: Text = None, place: Text = None) -> Readings:
        """The rows that match all that is given; arrays and conventions stay."""
        wanted = {"measure": measure, "data": data, "split": split, "place": place}
        asked = {key: value for key, value in wanted.items() if value is not None}
        rows = [row for row in self.rows if all(getattr(row, key) == value for key, value in asked.items())]
        return Readings(rows, dict(self.arrays), self.conventions)

    def curve(self, measure: str, data: Text = None, split: Text = None, step: int | None = None) -> Array:
        """One measure over the places, in the order of their index.

        Left open, `data` is the first set that was read, `split` is "test" where there is one (else the first), and
        `step` is the last.
        """
        rows = [row for row in self.rows if row.measure == measure and row.index is not None]
        if not rows:
            known = sorted({row.measure for row in self.rows if row.index is not None})
            close = nearest(measure, known, 0.6) or known
            raise ReadingsError(f"no curve of {measure!r}; there are: {', '.join(close) or 'none'}")
        data = rows[0].data if data is None else data
        rows = _matching(rows, "data", data, measure)
        splits = [row.split for row in rows]
        split = ("test" if "test" in splits else splits[0]) if split is None else split
        rows = _matching(rows, "split", split, measure)
        steps = [row.step for row in rows if row.step is not None]
        if step is not None or steps:
            rows = _matching(rows, "step", max(steps) if step is None else step, measure)
        by_index = {row.index: row.value for row in rows}
        if len(by_index) < len(rows):
            raise ReadingsError(f"{measure} was read twice at one place for data {data!r}, split {split!r}")
        return np.array([by_index[index] for index in sorted(by_index, key=lambda i: i or 0)], dtype=np.float64)

    def extend(self, other: Readings) -> None:
        """Take in all of another: its rows after these; arrays and conventions of one name must agree, notes add up."""
        for name in self.arrays.keys() & other.arrays.keys():
            mine, theirs = self.arrays[name], other.arrays[name]
            if mine.dtype != theirs.dtype or mine.shape != theirs.shape or mine.tobytes() != theirs.tobytes():
                raise ReadingsError(f"the two readings hold different arrays named {name!r}")
        self.conventions = self.conventions.joined(other.conventions)
        self.rows.extend(other.rows)
        self.arrays.update(other.arrays)

    def declare(self, **said: Any) -> None:
        """Say conventions that are not said yet, such as `network=` and `data=`; notes add up."""
        self.conventions = self.conventions.joined(said)

    def merge(self, *others: Readings) -> Readings:
        """A new one that holds these readings and the others'."""
        whole = Readings(list(self.rows), dict(self.arrays), self.conventions)
        for other in others:
            whole.extend(other)
        return whole

    def save(self, folder: str | os.PathLike[str], beside: Mapping[str, bytes] | None = None) -> None:
        """Write a folder so that a reader, or a crash at any moment, finds the old readings or the new.

        `beside` are further files that belong to these readings, by name.
        """
        files.write(folder, self.rows, self.arrays, self.conventions, beside)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Readings:
        """Read a folder that `save` wrote, and check every byte of it."""
        return cls(*files.read(folder))


def _whole(number: SupportsIndex | None) -> int | None:
    return None if number is None else int(number)


def _line(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _matching(rows: list[Row], column: str, value: str | int, measure: str) -> list[Row]:
    """The rows with this value; where there is none, say which values there are."""
    found = [row for row in rows if getattr(row, column) == value]
    if not found:
        known = ", ".join(dict.fromkeys(str(getattr(row, column)) for row in rows))
        raise ReadingsError(f"{measure} was not read for {column} {value!r}; there is: {known}")
    return found
