"""What a scan's folder holds besides its readings: the network's weights, and how to build it again."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from winze.cli.errors import is_bad_input
from winze.files import check_target, sha256
from winze.readings import MANIFEST, ReadingsError

if TYPE_CHECKING:
    import torch

    import winze

WEIGHTS, PAGE = "weights.safetensors", "report.html"


def writable_folder(folder: Path) -> Path:
    """The folder itself, after making sure, before any work, that a scan may be written there."""
    if folder.exists() and not folder.is_dir():
        raise ReadingsError(f"{folder} is a file; a scan is saved as a folder")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MANIFEST).is_file():
        raise ReadingsError(f"{folder} holds other things and no scan; give --out a new folder")
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


def save(scan: winze.observe.Scan, folder: Path, net: torch.nn.Module | None, spec: Mapping[str, Any]) -> None:
    """Write the scan, its report and the weights; a new folder appears whole or not at all."""
    from winze.observe.files import pack

    fresh = not folder.exists()
    target = folder.absolute().with_name(f".{folder.name}.{os.getpid()}") if fresh else folder
    beside = {} if net is None else {WEIGHTS: pack(net, spec)}
    digests = [hashlib.sha256(body).hexdigest() for body in beside.values()]
    scan.readings.conventions |= {"spec": dict(spec), "kept": digests[0] if digests else None}
    try:
        scan.readings.save(target, beside)
        scan.report(target / PAGE)
        if net is None:
            (target / WEIGHTS).unlink(missing_ok=True)
        if fresh:
            target.replace(folder)
    finally:
        if fresh:
            shutil.rmtree(target, ignore_errors=True)


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
