"""Runs on disk: one folder per run, named by the job's key and written by at most one process."""

from __future__ import annotations

import fcntl
import json
import math
import os
import re
import shutil
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Literal

from winze.atomic import StoreError, bounded_bytes, remove_leftovers, sha256, write_atomically
from winze.lab.runs.job import FORMAT, Job, digest, key_of, plain
from winze.readings import Point, Readings
from winze.train.fields import fits

KIND = "winze run"
RUN, METRICS, LOCKS, WEIGHTS = "run.json", "metrics.jsonl", ".locks", ".safetensors"
KEY = re.compile(r"[0-9a-f]{16}")
ASIDE, MEMBER = ".aside", "seed-"
FILE = re.compile(rf"({MEMBER}\d+/)?[^/\\]+")  # of a run, in its own folder or in that of a seed of its ensemble
MOST, LARGEST = 1 << 26, 1 << 35  # bytes of a `run.json`, and of the largest file of a run
PATIENCE = 0.5  # seconds; a process that only checks a lock holds it for a moment
FIELDS: dict[Any, str] = {
    str: "recipe scale key status started device source launch",
    str | None: "commit error",
    int: "seed threads resumed",
    int | float: "seconds",
    list: "notes",
    dict: "point versions flags sha256",
}
"""the type of each optional field of `run.json`"""

Status = Literal["done", "failed", "running", "unfinished", "unreadable"]


class BusyError(StoreError):
    """A run that another process is writing."""


JOB = ("kind", "version", "recipe", "scale", "point", "seed", "key", "config")
"""the fields of `run.json` that describe the job"""


@dataclass
class Run:
    """A run that this process may write: its folder, and the fields of its `run.json`."""

    folder: Path
    told: dict[str, Any]

    def tell(self, **facts: Any) -> None:
        """Add fields to `run.json`."""
        self.told |= facts
        write_atomically(self.folder / RUN, sealed(self.told))

    def set_aside(self) -> Path:
        """Move the run to `.aside`, and continue with an empty folder and only the job's fields."""
        aside = self.folder.parent / ASIDE
        aside.mkdir(exist_ok=True)
        number = next(n for n in count(1) if not (aside / f"{self.folder.name}-{n}").exists())
        target = aside / f"{self.folder.name}-{number}"
        self.folder.rename(target)
        self.folder.mkdir()
        self.told = {name: self.told[name] for name in JOB} | {"status": "new"}
        return target


@dataclass(frozen=True)
class Facts:
    """The facts of a run without its lock; `error` is why it failed or cannot be read."""

    folder: Path
    key: str
    status: Status
    recipe: str = "?"
    scale: str = "?"
    point: Point = field(default_factory=Point)
    seed: int | None = None
    seconds: float | None = None
    started: str = "?"
    error: str | None = None
    commit: str | None = None
    note: str = ""


