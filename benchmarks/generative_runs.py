"""The real runs that are still wanted from one GPU, in order of worth, packed into leases.

    python benchmarks/generative_runs.py --list                   # items, and how many of their runs are done
    python benchmarks/generative_runs.py --minutes 26             # run until the time is over; again and again
    python benchmarks/generative_runs.py --minutes 26 --items 9-14,3
    python benchmarks/generative_runs.py --mini --items 1-8       # a run of each in miniature, here on the CPU

Runs that are kept in results/ or finished in --out are skipped. Consecutive items with the same flags share one pool of
processes under MPS. When the time is over the pool stops; the next call resumes from checkpoints, as long as the source
is the same. Then: winze runs keep --out runs.
"""

from __future__ import annotations

import argparse
import shlex
import signal
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import tyro

from winze.cli.run import RunVerb
from winze.lab import Job, Recipe
from winze.lab.page import write_report
from winze.lab.runs.results import finished, load
from winze.lab.runs.store import Runs
from winze.lab.runs.sweep import sweep
from winze.train import Hardware

THREADS = 1  # of every process, so that runs in pools of other sizes share trainings too
MASKED, LIGHT = "--scale gpu --jobs 7 --compile", "--scale gpu --jobs 12"
PLAN = (
    f"decayed/mae_alpha {MASKED} --at data=cifar10 --at alpha=1.0,0.6",
    f"decayed/mae_skips {MASKED} --at data=cifar10 --at skips=without",
    f"erosion/layers {LIGHT}",
    f"synthetic/meta {LIGHT} --at source=synthetic,mlp",
    f"generative/transfer {LIGHT}",
    f"generative/reconstruction {LIGHT}",
    f"erosion/similarity {LIGHT}",
    f"synthetic/meta {LIGHT} --at source=real,gan",
    f"erosion/needs {LIGHT}",
    f"decayed/diffusion {MASKED} --at labels=none --at alpha=1.0,0.6",
    f"decayed/mae_skips {MASKED} --at data=cifar10 --at skips=with",
    f"decayed/mae_rank {MASKED}",
    f"decayed/mae_alpha {MASKED} --at data=cifar10 --at alpha=0.8,0.7,0.5",
    f"decayed/mae_rules {MASKED} --seeds 0",
    f"erosion/plasticity {LIGHT}",
    f"erosion/ratio {LIGHT}",
    f"erosion/rules {LIGHT}",
    f"tunnel/swap_temperature {LIGHT}",
    f"tunnel/collapse_forgetting {LIGHT}",
    f"generative/drift {LIGHT}",
    f"generative/forgetting {LIGHT}",
    f"synthetic/other_learners {LIGHT}",
    # what the other systems still lack
    "residual_droppath/table1 --scale paper --jobs 8 --at network=resnet50d --at data=cifar10 "
    "--at algorithm=output_sample,weights_sample --at profile=linear --at repeat=1 --at junctions=all --seeds 0,1,2",
    f"residual_droppath/gradients {LIGHT}",
    f"tunnel/protocol {LIGHT} --at pool=mean --at probe=ridge",
    f"tunnel/protocol {LIGHT}",
    f"tunnel/learning_rate {LIGHT}",
    f"tunnel/neural_collapse {LIGHT}",
    f"residual_droppath/freezing {LIGHT}",
    f"residual_droppath/table1 {LIGHT} --at data=cifar10 --seeds 0",
    *(f"tunnel/{name} {LIGHT}" for name in ("rules", "capacity", "substitution", "shorter", "held")),
    f"residual_droppath/ablation {LIGHT}",
    # more of the generative recipes
    f"decayed/mae_alpha {MASKED} --at data=tinyimagenet100 --at alpha=1.0,0.6",
    f"decayed/mae_skips {MASKED} --at data=tinyimagenet100 --seeds 0",
    f"decayed/mae_maps {MASKED} --seeds 0",
    f"decayed/diffusion {MASKED} --at labels=none --at alpha=0.8,0.7 --seeds 0",
    f"decayed/diffusion {MASKED} --at labels=classes --seeds 0",
    f"decayed/mae_settings {MASKED} --seeds 0",
    f"decayed/mae_alpha {MASKED} --at data=cifar10 --at alpha=1.0,0.6 --seeds 0 --set network.name=winze/mae8x128",
    "decayed/mae_alpha --scale paper --jobs 7 --compile --at data=cifar10 --at alpha=1.0,0.6",
)
"""What is run; the last two give encoders small enough to come with the package, and 800 epochs.

Runs that share a training stand apart, so that none waits for another.
"""

