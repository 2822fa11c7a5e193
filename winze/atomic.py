"""The one way onto the disk: a file appears whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

Content = bytes | Callable[[IO[bytes]], Any]
FULL = (errno.ENOSPC, errno.EDQUOT)
LONGEST = 230
TEMPORARY = re.compile(r"\..+\.\d+")


class StoreError(OSError):
    """Something that could not be stored, or is not what was stored."""


def write_atomically(path: Path, content: Content) -> None:
    """Write a file that is on the disk when this returns; a crash at any moment leaves the old one or the new.

    `content` is bytes, or a function that writes into the open file it is given.
    """
    check_target(path)
    temporary = path.with_name(f".{shortened(path.name.lstrip('.'))}.{os.getpid()}")
    with told_when_full(path):
        try:
            temporary.unlink(missing_ok=True)  # a link there, in a folder from elsewhere, is not followed
            with temporary.open("xb") as file:
                _fill(file, content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        if os.name == "posix":  # the rename itself must reach the disk too
            handle = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


def shortened(name: str) -> str:
    """A name with room for an addition: disks take 255 bytes."""
    return os.fsencode(name)[:LONGEST].decode(errors="ignore")


def check_target(path: Path) -> Path:
    """The path itself, where a file may be written; devices, pipes and folders are refused, not replaced."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, not a file")
    if path.exists() and not path.is_file():
        raise StoreError(f"{path} is a device or a pipe, which a file would replace; give another name")
    return path


@contextmanager
def told_when_full(path: Path) -> Iterator[None]:
    """Say in plain words that a disk is full, or a quota spent."""
    try:
        yield
    except OSError as error:
        if isinstance(error, StoreError) or error.errno not in FULL:
            raise
        home = next(parent for parent in path.absolute().parents if parent.exists())
        free = shutil.disk_usage(home).free / 2**20
        raise StoreError(
            f"the disk is full or a quota is spent ({free:.0f} MiB free): {path} could not be written. What was stored "
            "before is whole: make room, and the same command continues from there"
        ) from error


def remove_leftovers(folder: Path) -> None:
    """Remove half-written files of a killed process; only the one process that writes this folder may call it."""
    for path in folder.iterdir():
        if TEMPORARY.fullmatch(path.name) and path.is_file():
            path.unlink(missing_ok=True)


def bounded_bytes(path: Path, most: int) -> bytes:
    """The bytes of a file from elsewhere, which must be a file, no device or pipe, and hold at most so many."""
    told = path.stat()
    if not stat.S_ISREG(told.st_mode):
        raise StoreError(f"{path} is not a file")
    if told.st_size > most:
        raise StoreError(f"{path} has {told.st_size / 1e9:.3g} GB, more than such files hold: it is not read")
    return path.read_bytes()


def sha256(path: Path) -> str:
    """The hash of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fill(file: IO[bytes], content: Content) -> None:
    if isinstance(content, bytes):
        file.write(content)
    else:
        content(file)
