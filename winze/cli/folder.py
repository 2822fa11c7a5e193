"""What a scan's folder holds besides its readings: the network's weights, and how to build it again."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from winze.atomic import check_target, sha256
from winze.cli.exit_codes import is_bad_input
from winze.readings import MANIFEST, ReadingsError

if TYPE_CHECKING:
    import torch

    import winze

WEIGHTS, PAGE, LOCK = "weights.safetensors", "report.html", ".lock"


def writable_folder(folder: Path) -> Path:
    """The folder itself, after making sure, before any work, that a scan may be written there."""
    if folder.exists() and not folder.is_dir():
        raise ReadingsError(f"{folder} is a file; a scan is saved as a folder")
    holds = folder.is_dir() and any(not path.name.startswith(".") for path in folder.iterdir())
    if holds and not (folder / MANIFEST).is_file():
        raise ReadingsError(f"{folder} holds other files and no scan; give --out a new folder")
    _check_parent(folder)
    return folder


def writable_file(file: Path) -> Path:
    """The file itself, after making sure, before any work, that it may be written."""
    _check_parent(check_target(file))
    return file


def _check_parent(path: Path) -> None:
    parent = path.absolute().parent
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir():
        raise NotADirectoryError(f"{path} cannot be written: {parent} is not a folder")
    if not os.access(parent, os.W_OK):
        raise PermissionError(f"{path} cannot be written: {parent} is read-only")


@contextmanager
def stored(folder: object) -> Iterator[None]:
    """While open, a folder from elsewhere is used: what its readings break is an error of theirs, in one line."""
    try:
        yield
    except Exception as error:
        if is_bad_input(error) or os.environ.get("WINZE_TRACEBACK"):
            raise
        raise ReadingsError(
            f"{folder} holds readings that winze cannot use: {type(error).__name__}: {error}"
        ) from error


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """While open, no other process scans into this folder; what a killed one left, and an empty one, is removed."""
    fresh = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    handle = _locked(folder)
    try:
        _remove_old(folder)
        if (folder / MANIFEST).is_file():
            sys.stderr.write(f"winze: {folder} holds a scan, which will be replaced\n")
        yield
    finally:
        (folder / LOCK).unlink(missing_ok=True)
        os.close(handle)
        if fresh and not (folder / MANIFEST).is_file():
            shutil.rmtree(folder, ignore_errors=True)


def _locked(folder: Path) -> int:
    """The open lock of a folder; one that its last owner has just removed is no longer a lock."""
    path = folder / LOCK
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise ReadingsError(
                f"another process is scanning into {folder}: wait for it, or give another --out"
            ) from None
        if path.exists() and path.stat().st_ino == os.fstat(handle).st_ino:
            return handle
        os.close(handle)


def _remove_old(folder: Path) -> None:
    """Remove folders beside this one in which a killed process of an older winze was writing it."""
    for old in folder.absolute().parent.glob(f".{escape(folder.name)}.*"):
        process = old.suffix.removeprefix(".")
        if old.is_dir() and process.isdigit() and not Path("/proc", process).exists():
            shutil.rmtree(old, ignore_errors=True)


def save(
    scan: winze.observe.Scan,
    folder: Path,
    net: torch.nn.Module | None,
    spec: Mapping[str, Any],
    costs: Callable[[], None] | None = None,
) -> None:
    """Write the readings and the weights, then measure the `costs` and write those and the page.

    Whatever stops that, the readings are there.
    """
    from winze.observe.cut.network_file import pack

    beside = {} if net is None else {WEIGHTS: pack(net, spec)}
    digests = [hashlib.sha256(body).hexdigest() for body in beside.values()]
    scan.readings.declare(spec=dict(spec), kept=digests[0] if digests else None)
    scan.readings.save(folder, beside)
    (folder / PAGE).unlink(missing_ok=True)  # of the scan before
    if net is None:
        (folder / WEIGHTS).unlink(missing_ok=True)
    try:
        if costs is not None:
            costs()
            scan.readings.save(folder, beside)
        scan.report(folder / PAGE)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted; the readings are in {folder}, `winze report {folder}` writes their page"
        ) from None


def rebuilt(
    scan: winze.observe.Scan, folder: Path, spec: str | None = None, weights: Path | None = None, trust: bool = False
) -> torch.nn.Module:
    """The network that was scanned, from what the folder says of it; `spec` and `weights` override that.

    A `file.py:function` that the folder names is run with `trust` only.
    """
    from winze.networks import NetworkError, build, build_stored, load_weights

    told = scan.readings.conventions
    if "spec" not in told and (spec is None or weights is None):
        raise NetworkError(f"{folder} does not say how its network is built: give --net and --weights")
    file = weights or folder / WEIGHTS
    if weights is None and not file.is_file():
        raise NetworkError(f"{file} is missing: the scan kept no weights, give --weights")
    if weights is None and told.get("kept") != sha256(file):
        raise NetworkError(f"{file} was cut short or changed after the scan; give --weights to use other ones")
    net = build_stored(told["spec"], folder / MANIFEST, trust=trust) if spec is None else build(spec)
    return load_weights(net, file).eval()