class Runs:
    """A folder of runs.

    `root/<key>/` holds one run, `root/.locks/<key>` its lock, which the system releases when its holder dies.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)

    def folder(self, job: Job) -> Path:
        """The folder of a job's run."""
        return self.root / job.key

    @contextmanager
    def open(self, job: Job) -> Iterator[Run]:
        """The run of a job, locked for this process: a new one, or the unfinished one."""
        folder = self.folder(job)
        with self._locked(job.key):
            folder.mkdir(parents=True, exist_ok=True)
            told = read(folder)
            if told is None:
                about = (KIND, FORMAT, job.recipe, job.scale, dict(job.point), job.seed, job.key, plain(job.config))
                told = dict(zip(JOB, about, strict=True)) | {"status": "new"}
            elif told.get("config") != plain(job.config) or told.get("seed") != job.seed:
                raise StoreError(f"{folder / RUN} describes a job other than {job}: it was changed; remove the folder")
            remove_leftovers(folder)
            yield Run(folder, told)

    def is_done(self, job: Job) -> bool:
        """Whether a job's run is finished; a folder of another format raises."""
        told = read(self.folder(job))
        return told is not None and told.get("status") == "done"

    def all(self) -> list[Facts]:
        """Every run, the newest last, including unreadable ones."""
        return sorted(map(self._facts, self._folders()), key=lambda facts: (facts.started, facts.key))

    def find(self, start: str) -> Facts:
        """The one run whose key has this prefix."""
        matches = [folder for folder in self._folders() if folder.name.startswith(start)]
        if len(matches) == 1:
            return self._facts(matches[0])
        if not matches:
            raise StoreError(f"there is no run {start!r} in {self.root}; `winze runs` lists them")
        raise StoreError(
            f"{start!r} may be {' or '.join(folder.name for folder in matches)}: give more characters of the key"
        )

    def remove(self, key: str) -> None:
        """Remove a run that no process is writing, completely or not at all."""
        with self._locked(key):
            doomed = self.root / f".{key}.removed"
            shutil.rmtree(doomed, ignore_errors=True)
            (self.root / key).rename(doomed)
            shutil.rmtree(doomed)

    def is_busy(self, key: str) -> bool:
        """Whether a process is writing the run."""
        try:
            handle = os.open(self.root / LOCKS / key, os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            return not _took(handle, fcntl.LOCK_SH)
        finally:
            os.close(handle)

    def _folders(self) -> list[Path]:
        if not self.root.is_dir():
            return []
        return [path for path in self.root.iterdir() if KEY.fullmatch(path.name) and path.is_dir()]

    def _facts(self, folder: Path) -> Facts:
        try:
            told = read(folder) or {}  # missing where a run was killed before its first write
        except StoreError as error:
            return Facts(folder, folder.name, "unreadable", error=str(error))
        status: Status = "running" if self.is_busy(folder.name) else "unfinished"
        if told.get("status") in ("done", "failed"):
            status = told["status"]
        names = ("recipe", "scale", "seed", "seconds", "started", "error", "commit")
        found = {name: told[name] for name in names if name in told} | {"point": Point(told.get("point", {}))}
        return Facts(folder, folder.name, status, **found, note="; ".join(map(str, told.get("notes", []))))

    def _locked(self, key: str) -> AbstractContextManager[None]:
        return locked(self.root / LOCKS / key, self.root / key, PATIENCE)


@contextmanager
def locked(path: Path, what: Path, seconds: float = math.inf) -> Iterator[None]:
    """Lock a file or folder for this process; raise if another holds it for `seconds`. The lock of a dead process is
    released. `what` names the locked thing in the error.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    folder, give_up = path.is_dir(), time.monotonic() + seconds
    handle = os.open(path, os.O_RDONLY if folder else os.O_RDWR | os.O_CREAT, 0o644)
    try:
        while not _took(handle):
            if time.monotonic() > give_up:
                who = "" if folder else os.pread(handle, 200, 0).decode(errors="replace")
                raise BusyError(f"{what} is being written by {who or 'another process'}")
            time.sleep(0.025)
        if not folder:
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        yield
    finally:
        os.close(handle)


def _took(handle: int, how: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def read(folder: Path) -> dict[str, Any] | None:
    """The fields of `run.json`; None where there is none."""
    path = folder / RUN
    try:
        told = json.loads(bounded_bytes(path, MOST))
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path} was cut short or is not JSON ({error}); remove {folder}") from error
    if not isinstance(told, dict) or told.get("kind") != KIND:
        raise StoreError(f"{path} was not written by winze: its kind is not {KIND!r}")
    version = told.get("version")
    if version != FORMAT:
        newer = isinstance(version, int) and version > FORMAT
        what = "update winze to read it" if newer else "read it with winze 0.1, which wrote it, or remove it"
        raise StoreError(f"{folder} is a run of format {version} and this winze reads format {FORMAT}: {what}")
    wrong = wrong_field(told)
    if wrong is not None:
        raise StoreError(f"{path} was changed: {wrong} is {told[wrong]!r}; remove {folder}")
    seal = told.pop("seal", None)
    if seal != digest(told) and (seal is not None or "source" in told):  # runs of older versions have neither
        raise StoreError(f"{path} was changed after it was written, its seal does not match; remove {folder}")
    return told


def wrong_field(told: Mapping[str, Any]) -> str | None:
    """The first field of a run with a value of the wrong type."""
    named = ((kind, name) for kind, names in FIELDS.items() for name in names.split() if name in told)
    return next((name for kind, name in named if not fits(told[name], kind)), None)


def readings(folder: Path, seed: int) -> dict[int, Readings]:
    """The readings of a finished run by seed: its own, or those of an ensemble, which has a folder per seed."""
    members = {int(path.name.removeprefix(MEMBER)): path for path in folder.glob(f"{MEMBER}*") if path.is_dir()}
    return {number: Readings.load(path) for number, path in sorted((members or {seed: folder}).items())}


def sealed(told: dict[str, Any]) -> bytes:
    """The text of a `run.json`, with a hash of its fields."""
    return (json.dumps(told | {"seal": digest(told)}, indent=1) + "\n").encode()


def check(folder: Path) -> dict[str, Any]:
    """The fields of a finished run's `run.json`, after verifying its key and the SHA-256 of every file that it names.

    The key, which is the folder's name, must be that of the settings and the seed. Only weights may be missing: a run
    copied from another machine may come without them, and no reading needs them.
    """
    told = read(folder)
    if told is None or told.get("status") != "done":
        raise StoreError(f"{folder} is not a finished run")
    absent = [name for name in JOB if name not in told]
    if absent or not key_of(told["recipe"], told["config"], told["seed"]) == told["key"] == folder.name:
        why = f"{RUN} has no {absent[0]}" if absent else "its key is not that of its settings and seed"
        raise StoreError(f"{folder} was changed after the run: {why}; remove it")
    for name, stated in told.get("sha256", {}).items():
        path = folder / name
        if not FILE.fullmatch(name) or not isinstance(stated, str):  # a name from a file must not be a path
            raise StoreError(f"{folder / RUN} was changed: {name!r} is not a file of a run; remove {folder}")
        if not path.is_file():
            if path.suffix == WEIGHTS:
                continue
            raise StoreError(f"{path} is missing: remove {folder} and run it again")
        if path.stat().st_size > LARGEST:
            raise StoreError(
                f"{path} has {path.stat().st_size / 1e9:.3g} GB, more than a run's files hold; remove {folder}"
            )
        if sha256(path) != stated:
            raise StoreError(f"{path} was changed after the run, its SHA-256 differs: remove {folder} and run it again")
    return told
