"""`winze run`: a recipe's points and seeds, then its verdicts."""

from __future__ import annotations

import ast
import os
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from winze.cli.exit_codes import BAD_INPUT, FAULT, FailedError, is_bad_input, printable, said
from winze.cli.option import option

if TYPE_CHECKING:
    from winze.lab import Job, Outcome, Recipe


@dataclass(frozen=True)
class RunVerb:
    """Run a recipe: every point on its axes with every seed. Finished runs are skipped, killed ones resume.

    Claims are then judged by all runs of this recipe and scale in the folder, and a page is written. Runs that `--set`
    changes have a page of their own, without claims. `torchrun --nproc-per-node 2 -m winze run ...` shares each run
    among several devices.
    """

    recipe: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RECIPE")]
    """the recipe, such as tunnel/main (see `winze list`), or a file of your own such as my_recipe.py"""
    scale: Annotated[str, tyro.conf.arg(metavar="S")]
    """how much: smoke (seconds), cpu (minutes on 2 cores), gpu (on one large GPU), paper (the published setting)"""
    at: Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], option("AXIS=A,B", "all values of the scale")] = ()
    """run only these values of an axis, such as alpha=.6,.4; may be repeated"""
    changes: Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], option("FIELD=VALUE", name="set")] = ()
    """replace a setting of every point, such as network.rule.alpha_min=.55; may be repeated"""
    seeds: Annotated[str | None, option("0,1", "those of the scale")] = None
    """run these seeds"""
    jobs: Annotated[int, tyro.conf.arg(metavar="N")] = 1
    """runs at once, each in its own process; with --on ray, runs at once on each GPU or machine of the cluster"""
    on: Annotated[Literal["ray"] | None, option("ray", "this machine")] = None
    """run on a Ray cluster: the one at RAY_ADDRESS, else one started on this machine"""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs")
    """the folder of runs"""
    accelerator: Literal["auto", "cpu", "cuda", "gpu", "mps"] = "auto"
    """device to train on; auto takes a GPU where there is one"""
    devices: Annotated[int, tyro.conf.arg(metavar="N")] = 1
    """devices per run; with more than one, start the command with torchrun"""
    strategy: str = "auto"
    """how several devices share a run: ddp, fsdp, as Lightning Fabric names them"""
    compile: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """compile networks by torch.compile, which takes time at the start of each run"""
    deterministic: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """deterministic GPU kernels: the same bits each time, more slowly"""

    def run(self) -> None:
        from winze.lab.runs.sweep import Backend, sweep
        from winze.train import Hardware

        chosen, jobs = self.chosen()
        hardware = Hardware(
            self.accelerator, self.devices, self.strategy, compile=self.compile, deterministic=self.deterministic
        )
        if self.out.exists() and not self.out.is_dir():
            raise NotADirectoryError(f"{self.out} is a file, not a folder of runs")
        where: Backend = "ray" if self.on else ("processes" if self.jobs > 1 else "here")
        try:
            outcomes = sweep(jobs, self.out, jobs_at_once=self.jobs, on=where, hardware=hardware)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                "interrupted; finished runs are kept, the others resume from their last checkpoint: "
                f"repeat `{self._command()}`"
            ) from None
        if not int(os.environ.get("RANK", "0")):  # of the processes that torchrun started, one speaks
            refused: list[str] = []
            self._tell(chosen, refused.append)
            _tell_failures(outcomes, refused)

    def chosen(self) -> tuple[Recipe, list[Job]]:
        """The recipe with the settings that were asked for, and the runs of it that are."""
        from winze.lab.recipe import recipe

        own = {name: _literal(text) for name, text in _pairs(self.changes, "--set")}
        made = recipe(self.recipe).with_settings(own, self.scale)
        at = {name: _values(made, name, text) for name, text in _pairs(self.at, "--at")}
        return made, made.jobs(self.scale, at, _numbers(self.seeds))

    def _tell(self, recipe: Recipe, refuse: Callable[[str], None]) -> None:
        """Judge the claims and write the report; `refuse` collects damaged runs, which do not count."""
        from winze.lab.claims.table import counted, failures, is_stand_in
        from winze.lab.page import write_report
        from winze.lab.runs.results import finished

        runs = finished(recipe, self.out, refuse).get(self.scale, {})
        judged = recipe.verdicts(self.scale, runs)
        own = "-set" if recipe.changed else ""  # the page of the scale's own points stays
        page = write_report(recipe, self.scale, runs, self.out / recipe.name / f"{self.scale}{own}.html")
        lines = []
        for one in judged:
            lines.append(f"{one.word}: {one.statement.text}")
            lines += [f"  {cell}" for cell in one.told]
        lines += [f"failed to learn, not counted: {why}" for why in failures(recipe, runs)]
        if not is_stand_in(recipe, self.scale):
            lines.append(counted(judged))
        sys.stdout.write("".join(f"{line}\n" for line in [*filter(None, lines), page]))

    def _command(self) -> str:
        """The same command again, as a shell takes it."""
        processes = os.environ.get("LOCAL_WORLD_SIZE")
        words = ["torchrun", "--nproc-per-node", processes, "-m"] if processes else []
        words += ["winze", "run", self.recipe]
        for field in fields(self)[1:]:
            value, name = getattr(self, field.name), {"changes": "set"}.get(field.name, field.name)
            if value != field.default:
                each = value if isinstance(value, tuple) else (value,)
                words += [f"--{name}"] if value is True else [word for one in each for word in (f"--{name}", str(one))]
        return shlex.join(words)


def _tell_failures(outcomes: Sequence[Outcome], refused: Sequence[str]) -> None:
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


def _pairs(given: Sequence[str], option: str) -> list[tuple[str, str]]:
    """NAME=VALUE as typed; each name once."""
    pairs = [(name.strip(), text.strip()) for name, _, text in (one.partition("=") for one in given)]
    for (name, text), one in zip(pairs, given, strict=True):
        if not name or not text:
            raise ValueError(f"{option} takes NAME=VALUE, not {one!r}")
        if sum(name == other for other, _ in pairs) > 1:
            raise ValueError(f"{option} {name} is given twice")
    return pairs


def _literal(text: str) -> Any:
    """A value as Python writes it (.55, (1, 2), None), else the text itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _values(recipe: Recipe, axis: str, text: str) -> list[Any]:
    """The values of an axis that a text names, as the axis has them; what it does not have is left to the recipe."""
    labels = recipe.axes[axis].labels if axis in recipe.axes else ()
    if text in map(str, labels):
        return [label for label in labels if str(label) == text]
    words = [word.strip() for word in text.split(",") if word.strip()]
    return [next((label for label in labels if word == str(label) or _literal(word) == label), word) for word in words]


def _numbers(text: str | None) -> list[int] | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not (names and all(name.isdigit() for name in names)):
        raise ValueError(f"--seeds are whole numbers from 0 such as 0,1,2, not {text!r}")
    return [int(name) for name in names]
