"""Runs that last a little and leave a mark whenever they begin and end; in a file that workers can import."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from winze.lab.runs.job import Job
from winze.progress import Pace, tell
from winze.readings import Point


@dataclass(frozen=True)
class Config:
    marks: str
    seconds: float = 0.0
    bad: tuple[int, ...] = ()
    together: int = 1  # places where work has to begin before any goes on


@dataclass(frozen=True)
class Lasting:
    """A recipe as `perform` wants it."""

    def work(self, config, bench):
        mark(config.marks, f"begin {bench.seed} {place()}")
        tell(Pace("training", 1, 2, 5.0))
        if bench.seed in config.bad:
            raise ValueError(f"seed {bench.seed} is bad")
        if config.together > 1:
            from waiting import soon  # not on Ray's path

            soon(lambda: len({where for what, _, where in marked(config.marks)}) >= config.together)
        time.sleep(config.seconds)
        bench.readings.add("square", float(bench.seed**2))
        mark(config.marks, f"end {bench.seed} {place()}")


def jobs(marks, count, seconds=0.0, bad=(), together=1):
    config = Config(str(marks), seconds, tuple(bad), together)
    return [Job("lasting/work", "smoke", Point(), seed, config) for seed in range(count)]


def mark(file, words):
    """One line, whole even where several write at once."""
    with Path(file).open("a") as opened:
        opened.write(words + "\n")


def marked(file):
    return [tuple(line.split()) for line in Path(file).read_text().splitlines()] if Path(file).exists() else []


def place():
    """The Ray node, or the process."""
    return os.environ.get("RAY_NODE_ID") or _node() or str(os.getpid())


def resources(number):
    """What Ray has given this task."""
    import ray

    return ray.get_runtime_context().get_assigned_resources()


def _node():
    import sys

    ray = sys.modules.get("ray")
    return ray.get_runtime_context().get_node_id() if ray is not None and ray.is_initialized() else None