BRIEF = {"data.limit": 128, "training.batch": 64, "training.length.count": 1, "training.schedule.warmup.count": 0}
BRIEF |= {"training.precision": "32-true", "training.channels_last": False}
SMALL_NET = {"depth": 4, "width": 32, "decoder_depth": 2, "decoder_width": 32}
MINI: Mapping[str, dict[str, Any]] = {
    "decayed/mae": BRIEF
    | {f"network.options.{name}": value for name, value in SMALL_NET.items()}
    | {"watching.every.count": 1, "watching.probe_samples": 128},
    "decayed/diffusion": BRIEF
    | {"training.length.count": 8, "network.name": "winze/uvit2x32"}
    | {"times": (0.01, 0.1), "images": 64, "steps": 3},
    "generative/": {"data.limit": 400, "training.length.count": 2, "iterations": 5},
    "synthetic/": {"data.limit": 600, "training.length.count": 2, "orders": 2, "steps": (1, 2), "batches": (5, 20)}
    | {"gan.length.count": 3, "mlp.length.count": 3, "mlp_orders": 1, "training.objective.pool": 20}
    | {"training.objective.steps": 2},
    "": BRIEF,
}
"""Settings of runs in miniature, by the beginning of a recipe's name."""


@dataclass(frozen=True)
class Item:
    """One line of the plan: the recipe, and the runs of it that are not kept in results/ yet."""

    number: int
    line: str
    recipe: Recipe
    verb: RunVerb
    jobs: tuple[Job, ...]
    kept: int

    @classmethod
    def of(cls, number: int, line: str) -> Item:
        """The item of a line, with runs as `winze run` chooses them."""
        verb = tyro.cli(RunVerb, args=shlex.split(line))
        recipe, jobs = verb.chosen()
        kept = load(recipe).get(verb.scale, {})
        left = tuple(job for job in jobs if job.seed not in kept.get(job.point, {}))
        return cls(number, line, recipe, verb, left, len(jobs) - len(left))

    def told(self, runs: Runs) -> str:
        """How many runs are done, and the line."""
        done = self.kept + sum(map(runs.is_done, self.jobs))
        return f"{self.number:2d}  {done:3d} of {self.kept + len(self.jobs):3d}  {self.line}"


def main() -> None:
    """Run the items, or as much of them as the time allows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs"), help="folder of runs")
    parser.add_argument("--minutes", type=float, default=26, help="time limit")
    parser.add_argument("--items", default=f"1-{len(PLAN)}", help="numbers and ranges, in the order in which they run")
    parser.add_argument("--list", action="store_true", help="print the items and end")
    parser.add_argument("--mini", action="store_true", help="one run of each item in miniature on the CPU")
    args = parser.parse_args()
    try:
        items = [Item.of(number, PLAN[number - 1]) for number in numbers(args.items)]
    except ValueError as error:
        parser.error(str(error))
    runs = Runs(args.out.absolute())
    if args.mini:
        for item in items:
            in_miniature(item, args.out / "mini")
        return
    if not args.list:
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 60 * args.minutes)
        try:
            perform(items, args.out)
        except KeyboardInterrupt:
            print("the time is over: the same command resumes")
        signal.setitimer(signal.ITIMER_REAL, 0)
    print("\n".join(item.told(runs) for item in items))


def perform(items: list[Item], out: Path) -> None:
    """Run everything, items with the same flags in one pool; a run that fails is told and does not stop the others."""
    for (size, compiled), group in groupby(items, lambda item: (item.verb.jobs, item.verb.compile)):
        jobs = [job for item in group for job in item.jobs]
        hardware = Hardware(compile=compiled, threads=THREADS)
        for done in sweep(jobs, out, jobs_at_once=size, on="processes", hardware=hardware):
            if done.error is not None:
                print(f"failed: {done.job}: {type(done.error).__name__}: {done.error}", flush=True)


def in_miniature(item: Item, out: Path) -> None:
    """The first run of an item and the one farthest from it, shrunk, with their page; raises where one fails."""
    recipe, jobs = miniature(item).chosen()
    for done in sweep([jobs[0], jobs[-1]], out, hardware=Hardware("cpu", threads=THREADS), progress=False):
        if done.error is not None:
            raise done.error
    read = finished(recipe, out).get(item.verb.scale, {})
    print(item.number, write_report(recipe, item.verb.scale, read, out / f"{item.number}.html"), flush=True)


def miniature(item: Item) -> RunVerb:
    """The command of an item with settings that shrink its runs."""
    settings = next(own for start, own in MINI.items() if item.verb.recipe.startswith(start))
    changes = (*item.verb.changes, *(f"{name}={value!r}" for name, value in settings.items()))
    return replace(item.verb, changes=tuple({one.partition("=")[0]: one for one in changes}.values()))


def numbers(text: str) -> list[int]:
    """The numbers of items in a text such as 9-14,3."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not (first.isdigit() and (last or first).isdigit() and 1 <= int(first) <= int(last or first) <= len(PLAN)):
            raise ValueError(f"--items are numbers and ranges from 1 to {len(PLAN)}, not {part!r}")
        found += range(int(first), int(last or first) + 1)
    return found


if __name__ == "__main__":
    main()
