"""Readings as a folder of three files; no other code knows this format.

`readings.csv` holds the rows, `arrays.npz` the arrays, `scan.json` the conventions, the SHA-256 of both, and a seal:
the SHA-256 of all that it says. A folder may come from elsewhere: its files are bounded and checked before use.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import math
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from winze.atomic import bounded_bytes, write_atomically
from winze.readings.conventions import Conventions
from winze.readings.rows import ReadingsError, Row, csv_bytes, rows_of

KIND, VERSION = "winze readings", 2
UNSEALED = 1
ROWS, ARRAYS, MANIFEST = "readings.csv", "arrays.npz", "scan.json"
MOST = {ROWS: 1 << 30, ARRAYS: 1 << 34, MANIFEST: 1 << 26}
"""Bytes beyond which a file is not read."""
PLAIN = "biufcSU"
"""Kinds of arrays that are stored: numbers, truth values and texts."""

Array = np.ndarray[Any, np.dtype[Any]]


def write(
    folder: str | os.PathLike[str],
    rows: Sequence[Row],
    arrays: Mapping[str, Array],
    conventions: Conventions,
    beside: Mapping[str, bytes] | None = None,
) -> None:
    """Write the three files so that a reader, or a crash at any moment, finds the old readings or the new.

    Rows and arrays are first written under names that carry their hash; replacing `scan.json` is the moment of
    change; then they get their plain names. `read` accepts a file under either name. `beside` are further files that
    belong to these readings. Of several writers one goes after the other.
    """
    path = Path(folder)
    bodies = {ROWS: csv_bytes(rows), ARRAYS: _npz_bytes(arrays), **(beside or {})}
    hashes = {name: hashlib.sha256(body).hexdigest() for name, body in bodies.items()}
    manifest = {"kind": KIND, "version": VERSION, "conventions": dict(conventions), "sha256": hashes}
    try:
        text = json.dumps(manifest | {"seal": _seal(manifest)}, indent=2, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise ReadingsError(f"conventions must be plain JSON values: {error}") from error
    conventions.check_lengths(path)
    if path.exists() and not path.is_dir():
        raise ReadingsError(f"{path} is a file; readings are saved as a folder")
    path.mkdir(parents=True, exist_ok=True)
    with _alone(path):
        for name, body in bodies.items():
            write_atomically(path / _pending(name, hashes[name]), body)
        write_atomically(path / MANIFEST, text.encode("utf-8"))
        for name in bodies:
            (path / _pending(name, hashes[name])).replace(path / name)
        for leftover in (stray for name in (*bodies, MANIFEST) for stray in path.glob(_pending(name, "*"))):
            leftover.unlink(missing_ok=True)


def read(folder: str | os.PathLike[str]) -> tuple[list[Row], dict[str, Array], Conventions]:
    """Read a folder that `write` wrote, and check every byte of it: rows, arrays, conventions."""
    path, before = Path(folder), None
    while (manifest := _manifest(path)) != before:  # a writer at work changes the manifest: then look again
        before, hashes = manifest, manifest["sha256"]
        rows, arrays = (_body(path, name, hashes[name]) for name in (ROWS, ARRAYS))
        if rows is not None and arrays is not None:
            said = Conventions.of(manifest["conventions"], path / MANIFEST)
            return rows_of(rows, path / ROWS), _arrays(arrays, path / ARRAYS), said
    bad = path / (ROWS if rows is None else ARRAYS)
    how = "was cut short or changed after it was saved" if bad.exists() else "is missing"
    raise ReadingsError(f"{bad} {how}: it does not match {MANIFEST}")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """While open, no other process writes readings into this folder."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _pending(name: str, digest: str) -> str:
    """What a file is called until `scan.json` speaks for it."""
    return f".{name}.{digest}"


def _seal(manifest: Mapping[str, Any]) -> str:
    """The hash of all that a manifest says, however its JSON is laid out."""
    said = {key: value for key, value in manifest.items() if key != "seal"}
    return hashlib.sha256(json.dumps(said, sort_keys=True, allow_nan=False).encode()).hexdigest()


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
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            entries = archive.infolist()
            unpacked = sum(entry.file_size for entry in entries)
            if unpacked > len(body):  # nothing is compressed, and no two entries share their bytes
                raise ReadingsError(
                    f"{path} has {len(body) / 1e6:.3g} MB and would unpack to {unpacked / 1e6:.3g} MB: winze did not "
                    "write it"
                )
            return {entry.filename.removesuffix(".npy"): _array(archive.read(entry)) for entry in entries}
    except ReadingsError:
        raise
    except Exception as error:  # readers of archives and headers raise anything on a damaged one
        raise ReadingsError(f"{path} holds more than plain arrays, or none: {error}") from error


def _array(body: bytes) -> Array:
    """One array of an archive; its header is believed only where it fits the bytes that follow."""
    file = io.BytesIO(body)
    version = np.lib.format.read_magic(file)
    header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, by_column, dtype = header(file)
    data = memoryview(body)[file.tell() :]
    if dtype.kind not in PLAIN or min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(data):
        raise ValueError(f"an array of {str(dtype)[:40]} of shape {str(shape)[:40]} in {len(data)} bytes")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if by_column else "C").copy(order="K")


def _manifest(folder: Path) -> dict[str, Any]:
    """`scan.json`, checked for kind, version, completeness and its seal."""
    path = folder / MANIFEST
    if not path.is_file():
        raise ReadingsError(f"{folder} is not a folder of readings: there is no {MANIFEST} in it")
    try:
        manifest = json.loads(bounded_bytes(path, MOST[MANIFEST]).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ReadingsError(f"{path} was cut short or is not JSON: {error}") from error
    if not isinstance(manifest, dict) or manifest.get("kind") != KIND:
        raise ReadingsError(f"{path} was not written by winze: it is not a {KIND}")
    version = manifest.get("version")
    if version not in (UNSEALED, VERSION):
        raise ReadingsError(f"{path} has format {version}; this winze reads format {VERSION}")
    hashes, conventions = manifest.get("sha256"), manifest.get("conventions")
    if not isinstance(hashes, dict) or not {ROWS, ARRAYS} <= hashes.keys() or not isinstance(conventions, dict):
        raise ReadingsError(f"{path} lacks the hashes or the conventions")
    if version == VERSION and manifest.get("seal") != _sealed(manifest):
        raise ReadingsError(f"{path} was changed after it was saved: it does not match its seal")
    Conventions.of(conventions, path).check_lengths(path)
    if version == UNSEALED:
        conventions["notes"] = [*conventions.get("notes", []), f"an older winze stored this: {MANIFEST} has no seal"]
    return manifest


def _sealed(manifest: Mapping[str, Any]) -> str | None:
    try:
        return _seal(manifest)
    except (ValueError, RecursionError):
        return None


def _body(folder: Path, name: str, digest: str) -> bytes | None:
    """The file with this hash, under its pending name or its plain one; in this order a rename cannot slip by."""
    for path in (folder / _pending(name, str(digest)), folder / name):
        try:
            body = bounded_bytes(path, MOST[name])
        except FileNotFoundError:
            continue
        if hashlib.sha256(body).hexdigest() == digest:
            return body
    return None
