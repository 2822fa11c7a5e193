"""Readings as a folder of three files; no other code knows this format.

`readings.csv` holds the rows, `arrays.npz` the arrays, `scan.json` the conventions and the SHA-256 of both.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from winze.files import write_atomically
from winze.readings.rows import ReadingsError, Row, csv_bytes, rows_of

KIND, VERSION = "winze readings", 1
ROWS, ARRAYS, MANIFEST = "readings.csv", "arrays.npz", "scan.json"

Array = np.ndarray[Any, np.dtype[Any]]


def write(
    folder: str | os.PathLike[str], rows: Sequence[Row], arrays: Mapping[str, Array], conventions: Mapping[str, Any]
) -> None:
    """Write the three files so that a reader, or a crash at any moment, finds the old readings or the new.

    Rows and arrays are first written under names that carry their hash; replacing `scan.json` is the moment of
    change; then they get their plain names. `read` accepts a file under either name.
    """
    path = Path(folder)
    bodies = {ROWS: csv_bytes(rows), ARRAYS: _npz_bytes(arrays)}
    hashes = {name: hashlib.sha256(body).hexdigest() for name, body in bodies.items()}
    manifest = {"kind": KIND, "version": VERSION, "conventions": conventions, "sha256": hashes}
    try:
        text = json.dumps(manifest, indent=2, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise ReadingsError(f"conventions must be plain JSON values: {error}") from error
    if path.exists() and not path.is_dir():
        raise ReadingsError(f"{path} is a file; readings are saved as a folder")
    path.mkdir(parents=True, exist_ok=True)
    for name, body in bodies.items():
        write_atomically(path / _pending(name, hashes[name]), body)
    write_atomically(path / MANIFEST, text.encode("utf-8"))
    for name in bodies:
        (path / _pending(name, hashes[name])).replace(path / name)
    for leftover in (stray for name in (*bodies, MANIFEST) for stray in path.glob(_pending(name, "*"))):
        leftover.unlink(missing_ok=True)


def read(folder: str | os.PathLike[str]) -> tuple[list[Row], dict[str, Array], dict[str, Any]]:
    """Read a folder that `write` wrote, and check every byte of it: rows, arrays, conventions."""
    path, before = Path(folder), None
    while (manifest := _manifest(path)) != before:  # a writer at work changes the manifest: then look again
        before, hashes = manifest, manifest["sha256"]
        rows, arrays = (_body(path, name, hashes[name]) for name in (ROWS, ARRAYS))
        if rows is not None and arrays is not None:
            return rows_of(rows, path / ROWS), _arrays(arrays, path / ARRAYS), manifest["conventions"]
    bad = path / (ROWS if rows is None else ARRAYS)
    how = "was cut short or changed after it was saved" if bad.exists() else "is missing"
    raise ReadingsError(f"{bad} {how}: it does not match {MANIFEST}")


def _pending(name: str, digest: str) -> str:
    """What a file is called until `scan.json` speaks for it."""
    return f".{name}.{digest}"


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
