"""Do one job: from where it was left to the end, exactly once."""

from __future__ import annotations

import os
import shutil
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch

from winze.files import sha256, told_when_full
from winze.lab.bench import PHASES, Bench
from winze.lab.job import Job
from winze.lab.machine import commit, device, flags, source, versions
from winze.lab.store import METRICS, Run, Runs, read
from winze.modes import rng_unchanged
from winze.readings import ARRAYS, MANIFEST, ROWS
from winze.train import Hardware, StoreError

PATIENCE = 60.0  # seconds that the other processes of a run wait for the first one to begin it


@runtime_checkable
class Workable(Protocol):
    """What `perform` wants of a recipe."""

    @property
    def work(self) -> Callable[[Any, Bench], None]: ...


def perform(
    job: Job,
    runs: Runs,
    *,
    hardware: Hardware | None = None,
    progress: bool | None = None,
    recipe: Workable | None = None,
) -> Path:
    """Do a job and return the folder of its run.

    A finished run is returned at once; a killed or failed one goes on, with as many threads as it was begun with, and
    ends bit-identical to one that was never stopped. One that was begun with other versions, on another device or with
    other flags is never mixed with this: it is moved to `.aside`, with a warning, and begun anew. Of the processes that
    torchrun started the first one writes. `recipe` None: the one that the job names.
    """
    folder = runs.folder(job)
    if runs.is_done(job):
        _tidy(folder)  # what a kill after its last word left
        return folder
    hardware = Hardware() if hardware is None else hardware
    if "TORCHELASTIC_RUN_ID" in os.environ:
        _end_with_parent()
    work = (_named(job.recipe) if recipe is None else recipe).work
    if _rank():
        _follow(job, runs, work, hardware, progress)
        return folder
    with runs.open(job) as run:
        if run.told["status"] != "done":
            _write(job, run, work, hardware, progress)
    return folder


def _write(job: Job, run: Run, work: Callable[..., None], hardware: Hardware, progress: bool | None) -> None:
    where = _where(hardware)
    notes = _set_aside_where_it_differs(run, where)
    threads = run.told.get("threads") or hardware.threads or torch.get_num_threads()
    _begin(run, where, threads, notes)
    before, start = float(run.told["seconds"]), time.perf_counter()

    def seconds() -> float:
        return round(before + time.perf_counter() - start, 3)

    try:
        with _alone(threads):
            bench = Bench(run.folder, job.seed, replace(hardware, threads=threads), progress)
            work(job.config, bench)
        _meet()
        bench.readings.conventions.pop("seconds", None)  # of a scan: times are told in run.json alone
        with told_when_full(run.folder):
            bench.readings.save(run.folder)
    except Exception as error:
        said = f"{type(error).__name__}: {' '.join(str(error).split())}"
        _try_to_tell(run, status="failed", error=said, seconds=seconds())
        raise
    except BaseException:  # interrupted: it stays unfinished
        _try_to_tell(run, seconds=seconds())
        raise
    kept = sorted(path.name for path in run.folder.glob("*.safetensors"))
    files = [name for name in (ROWS, ARRAYS, MANIFEST, METRICS, *kept) if (run.folder / name).is_file()]
    hashes = {name: sha256(run.folder / name) for name in files}
    run.tell(status="done", error=None, seconds=seconds(), sha256=hashes)
    _tidy(run.folder)


def _where(hardware: Hardware) -> dict[str, Any]:
    """All that numbers depend on besides the job and the threads."""
    return {"versions": versions(), "source": source(), "device": device(hardware), "flags": flags(hardware)}


def _set_aside_where_it_differs(run: Run, where: dict[str, Any]) -> list[str]:
    """Move a half-done run away that was begun elsewhere or with other versions; notes on it for the new one."""
    if run.told["status"] == "new":
        return []
    changed = [f"{name} {run.told.get(name)} -> {now}" for name, now in where.items() if run.told.get(name) != now]
    if not changed:
        return []
    aside = run.set_aside()
    note = f"begun anew, since it was begun with something else: {'; '.join(changed)}"
    warnings.warn(f"{run.folder} is {note}; what there was lies in {aside}", stacklevel=2)
    return [note]


def _begin(run: Run, where: dict[str, Any], threads: int, notes: list[str]) -> None:
    """Say that the run is at work; one that goes on from another commit of the same code keeps a note of it."""
    now, launch = commit(), {} if _launch() is None else {"launch": _launch()}
    if run.told["status"] == "new":
        started = datetime.now(UTC).isoformat(timespec="seconds")
        new = {"started": started, "seconds": 0.0, "resumed": 0, "notes": notes}
        run.tell(**where, **launch, commit=now, threads=threads, **new, status="running", error=None)
        return
    before = run.told.get("commit")
    notes = [*run.told["notes"], *([f"resumed with commit {before} -> {now}"] if before != now else [])]
    run.tell(**launch, commit=now, resumed=run.told["resumed"] + 1, notes=notes, status="running", error=None)


def _try_to_tell(run: Run, **facts: Any) -> None:
    """What went wrong matters more than that it could not be written down."""
    with suppress(OSError):
        run.tell(**facts)


def _tidy(folder: Path) -> None:
    """Remove the checkpoints of a finished run, which have done their service."""
    shutil.rmtree(folder / PHASES, ignore_errors=True)


def _follow(job: Job, runs: Runs, work: Callable[..., None], hardware: Hardware, progress: bool | None) -> None:
    """Work along with the process that writes, and write nothing."""
    folder, give_up = runs.folder(job), time.monotonic() + PATIENCE
    while (told := read(folder)) is None or "threads" not in told or told.get("launch") != _launch():
        if time.monotonic() > give_up:
            raise StoreError(f"the first process of this run has not begun {folder} within {PATIENCE:.0f} s")
        time.sleep(0.05)
    with _alone(told["threads"]):
        work(job.config, Bench(folder, job.seed, replace(hardware, threads=told["threads"]), progress, writes=False))
    _meet()


def _meet() -> None:
    """Wait until every process of a run is here: none may still read what the first will tidy up."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.barrier()


@cache
def _end_with_parent() -> None:
    """End this process soon after torchrun, which may be killed, and would leave it waiting with its lock for ever."""
    parent = os.getppid()

    def follow() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def _launch() -> str | None:
    """What the processes of one start of torchrun share and those of the next do not; None without torchrun."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    names = ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_PORT")
    return " ".join(os.environ.get(name, "") for name in names)


def _rank() -> int:
    return int(os.environ.get("RANK", "0"))


def _named(name: str) -> Workable:
    from winze.lab.recipe import recipe

    return recipe(name)


@contextmanager
def _alone(threads: int) -> Iterator[None]:
    """A number of threads for a while; threads and random state come back as they were."""
    others = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with rng_unchanged():
            yield
    finally:
        torch.set_num_threads(others)
