"""Sweeps: many jobs one after another, in a process pool, or on a Ray cluster."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch

from winze.lab.runs.job import Job
from winze.lab.runs.perform import perform
from winze.lab.runs.store import BusyError, Runs
from winze.lab.workers.mps import mps
from winze.lab.workers.processes import Processes
from winze.lab.workers.ray import OnRay
from winze.lab.workers.workers import Here, Workers
from winze.progress import Display, tell
from winze.train import Hardware, StoreError
from winze.train.hardware import make_fabric

Backend = Literal["here", "processes", "ray"]
PATIENCE = 30.0  # seconds that a retry waits for a lost worker to release its run
GPU = ("cuda", "gpu")


@dataclass(frozen=True)
class Outcome:
    """The end of a job: the folder of its run, and its error, if any."""

    job: Job
    folder: Path
    error: Exception | None = None


def sweep(
    jobs: Sequence[Job],
    root: str | os.PathLike[str],
    *,
    jobs_at_once: int = 1,
    on: Backend = "here",
    hardware: Hardware | None = None,
    progress: bool | None = None,
    recipe: Any = None,
) -> list[Outcome]:
    """Do all jobs; finished ones are skipped, killed ones resume. `jobs_at_once`: the number of processes, or of jobs
    on each GPU or machine of a Ray cluster. A job that fails does not stop the others; a job whose worker dies is
    retried. Jobs of equal content are one run. `recipe` as in `perform`.
    """
    hardware = Hardware() if hardware is None else hardware
    _check(on, jobs_at_once, hardware)
    runs = Runs(Path(root).absolute())
    errors: dict[str, Exception | None] = {}
    todo = [job for job in {job.key: job for job in jobs}.values() if _is_to_do(runs, job, errors)]
    with (
        Display([str(job) for job in todo], progress) as display,
        workers_for(on, jobs_at_once, hardware, todo) as workers,
    ):
        own = replace(hardware, threads=hardware.threads or workers.threads)
        work = partial(_perform, runs=runs, hardware=own, recipe=recipe, patience=PATIENCE if on == "ray" else 0.0)
        for done in workers.run(work, todo, display.hear if display.shown else None):
            if done.error is not None and _world() > 1:  # the other processes are waiting inside this job
                raise done.error
            job = todo[done.index]
            errors[job.key] = done.error or _absent(runs, job)
            display.end(done.index, errors[job.key])
    return [Outcome(job, runs.folder(job), errors.get(job.key)) for job in jobs]


@contextmanager
def workers_for(on: Backend, jobs_at_once: int, hardware: Hardware, todo: Sequence[object]) -> Iterator[Workers]:
    """Workers for the jobs, no more than there are jobs."""
    if on == "here" or not todo:
        yield Here()
    elif on == "ray":
        gpu = {"cpu": False, "auto": None}.get(hardware.accelerator, True)
        with OnRay(jobs_at_once, gpu) as cluster:
            yield cluster
    else:
        size = min(jobs_at_once, len(todo))
        gpus = _gpus() if hardware.accelerator in ("auto", *GPU) else []
        with mps(bool(gpus) and size > len(gpus)) as service:
            seen = [service | {"CUDA_VISIBLE_DEVICES": gpu} for gpu in gpus] if len(gpus) > 1 else [service]
            with Processes(size, hardware.threads, seen) as processes:
                yield processes


def _perform(job: Job, *, runs: Runs, hardware: Hardware, recipe: Any, patience: float) -> None:
    """Do one job in a worker."""
    tell("begun")
    give_up = time.monotonic() + patience
    while True:
        try:
            perform(job, runs, hardware=hardware, progress=False, recipe=recipe)
            return
        except BusyError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.5)


def _check(on: str, jobs_at_once: int, hardware: Hardware) -> None:
    if on not in ("here", "processes", "ray"):
        raise ValueError(f'on is "here", "processes" or "ray", not {on!r}')
    if jobs_at_once < 1:
        raise ValueError(f"jobs at once must be at least 1, got {jobs_at_once}")
    if on != "here" and _world() > 1:
        raise ValueError("torchrun shares each run among its processes: omit --jobs and --on")
    make_fabric(replace(hardware, accelerator="auto") if on == "ray" else hardware)


def _is_to_do(runs: Runs, job: Job, errors: dict[str, Exception | None]) -> bool:
    """Whether a job has to be done; an unreadable run is the error of its job and does not stop the others."""
    try:
        return not runs.is_done(job)
    except StoreError as error:
        errors[job.key] = error
        return False


def _absent(runs: Runs, job: Job) -> Exception | None:
    if runs.is_done(job):
        return None
    where = runs.folder(job)
    return StoreError(
        f"the job finished, but {where} is not on this machine: give --out a folder that all machines share"
    )


def _gpus() -> list[str]:
    """The identifiers of the GPUs that are visible to this process."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    count = torch.cuda.device_count()
    return named.split(",")[:count] if named else [str(i) for i in range(count)]


def _world() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))
