"""Readings as compact JSON: the rows of one curve as one list, arrays as compressed bytes.

Intervals are not stored: they follow from the value and its number of samples. A run of an ensemble stores one curve
with a list of values per seed (`members`); names of its arrays end in `#` and the seed's index.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from winze.lab.runs.job import plain
from winze.readings import Array, Readings, Row

CONVENTIONS = ("data", "ood", "network", "pool", "probe", "samples", "layers", "layer_count", "not_run", "notes")
GROUP = ("measure", "data", "split", "step", "n")  # the fields that the rows of one curve share
READ = ("conventions", "places", "rows", "arrays")
ROUNDING = 1e-6  # relative and absolute difference between readings of one run with different numbers of threads
MOST = 1 << 30  # bytes of one array
EVERYTHING = "*"  # measures; arrays are stored only if named


def packed(read: Mapping[int, Readings], seed: int, measures: Iterable[str] = (EVERYTHING,)) -> dict[str, Any]:
    """The rows of these measures, the arrays of these names (both globs), and their conventions. `read` has the
    readings by seed: the run's own seed, or those of an ensemble.
    """
    globs, members = list(measures), read.keys() != {seed}
    named = [glob for glob in globs if glob != EVERYTHING]
    spots: dict[tuple[Any, ...], int] = {}
    curves: dict[str, dict[str, Any]] = {}
    for number, one in read.items():
        groups: dict[tuple[Any, ...], list[Row]] = {}
        for row in one.rows:
            if any(fnmatchcase(row.measure, glob) for glob in globs):
                spots.setdefault((row.place, row.index, row.total), len(spots))
                groups.setdefault(tuple(getattr(row, name) for name in GROUP), []).append(row)
        for key, group in groups.items():
            shared = dict(zip(GROUP, key, strict=True)) | _places(group, spots)
            curve = curves.setdefault(json.dumps(shared), shared | {"members": [], "values": []})
            curve["members"].append(number)
            curve["values"].append([plain(float(row.value)) for row in group])
    for curve in () if members else curves.values():
        del curve["members"]
        (curve["values"],) = curve["values"]
    told = next(iter(read.values())).conventions
    made = {
        "conventions": {name: told[name] for name in CONVENTIONS if name in told},
        "places": [list(spot) for spot in spots],
        "rows": list(curves.values()),
        "arrays": {
            f"{name}#{number}" if members else name: _bytes(array)
            for number, one in read.items()
            for name, array in one.arrays.items()
            if any(fnmatchcase(name, glob) for glob in named)
        },
    }
    packed_once: dict[str, Any] = json.loads(json.dumps(made, allow_nan=False))
    return packed_once


def unpacked(told: Mapping[str, Any], seed: int = 0) -> dict[int, Readings]:
    """The readings by seed from the result of `packed`; intervals are NaN."""
    spots = told["places"]
    members = {number: None for curve in told["rows"] for number in curve.get("members", ())}
    read = {number: Readings(conventions=told["conventions"]) for number in members or (seed,)}
    for curve in told["rows"]:
        shared = {name: curve[name] for name in GROUP}
        numbers, several = (curve["members"], curve["values"]) if members else ([seed], [curve["values"]])
        for number, values in zip(numbers, several, strict=True):
            for spot, value in zip(curve["at"], values, strict=True):
                where = dict(zip(("place", "index", "total"), spots[spot], strict=True))
                note = curve.get("notes", {}).get(str(spot), "")
                row = Row(**shared, **where, value=float(value), low=math.nan, high=math.nan, note=note)
                read[number].rows.append(row)
    for name, array in told["arrays"].items():
        own, _, number = name.rpartition("#") if members else (name, "", seed)
        read[int(number)].arrays[own] = _array(array)
    return read


def first_difference(kept: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """The first difference between two packed readings, in words; empty where they agree up to rounding."""
    old, young = unpacked(kept), unpacked(new)
    old_rows, new_rows = (
        {_row_key(seed, row): row for seed, one in read.items() for row in one.rows} for read in (old, young)
    )
    for key in dict.fromkeys([*old_rows, *new_rows]):
        one, other = ([rows[key].value] if key in rows else [] for rows in (old_rows, new_rows))
        if len(one) != len(other) or not _close(np.array(one), np.array(other)):
            said = " ".join(str(part) for part in key[1:] if part not in (None, ""))
            return f"{said}: {repr(*one) if one else 'nothing'} is kept, {repr(*other) if other else 'nothing'} is new"
    arrays = [
        {(name, seed): one.arrays[name] for seed, one in read.items() for name in one.arrays} for read in (old, young)
    ]
    apart = {name for name, seed in {*arrays[0], *arrays[1]} if not _agree(*(one.get((name, seed)) for one in arrays))}
    if apart:
        return f"arrays {', '.join(sorted(apart))}"
    first, second = (kept["conventions"], new["conventions"])
    apart = {name for name in {*first, *second} if first.get(name) != second.get(name)}
    return f"conventions {', '.join(sorted(apart))}" if apart else ""


def _agree(one: Array | None, other: Array | None) -> bool:
    if one is None or other is None or one.shape != other.shape or one.dtype != other.dtype:
        return False
    return _close(one, other) if one.dtype.kind in "fc" else np.array_equal(one, other)


def _close(one: Array, other: Array) -> bool:
    return np.allclose(one, other, rtol=ROUNDING, atol=ROUNDING, equal_nan=True)


def _row_key(seed: int, row: Row) -> tuple[object, ...]:
    return seed, row.measure, row.data, row.split, row.step, row.place


def _places(group: list[Row], spots: Mapping[tuple[Any, ...], int]) -> dict[str, Any]:
    at = [spots[row.place, row.index, row.total] for row in group]
    notes = {str(spot): row.note for spot, row in zip(at, group, strict=True) if row.note}
    return {"at": at} | ({"notes": notes} if notes else {})


def _bytes(array: Array) -> dict[str, Any]:
    # neighbouring places classify nearly the same samples correctly: differences compress better
    body = np.packbits(np.diff(array, axis=0, prepend=False)) if array.dtype.kind == "b" and array.ndim == 2 else array
    text = base64.b64encode(zlib.compress(np.ascontiguousarray(body).tobytes(), 9)).decode("ascii")
    return {"dtype": array.dtype.str, "shape": list(array.shape), "data": text}


def _array(told: dict[str, Any]) -> Array:
    shape, dtype = tuple(told["shape"]), np.dtype(told["dtype"])
    size = math.prod(shape) * dtype.itemsize
    if not 0 <= size <= MOST:
        raise ValueError(f"an array of shape {shape} is larger than {MOST >> 20} MiB")
    body = zlib.decompressobj().decompress(base64.b64decode(told["data"]), size + 1)  # no more than its declared size
    if dtype.kind == "b" and len(shape) == 2:
        bits = np.unpackbits(np.frombuffer(body, np.uint8), count=math.prod(shape)).reshape(shape)
        return np.logical_xor.accumulate(bits.astype(bool), axis=0)
    return np.frombuffer(body, dtype).reshape(shape).copy()
