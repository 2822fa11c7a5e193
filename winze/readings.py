"""What was read: tidy rows, arrays and conventions, saved and loaded as one folder.

`readings.csv` holds the rows, `arrays.npz` the arrays, `scan.json` the conventions and the SHA-256 of both.
No other code knows this format.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import os
import zipfile
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, SupportsFloat, SupportsIndex, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    import pandas

KIND, VERSION = "winze readings", 1
ROWS, ARRAYS, MANIFEST = "readings.csv", "arrays.npz", "scan.json"
NAN = float("nan")

Array = np.ndarray[Any, np.dtype[Any]]
Text = str | None


class ReadingsError(ValueError):
    """Readings that do not exist, contradict each other or cannot be loaded."""


@runtime_checkable
class Spot(Protocol):
    """Anything that says where in a network it is, such as a `Place`."""

    @property
    def name(self) -> str: ...
    @property
    def index(self) -> int: ...
    @property
    def total(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Row:
    """One reading. No step, place or count: None (empty in the file); no interval: NaN."""

    step: int | None
    data: str
    split: str
    place: str
    index: int | None
    total: int | None
    measure: str
    value: float
    low: float
    high: float
    n: int | None
    note: str


COLUMNS = tuple(column.name for column in fields(Row))
_WHOLE = ("step", "index", "total", "n")
_REAL = ("value", "low", "high")


@dataclass
class Readings:
    """Rows in the order they were added, arrays by name, and conventions that JSON can hold."""

    rows: list[Row] = field(default_factory=list)
    arrays: dict[str, Array] = field(default_factory=dict)
    conventions: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    def add(
        self,
        measure: str,
        value: SupportsFloat,
        *,
        place: Spot | str = "",
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
        for name in _WHOLE:
            table[name] = table[name].astype("Int64")
            if not table[name].isna().any():
                table[name] = table[name].astype("int64")
        return table.astype(dict.fromkeys(_REAL, "float64"))

    def select(self, measure: Text = None, data: Text = None, split: Text = None, place: Text = None) -> Readings:
        """The rows that match all that is given; arrays and conventions stay."""
        wanted = {"measure": measure, "data": data, "split": split, "place": place}
        asked = {key: value for key, value in wanted.items() if value is not None}
        rows = [row for row in self.rows if all(getattr(row, key) == value for key, value in asked.items())]
        return Readings(rows, dict(self.arrays), dict(self.conventions))

    def curve(self, measure: str, data: Text = None, split: Text = None, step: int | None = None) -> Array:
        """One measure over the places, in the order of their index.

        Left open, `data` is the first set that was read, `split` is "test" where there is one (else the first), and
        `step` is the last.
        """
        rows = [row for row in self.rows if row.measure == measure and row.index is not None]
        if not rows:
            known = sorted({row.measure for row in self.rows if row.index is not None})
            close = get_close_matches(measure, known, n=3) or known
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
        """Take in all of another: its rows after these; arrays and conventions of one name must agree."""
        for name in self.arrays.keys() & other.arrays.keys():
            mine, theirs = self.arrays[name], other.arrays[name]
            if mine.dtype != theirs.dtype or mine.shape != theirs.shape or mine.tobytes() != theirs.tobytes():
                raise ReadingsError(f"the two readings hold different arrays named {name!r}")
        for name in self.conventions.keys() & other.conventions.keys():
            if self.conventions[name] != other.conventions[name]:
                pair = f"{self.conventions[name]!r} and {other.conventions[name]!r}"
                raise ReadingsError(f"the two readings follow different conventions: {name} is {pair}")
        self.rows.extend(other.rows)
        self.arrays.update(other.arrays)
        self.conventions.update(other.conventions)

    def merge(self, *others: Readings) -> Readings:
        """A new one that holds these readings and the others'."""
        whole = Readings(list(self.rows), dict(self.arrays), dict(self.conventions))
        for other in others:
            whole.extend(other)
        return whole

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the three files so that a reader, or a crash at any moment, finds the old readings or the new.

        Rows and arrays are first written under names that carry their hash; replacing `scan.json` is the moment of
        change; then they get their plain names. `load` accepts a file under either name.
        """
        path = Path(folder)
        bodies = {ROWS: _csv_bytes(self.rows), ARRAYS: _npz_bytes(self.arrays)}
        hashes = {name: hashlib.sha256(body).hexdigest() for name, body in bodies.items()}
        manifest = {"kind": KIND, "version": VERSION, "conventions": self.conventions, "sha256": hashes}
        try:
            text = json.dumps(manifest, indent=2, allow_nan=False) + "\n"
        except (TypeError, ValueError) as error:
            raise ReadingsError(f"conventions must be plain JSON values: {error}") from error
        if path.exists() and not path.is_dir():
            raise ReadingsError(f"{path} is a file; readings are saved as a folder")
        path.mkdir(parents=True, exist_ok=True)
        for name, body in bodies.items():
            _write(path / _pending(name, hashes[name]), body)
        _write(path / MANIFEST, text.encode("utf-8"))
        for name in bodies:
            (path / _pending(name, hashes[name])).replace(path / name)
        for leftover in (stray for name in (*bodies, MANIFEST) for stray in path.glob(_pending(name, "*"))):
            leftover.unlink(missing_ok=True)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Readings:
        """Read a folder that `save` wrote, and check every byte of it."""
        path, before = Path(folder), None
        while (manifest := _manifest(path)) != before:  # a writer at work changes the manifest: then look again
            before, hashes = manifest, manifest["sha256"]
            rows, arrays = (_body(path, name, hashes[name]) for name in (ROWS, ARRAYS))
            if rows is not None and arrays is not None:
                return cls(_rows(rows, path / ROWS), _arrays(arrays, path / ARRAYS), manifest["conventions"])
        bad = path / (ROWS if rows is None else ARRAYS)
        how = "was cut short or changed after it was saved" if bad.exists() else "is missing"
        raise ReadingsError(f"{bad} {how}: it does not match {MANIFEST}")


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


def _pending(name: str, digest: str) -> str:
    """What a file is called until `scan.json` speaks for it."""
    return f".{name}.{digest}"


def _write(path: Path, body: bytes) -> None:
    """Write a file that appears whole or not at all, and is on the disk when this returns."""
    temporary = path.with_name(f".{path.name.lstrip('.')}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    if os.name == "posix":  # the rename itself must reach the disk too
        handle = os.open(path.parent, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)


def _csv_bytes(rows: list[Row]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        cells = zip(COLUMNS, astuple(row), strict=True)
        writer.writerow("" if key in ("low", "high") and math.isnan(cell) else cell for key, cell in cells)
    return text.getvalue().encode("utf-8")


def _rows(body: bytes, path: Path) -> list[Row]:
    lines = csv.reader(io.StringIO(body.decode("utf-8"), newline=""))
    if tuple(next(lines, ())) != COLUMNS:
        raise ReadingsError(f"{path} does not start with the columns {', '.join(COLUMNS)}")
    return [Row(*map(_cell, COLUMNS, line)) for line in lines]


def _cell(column: str, text: str) -> Any:
    if column in _WHOLE:
        return int(text) if text else None
    if column in _REAL:
        return float(text) if text else NAN
    return text


def _npz_bytes(arrays: Mapping[str, Array]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            try:
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, np.asanyarray(array), allow_pickle=False)
            except ValueError as error:
                raise ReadingsError(f"array {name!r} cannot be stored: {error}") from error
    return buffer.getvalue()


def _arrays(body: bytes, path: Path) -> dict[str, Array]:
    try:
        with np.load(io.BytesIO(body), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, zipfile.BadZipFile) as error:
        raise ReadingsError(f"{path} holds more than plain arrays, or none: {error}") from error


def _manifest(folder: Path) -> dict[str, Any]:
    """`scan.json`, checked for kind, version and completeness."""
    path = folder / MANIFEST
    if not path.is_file():
        raise ReadingsError(f"{folder} is not a folder of readings: there is no {MANIFEST} in it")
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ReadingsError(f"{path} was cut short or is no JSON: {error}") from error
    if not isinstance(manifest, dict) or manifest.get("kind") != KIND:
        raise ReadingsError(f"{path} was not written by winze: it is no {KIND}")
    if manifest.get("version") != VERSION:
        raise ReadingsError(f"{path} has format {manifest.get('version')}; this winze reads format {VERSION}")
    hashes, conventions = manifest.get("sha256"), manifest.get("conventions")
    if not isinstance(hashes, dict) or not {ROWS, ARRAYS} <= hashes.keys() or not isinstance(conventions, dict):
        raise ReadingsError(f"{path} lacks the hashes or the conventions")
    return manifest


def _body(folder: Path, name: str, digest: str) -> bytes | None:
    """The file with this hash, under its pending name or its plain one; in this order a rename cannot slip by."""
    for path in (folder / _pending(name, digest), folder / name):
        try:
            body = path.read_bytes()
        except FileNotFoundError:
            continue
        if hashlib.sha256(body).hexdigest() == digest:
            return body
    return None
