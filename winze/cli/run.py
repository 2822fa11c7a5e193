"""`winze run`: a recipe's arms and seeds, then its verdicts."""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from winze.cli.errors import BAD_INPUT, FAULT, FailedError, is_bad_input, printable, said

if TYPE_CHECKING:
    import winze


@dataclass(frozen=True)
class Run:
    """Run a recipe: every arm with every seed. What is finished is skipped, what was killed goes on.

    Then the claims are judged by all runs of this recipe and scale in the folder, and a report is written.
    `torchrun --nproc-per-node 2 -m winze run ...` shares each run among several devices.
    """

    recipe: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RECIPE")]
    """which, such as tunnel/main (see `winze list`)"""
    scale: Annotated[str, tyro.conf.arg(metavar="S")]
    """how much of it: smoke (seconds), cpu (minutes on 2 cores), gpu (on one large GPU), paper (all of it)"""
    arms: Annotated[str | None, tyro.conf.arg(metavar="A,B")] = None
    """only these arms"""
    seeds: Annotated[str | None, tyro.conf.arg(metavar="0,1")] = None
    """these seeds instead of the scale's"""
    jobs: Annotated[int, tyro.conf.arg(metavar="N")] = 1
    """runs at once: in so many processes, or on each GPU or machine of the cluster with --on ray"""
    on: Literal["ray"] | None = None
    """a Ray cluster: the one at RAY_ADDRESS, or this machine"""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs")
    """the folder of runs"""
    accelerator: Literal["auto", "cpu", "cuda", "gpu", "mps"] = "auto"
    """what to train on (a GPU where there is one)"""
    devices: Annotated[int, tyro.conf.arg(metavar="N")] = 1
    """devices of one run; more than one: start with torchrun"""
    strategy: str = "auto"
    """how several devices share a run: ddp, fsdp, as Lightning Fabric names them"""
    compile: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """fuse what networks do into fewer kernels by torch.compile, which takes its time at the start of each run"""
    deterministic: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """have a GPU compute the same bits each time, at some cost"""

    def run(self) -> None:
        from winze.lab.recipe import recipe
        from winze.lab.sweep import Where, sweep
        from winze.train import Hardware

        chosen = recipe(self.recipe)
        arms = _names(self.arms)
        if arms == []:
            raise ValueError(f"--arms are names such as {', '.join(chosen.arms_at(self.scale)[:2])}, not {self.arms!r}")
        jobs = chosen.jobs(self.scale, arms, _numbers(self.seeds))
        hardware = Hardware(
            self.accelerator, self.devices, self.strategy, compile=self.compile, deterministic=self.deterministic
        )
        if self.out.exists() and not self.out.is_dir():
            raise NotADirectoryError(f"{self.out} is a file, not a folder of runs")
        where: Where = "ray" if self.on else ("processes" if self.jobs > 1 else "here")
        try:
            outcomes = sweep(jobs, self.out, jobs_at_once=self.jobs, on=where, hardware=hardware)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                "interrupted; finished runs are kept, the others go on from their last checkpoint: "
                f"repeat `{self._command()}`"
            ) from None
        if not int(os.environ.get("RANK", "0")):  # of the processes that torchrun started, one speaks
            refused: list[str] = []
            self._tell(chosen, refused.append)
            _tell_failures(outcomes, refused)

    def _tell(self, recipe: winze.lab.Recipe, refuse: Callable[[str], None]) -> None:
        """Judge the claims and write the report; `refuse` hears of damaged runs, which do not count."""
        from winze.lab.page import write_report
        from winze.lab.results import finished
        from winze.lab.verdicts import tally

        runs = finished(recipe, self.out, refuse).get(self.scale, {})
        verdicts = recipe.verdicts(self.scale, runs)
        page = write_report(recipe, self.scale, runs, self.out / recipe.name / f"{self.scale}.html")
        lines = [f"{claim.text}: {verdict}" for claim, verdict in verdicts]
        sys.stdout.write("".join(f"{line}\n" for line in [*lines, tally(one for _, one in verdicts), page]))

    def _command(self) -> str:
        """The same command again, as a shell takes it."""
        processes = os.environ.get("LOCAL_WORLD_SIZE")
        words = ["torchrun", "--nproc-per-node", processes, "-m"] if processes else []
        words += ["winze", "run", self.recipe]
        for field in fields(self)[1:]:
            value = getattr(self, field.name)
            if value != field.default:
                words += [f"--{field.name}"] if value is True else [f"--{field.name}", str(value)]
        return shlex.join(words)


def _tell_failures(outcomes: Sequence[winze.lab.Outcome], refused: Sequence[str]) -> None:
    """Say of every failed run why, once for each reason; of a fault of ours, also where; and of damaged runs."""
    for reason in refused:
        sys.stderr.write(f"winze: {printable(reason)}\n")
    failed = [one for one in outcomes if one.error is not None]
    if not failed and refused:
        raise FailedError(f"{len(refused)} of the finished runs are damaged and do not count", BAD_INPUT)
    if not failed:
        return
    reasons = Counter(_reason(one.error) for one in failed)
    for reason, count in reasons.items():
        first = next(one for one in failed if _reason(one.error) == reason)
        others = f" (and {count - 1} more)" if count > 1 else ""
        sys.stderr.write(f"winze: {first.job}{others}: {reason}\n")
        if not is_bad_input(first.error):
            sys.stderr.write("".join(getattr(first.error, "__notes__", [])))
    code = BAD_INPUT if all(is_bad_input(one.error) for one in failed) else FAULT
    raise FailedError(f"{len(failed)} of {len(outcomes)} runs failed; the same command tries them again", code)


def _reason(error: Exception | None) -> str:
    assert error is not None
    return f"{type(error).__name__}: {printable(said(error))}"


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _numbers(text: str | None) -> list[int] | None:
    names = _names(text)
    if names is not None and not (names and all(name.isdigit() for name in names)):
        raise ValueError(f"--seeds are whole numbers from 0 such as 0,1,2, not {text!r}")
    return None if names is None else [int(name) for name in names]
