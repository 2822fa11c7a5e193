"""One reading a row, and rows as the text of a CSV file."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

NAN = float("nan")


class ReadingsError(ValueError):
    """Readings that do not exist, contradict each other or cannot be loaded."""


@runtime_checkable
class HasPlace(Protocol):
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
WHOLE = ("step", "index", "total", "n")
REAL = ("value", "low", "high")
MOST_PLACES = 1_000_000


def csv_bytes(rows: Sequence[Row]) -> bytes:
    """Write rows as a file; no interval is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        cells = zip(COLUMNS, astuple(row), strict=True)
        writer.writerow("" if key in ("low", "high") and math.isnan(cell) else cell for key, cell in cells)
    return text.getvalue().encode("utf-8")


def rows_of(body: bytes, path: Path) -> list[Row]:
    """Read what `csv_bytes` wrote."""
    try:
        lines = csv.reader(io.StringIO(body.decode("utf-8"), newline=""), strict=True)
        if tuple(next(lines, ())) != COLUMNS:
            raise ReadingsError(f"{path} does not start with the columns {', '.join(COLUMNS)}")
        return [_row(line, path, lines.line_num) for line in lines]
    except (csv.Error, UnicodeDecodeError) as error:
        raise ReadingsError(f"{path} is not a table of readings: {error}") from error


def _row(cells: list[str], path: Path, line: int) -> Row:
    if len(cells) != len(COLUMNS):
        raise ReadingsError(f"{path}, line {line}: {len(cells)} cells instead of {len(COLUMNS)}")
    try:
        row = Row(*map(_cell, COLUMNS, cells))
    except ValueError as error:
        raise ReadingsError(f"{path}, line {line}: {error}") from error
    if row.index is not None and not 0 <= row.index < MOST_PLACES:
        raise ReadingsError(f"{path}, line {line}: no place has the number {row.index}")
    return row


def _cell(column: str, text: str) -> Any:
    if column in WHOLE:
        number = int(text) if text else None
        if number is not None and abs(number) >= 1 << 63:
            raise ValueError(f"{column} is too large: {text[:20]}")
        return number
    if column in REAL:
        return float(text) if text else NAN
    return text
