"""Do one job: from its newest checkpoint to the end, exactly once."""

from __future__ import annotations

import os
import shutil
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from winze.atomic import sha256, told_when_full
from winze.lab.bench import PHASES, Bench, wait_for_all
from winze.lab.runs.job import Job
from winze.lab.runs.machine import circumstances, commit
from winze.lab.runs.store import MEMBER, METRICS, Run, Runs, read
from winze.lab.workers.workers import end_with_parent
from winze.readings import ARRAYS, MANIFEST, ROWS, Readings
from winze.train import Hardware, StoreError
from winze.train.hardware import switches

READ = (ROWS, ARRAYS, MANIFEST)  # the files of readings
PATIENCE = 60.0  # seconds that the other processes of a run wait for the first one to start it


def perform(
    job: Job,
    runs: Runs,
    *,
    hardware: Hardware | None = None,
    progress: bool | None = None,
    recipe: Any = None,
) -> Path:
    """Do a job and return the folder of its run.

    A finished run is returned at once; a killed or failed one resumes, with its original number of threads, and ends
    bit-identical to an uninterrupted one. A run that was started with other versions, on another device or with other
    flags is moved to `.aside`, with a warning, and started again. Of the processes that torchrun started, the first one
    writes. `recipe`: an object with `work(config, bench)`; None: the recipe that the job names.
    """
    folder = runs.folder(job)
    if runs.is_done(job):
        _tidy(folder)  # left by a kill after the last write
        return folder
    hardware = Hardware() if hardware is None else hardware
    if "TORCHELASTIC_RUN_ID" in os.environ:
        end_with_parent()
    if recipe is None:
        from winze.lab.recipe import recipe as recipe_of

        recipe = recipe_of(job.file or job.recipe)
    work = recipe.work
    if int(os.environ.get("RANK", "0")):
        _follow(job, runs, work, hardware, progress)
        return folder
    with runs.open(job) as run:
        if run.told["status"] != "done":
            _write(job, run, work, hardware, progress)
    return folder


def _write(job: Job, run: Run, work: Callable[..., None], hardware: Hardware, progress: bool | None) -> None:
    where = circumstances(hardware, job.file)
    notes = _set_aside_where_it_differs(run, where)
    threads = run.told.get("threads") or hardware.threads or torch.get_num_threads()
    _begin(run, where, threads, notes)
    before, start = float(run.told["seconds"]), time.perf_counter()

    def seconds() -> float:
        return round(before + time.perf_counter() - start, 3)

    try:
        with switches(Hardware(threads=threads), torch.device("cpu")):
            bench = Bench(run.folder, job.seed, replace(hardware, threads=threads), progress, about=where)
            work(job.config, bench)
        wait_for_all()  # no process may still read files that the first one removes
        with told_when_full(run.folder):
            _save(bench)
    except BaseException as error:  # an interrupted run stays unfinished
        said = {"status": "failed", "error": f"{type(error).__name__}: {' '.join(str(error).split())}"}
        with suppress(OSError):  # on a full disk the error itself matters more
            run.tell(**(said if isinstance(error, Exception) else {}), seconds=seconds())
        raise
    weights = sorted(path.name for path in run.folder.glob("*.safetensors"))
    stored = [f"{own}{name}" for own in ("", *(f"{MEMBER}{seed}/" for seed in bench.members)) for name in READ]
    files = [name for name in (*stored, METRICS, *weights) if (run.folder / name).is_file()]
    hashes = {name: sha256(run.folder / name) for name in files}
    starts = {"shared": bench.shared} if bench.shared else {}
    run.tell(status="done", error=None, seconds=seconds(), sha256=hashes, **starts)
    _tidy(run.folder)


def _save(bench: Bench) -> None:
    """Store the readings; for an ensemble one folder per seed, each with the readings that all share."""
    whole = {bench.folder: bench.readings}
    members = {bench.folder / f"{MEMBER}{seed}": bench.readings.merge(own) for seed, own in bench.members.items()}
    for folder, one in (members or whole).items():
        timeless = one.conventions.having(seconds=None)  # times are stored in run.json only
        Readings(one.rows, one.arrays, timeless).save(folder)


def _set_aside_where_it_differs(run: Run, where: dict[str, Any]) -> list[str]:
    """Move an unfinished run of another device or version away; the notes of the new run say so."""
    changed = [f"{name} {run.told.get(name)} -> {now}" for name, now in where.items() if run.told.get(name) != now]
    if run.told["status"] == "new" or not changed:
        return []
    aside = run.set_aside()
    note = f"restarted, because the first start had other circumstances: {'; '.join(changed)}"
    warnings.warn(f"{run.folder} is {note}; its previous files are in {aside}", stacklevel=2)
    return [note]


def _begin(run: Run, where: dict[str, Any], threads: int, notes: list[str]) -> None:
    """Store that the run is running; a run that resumes at another commit of the same code gets a note."""
    now, launch = commit(), {} if _launch() is None else {"launch": _launch()}
    if run.told["status"] == "new":
        started = datetime.now(UTC).isoformat(timespec="seconds")
        new = {"started": started, "seconds": 0.0, "resumed": 0, "notes": notes}
        run.tell(**where, **launch, commit=now, threads=threads, **new, status="running", error=None)
        return
    before = run.told.get("commit")
    notes = [*run.told["notes"], *([f"resumed with commit {before} -> {now}"] if before != now else [])]
    run.tell(**launch, commit=now, resumed=run.told["resumed"] + 1, notes=notes, status="running", error=None)


def _tidy(folder: Path) -> None:
    """Remove the checkpoints of a finished run."""
    shutil.rmtree(folder / PHASES, ignore_errors=True)


def _follow(job: Job, runs: Runs, work: Callable[..., None], hardware: Hardware, progress: bool | None) -> None:
    """Take part in a run that another process writes."""
    folder, give_up = runs.folder(job), time.monotonic() + PATIENCE
    while (told := read(folder)) is None or "threads" not in told or told.get("launch") != _launch():
        if time.monotonic() > give_up:
            raise StoreError(f"the first process of this run did not start {folder} within {PATIENCE:.0f} s")
        time.sleep(0.05)
    own, about = replace(hardware, threads=told["threads"]), circumstances(hardware, job.file)
    with switches(Hardware(threads=told["threads"]), torch.device("cpu")):
        work(job.config, Bench(folder, job.seed, own, progress, writes=False, about=about))
    wait_for_all()


def _launch() -> str | None:
    """An identifier that the processes of one torchrun launch share; None without torchrun."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    names = ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_PORT")
    return " ".join(os.environ.get(name, "") for name in names)
