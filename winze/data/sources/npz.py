"""NumPy files: one array, or an archive of train and test arrays."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from winze.data.data_error import CorruptDataError, DataError, reading
from winze.data.select import few
from winze.data.sources.source import Part, Source, SplitLabels, held
from winze.memory import available, enough_memory

Array = np.ndarray[Any, np.dtype[Any]]


def read_npy(path: Path, axes: int) -> Array:
    """One whole-number array of so many axes; pickles are refused."""
    with reading(path, "a NumPy array"), path.open("rb") as file:
        array: Array = np.load(file, allow_pickle=False)
    if not isinstance(array, np.ndarray) or array.ndim != axes or array.dtype.kind not in "iu":
        raise CorruptDataError(f"{path} does not hold whole numbers along {axes} axes")
    return array


def npz_source(name: str, path: Path) -> Source:
    """An archive with x_train y_train x_test y_test, or x y; optionally the class names as `classes`.

    Images are uint8 [n, h, w], [n, h, w, c] or [n, c, h, w] with c of 1 or 3; points are floats [n, feature].
    """
    room = enough_memory(str(path), "store fewer or smaller samples")
    with reading(path, "an npz archive"), room, path.open("rb") as file:
        if zipfile.is_zipfile(file):
            _check_sizes(path)
        file.seek(0)
        loaded = np.load(file, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            raise CorruptDataError(f"{path} is a single array, not an npz archive")
        with loaded as archive:
            arrays: dict[str, Array] = {key: archive[key] for key in archive.files}
    if {"x_train", "y_train", "x_test", "y_test"} <= arrays.keys():
        splits = ["_train", "_test"]
    elif {"x", "y"} <= arrays.keys():
        splits = [""]
    else:
        have = ", ".join(sorted(arrays)) or "nothing"
        raise DataError(f"{path} needs x_train y_train x_test y_test, or x y; it has {have}")
    labels = {split: _labels(arrays[f"y{split}"], f"{path}, y{split}") for split in splits}
    names, labels, notes = _classes(arrays.get("classes"), labels)
    parts = [held(_samples(arrays[f"x{s}"], f"{path}, x{s}"), labels[s], f"{path}, x{s} and y{s}") for s in splits]
    test: Part | None = parts[1] if len(parts) == 2 else None
    return Source(name, names, parts[0], test, str(path), notes)


def _check_sizes(path: Path) -> None:
    """Raise, before reading, where an archive would not fit in memory or an array differs from its stated size."""
    room = available(torch.device("cpu"))
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        unpacked = sum(entry.file_size for entry in entries)
        if room is not None and unpacked > room:
            raise DataError(f"{path} would unpack to {unpacked / 1e9:.3g} GB, and {room / 1e9:.3g} GB are free")
        for entry in entries:
            with archive.open(entry) as file:
                header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(
                    np.lib.format.read_magic(file)
                )
                shape, _, kind = header(file) if header is not None else ((), False, np.dtype("u1"))
            if not kind.hasobject and math.prod(shape) * kind.itemsize > entry.file_size:
                raise CorruptDataError(
                    f"{path}: {entry.filename} claims {list(shape)} of {kind}, more than its {entry.file_size} bytes"
                )


def _classes(
    given: Array | None, labels: dict[str, SplitLabels]
) -> tuple[tuple[str, ...], dict[str, SplitLabels], tuple[str, ...]]:
    """Class names, labels and notes; without given names the labels that occur name themselves, numbered from 0."""
    if given is not None:
        return tuple(str(name) for name in given.tolist()), labels, ()
    seen = np.unique(np.concatenate(list(labels.values())))
    names = tuple(str(label) for label in seen.tolist())
    if np.array_equal(seen, np.arange(len(seen))):
        return names, labels, ()
    note = (
        f"labels that are not 0 to {len(seen) - 1} are numbered anew: {few(names, list(range(len(names))))}; the "
        "network's own accuracy counts only where its outputs are in this order"
    )
    return names, {split: np.searchsorted(seen, values).astype(np.int64) for split, values in labels.items()}, (note,)


def _labels(array: Array, what: str) -> SplitLabels:
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise DataError(f"{what}: labels are whole numbers [n], not {array.dtype} {list(array.shape)}")
    labels = array.astype(np.int64)
    negative = np.flatnonzero(labels < 0)
    if len(negative):
        raise DataError(f"{what}: labels start at 0, sample {negative[0]} has {array[negative[0]]}")
    return labels


def _samples(array: Array, what: str) -> Tensor:
    """Images channel first, or points."""
    if array.ndim == 2 and array.dtype.kind == "f":
        if not np.isfinite(array).all():
            raise DataError(f"{what}: {int((~np.isfinite(array)).sum())} values are NaN or infinite")
        return torch.from_numpy(array.astype(np.float32))
    if array.dtype != np.uint8:
        raise DataError(f"{what}: images are uint8 (0-255), points float [n, feature]; not {array.dtype}")
    if array.ndim == 3:
        return torch.from_numpy(array[:, None].copy())
    first, last = (array.ndim == 4 and array.shape[axis] in (1, 3) for axis in (1, 3))
    if first == last:
        why = "could be channel first or last" if first else "is not [n, h, w], [n, h, w, 1 or 3] or [n, 1 or 3, h, w]"
        raise DataError(f"{what}: the shape {list(array.shape)} {why}")
    return torch.from_numpy(np.ascontiguousarray(array if first else array.transpose(0, 3, 1, 2)))
