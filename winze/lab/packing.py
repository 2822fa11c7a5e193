"""Readings as compact JSON: the rows of one curve as one list, arrays as compressed bytes.

Of a row's interval nothing is kept: the value and its number of samples say it. Curves of several networks of one run
that differ in values alone share what is told of them.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from winze.lab.members import MARK
from winze.readings import Array, Readings, Row

CONVENTIONS = ("data", "ood", "network", "pool", "probe", "samples", "layers", "layer_count", "not_run", "notes")
GROUP = ("measure", "data", "split", "step", "n")  # what the rows of one curve share
ROUNDING = 1e-6  # apart, relative and absolute, that readings of one run on two numbers of threads may be
MOST = 1 << 30  # bytes of one array
EVERYTHING = "*"  # measures; arrays are kept where they are named


def packed(readings: Readings, measures: Iterable[str] = (EVERYTHING,)) -> dict[str, Any]:
    """The rows of these measures, the arrays of these names (both globs), and the conventions they rest on."""
    globs = list(measures)
    rows = [row for row in readings.rows if _matches(row.measure, globs)]
    named = [glob for glob in globs if glob != EVERYTHING]
    spots = list(dict.fromkeys((row.place, row.index, row.total) for row in rows))
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(getattr(row, name) for name in GROUP), []).append(row)
    made = {
        "conventions": {name: readings.conventions[name] for name in CONVENTIONS if name in readings.conventions},
        "places": [list(spot) for spot in spots],
        "rows": _merged([dict(zip(GROUP, key, strict=True)) | _curve(group, spots) for key, group in groups.items()]),
        "arrays": {name: _bytes(array) for name, array in readings.arrays.items() if _matches(name, named)},
    }
    return json.loads(json.dumps(made, allow_nan=False))


def unpacked(told: dict[str, Any]) -> Readings:
    """Readings again from what `packed` made of them; intervals are NaN."""
    readings = Readings(conventions=dict(told["conventions"]))
    spots = told["places"]
    for group in (one for several in told["rows"] for one in _single(several)):
        shared = {name: group[name] for name in GROUP}
        for spot, value in zip(group["at"], group["values"], strict=True):
            place, index, total = spots[spot]
            note = group.get("notes", {}).get(str(spot), "")
            where = {"place": place, "index": index, "total": total}
            readings.rows.append(Row(**shared, **where, value=_float(value), low=math.nan, high=math.nan, note=note))
    readings.arrays = {name: _array(array) for name, array in told["arrays"].items()}
    return readings


def first_difference(kept: dict[str, Any], new: dict[str, Any]) -> str:
    """Where two packed readings differ first, in words; empty where they agree to rounding."""
    old, young = unpacked(kept), unpacked(new)
    old_rows, new_rows = ({_row_key(row): row for row in one.rows} for one in (old, young))
    for key in dict.fromkeys([*old_rows, *new_rows]):
        one, other = ([rows[key].value] if key in rows else [] for rows in (old_rows, new_rows))
        if len(one) != len(other) or not _close(np.array(one), np.array(other)):
            said = " ".join(str(part) for part in key if part not in (None, ""))
            return f"{said}: {repr(*one) if one else 'nothing'} is kept, {repr(*other) if other else 'nothing'} is new"
    names = dict.fromkeys([*old.arrays, *young.arrays])
    apart = sorted(name for name in names if not _agree(old.arrays.get(name), young.arrays.get(name)))
    if apart:
        return f"arrays {', '.join(apart)}"
    told = old.conventions.keys() | young.conventions.keys()
    apart = sorted(name for name in told if old.conventions.get(name) != young.conventions.get(name))
    return f"conventions {', '.join(apart)}" if apart else ""


def _agree(one: Array | None, other: Array | None) -> bool:
    if one is None or other is None or one.shape != other.shape or one.dtype != other.dtype:
        return False
    return _close(one, other) if one.dtype.kind in "fc" else np.array_equal(one, other)


def _close(one: Array, other: Array) -> bool:
    return np.allclose(one, other, rtol=ROUNDING, atol=ROUNDING, equal_nan=True)


def _row_key(row: Row) -> tuple[object, ...]:
    return row.measure, row.data, row.split, row.step, row.place


def _matches(name: str, globs: list[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


def _curve(group: list[Row], spots: list[tuple[Any, ...]]) -> dict[str, Any]:
    at = [spots.index((row.place, row.index, row.total)) for row in group]
    notes = {str(spot): row.note for spot, row in zip(at, group, strict=True) if row.note}
    return {"at": at, "values": [_number(row.value) for row in group]} | ({"notes": notes} if notes else {})


def _merged(curves: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The curves of several networks of a run as one, with a list of values for each of its `members`."""
    found: dict[str, dict[str, Any]] = {}
    for curve in curves:
        mark = MARK.fullmatch(curve["split"])
        shared = {name: part for name, part in curve.items() if name != "values"}
        if mark is None:
            found[json.dumps(shared)] = curve
            continue
        shared |= {"split": mark[1], "members": [], "values": []}
        one = found.setdefault(json.dumps(shared), shared)
        one["members"].append(int(mark[2]))
        one["values"].append(curve["values"])
    return list(found.values())


def _single(curve: dict[str, Any]) -> list[dict[str, Any]]:
    """The curves that `_merged` put together."""
    if "members" not in curve:
        return [curve]
    own = zip(curve["members"], curve["values"], strict=True)
    return [curve | {"split": f"{curve['split']}#{number}", "values": values} for number, values in own]


def _number(value: float) -> float | int | str:
    if not math.isfinite(value):
        return str(value)
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _float(value: float | str) -> float:
    return float(value)


def _bytes(array: Array) -> dict[str, Any]:
    # neighbouring places are right on nearly the same samples: where they differ compresses better
    body = np.packbits(np.diff(array, axis=0, prepend=False)) if array.dtype.kind == "b" and array.ndim == 2 else array
    text = base64.b64encode(zlib.compress(np.ascontiguousarray(body).tobytes(), 9)).decode("ascii")
    return {"dtype": array.dtype.str, "shape": list(array.shape), "data": text}


def _array(told: dict[str, Any]) -> Array:
    shape, dtype = tuple(told["shape"]), np.dtype(told["dtype"])
    size = math.prod(shape) * dtype.itemsize
    if not 0 <= size <= MOST:
        raise ValueError(f"an array of shape {shape} is larger than {MOST >> 20} MiB")
    body = zlib.decompressobj().decompress(base64.b64decode(told["data"]), size + 1)  # no more than it says
    if dtype.kind == "b" and len(shape) == 2:
        bits = np.unpackbits(np.frombuffer(body, np.uint8), count=math.prod(shape)).reshape(shape)
        return np.logical_xor.accumulate(bits.astype(bool), axis=0)
    return np.frombuffer(body, dtype).reshape(shape).copy()
