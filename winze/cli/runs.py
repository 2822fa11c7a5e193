"""`winze runs`: list, compare, clean and keep runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from winze.cli.data import table
from winze.cli.exit_codes import BAD_INPUT, FailedError, printable
from winze.cli.option import option
from winze.readings.point import shown

if TYPE_CHECKING:
    from winze.lab.recipe import Recipe
    from winze.lab.runs.store import Facts
    from winze.lab.runs.store import Runs as Store

What = Literal["list", "compare", "clean", "keep"]
RunState = Literal["done", "failed", "running", "unfinished", "unreadable"]


@dataclass(frozen=True)
class RunsVerb:
    """List runs, compare two, remove failed and unfinished ones, or keep their readings.

    Runs are listed with the newest last. `winze runs compare 3f2a 91bc` prints the settings in which two runs differ,
    and their outcomes. `winze runs clean` lists failed, unfinished and damaged runs, and removes them with `--yes`.
    The readings that `winze runs keep` adds to results/ are what `winze list` and docs/results judge claims by.
    """

    what: Annotated[What, tyro.conf.Positional] = "list"
    """list, compare two, remove (clean), or add readings to results/ (keep)"""
    names: Annotated[tuple[str, ...], tyro.conf.Positional, option("RUN ...", "all")] = ()
    """runs, by the start of their key"""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs")
    """the folder of runs, as `winze run --out` had it"""
    recipe: Annotated[str | None, option("RECIPE", "all")] = None
    """only runs of this recipe, of a glob such as 'tunnel/*', or of the recipe in a file such as my_recipe.py"""
    at: Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], option("AXIS=VALUE", "all")] = ()
    """only runs at this value of an axis, such as alpha=0.6; may be repeated"""
    status: Annotated[RunState | None, option("done|failed|running|unfinished|unreadable", "all")] = None
    """only runs in this state; an unfinished run was killed or interrupted, and `winze run` resumes it"""
    yes: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """clean: remove the runs; without it they are only listed"""
    results: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("results")
    """keep: the folder that the readings are added to"""

    def run(self) -> None:
        from winze.lab.runs.store import Runs as Store

        store = Store(self.out)
        if unread := [one for one in self.at if not all(one.partition("="))]:
            raise ValueError(f"--at takes AXIS=VALUE, not {unread[0]!r}")
        if self.out.exists() and not self.out.is_dir():
            raise NotADirectoryError(f"{self.out} is a file, not a folder of runs")
        for line in getattr(self, f"_{self.what}")(store):
            sys.stdout.write(f"{line}\n")

    def _list(self, store: Store) -> Iterator[str]:
        yield _listed(self._chosen(store, self.names)) or f"there are no such runs in {self.out}"

    def _compare(self, store: Store) -> Iterator[str]:
        from winze.lab.runs.outcome import differences, finals
        from winze.lab.runs.store import check

        if len(self.names) != 2:
            raise ValueError(f"compare takes two runs, got {len(self.names)}: winze runs compare 3f2a 91bc")
        one, other = (store.find(name) for name in self.names)
        for facts in (one, other):
            if facts.status == "unreadable":
                raise ValueError(facts.error)
            if facts.status == "done":
                check(facts.folder)
        differ = [(name, *map(str, pair)) for name, pair in differences(one.folder, other.folder).items()]
        yield _columns([("setting", one.key[:8], other.key[:8]), *differ]) if differ else "the settings are the same"
        first, second = (finals(facts.folder, _quantities(facts.recipe)) for facts in (one, other))
        rows: list[tuple[str, ...]] = [("", one.key[:8], other.key[:8], "difference")]
        for name in dict.fromkeys((*first, *second)):
            a, b = first.get(name), second.get(name)
            rows.append((name, _number(a), _number(b), _number(None if a is None or b is None else b - a)))
        yield ""
        yield _columns(rows) if len(rows) > 1 else "neither run has an outcome yet"

    def _clean(self, store: Store) -> Iterator[str]:
        from winze.lab.runs.store import BusyError

        if self.status in ("done", "running"):
            raise ValueError(f"clean removes failed and unfinished runs, not those that are {self.status}")
        wanted = ("failed", "unfinished") if self.status is None else (self.status,)
        chosen = [_checked(facts) for facts in self._chosen(store, self.names)]
        doomed = [facts for facts in chosen if facts.status in wanted or (not self.status and _is_damaged(facts))]
        if not doomed:
            yield f"there is nothing to clean in {self.out}"
            return
        yield _listed(doomed)
        if not self.yes:
            yield f"{_count(doomed)} would be removed: `winze runs clean --yes` removes them"
            return
        kept = 0
        for facts in doomed:
            try:
                store.remove(facts.key)
            except BusyError as error:
                kept += 1
                yield f"kept: {error}"
        yield f"{_count(doomed[kept:])} removed"

    def _keep(self, store: Store) -> Iterator[str]:
        from winze.lab.recipe import RecipeError, recipe
        from winze.lab.runs.results import add_all

        def recipe_of(name: str) -> Recipe:
            own = self.own_recipe
            return recipe(name) if own is None else own

        found = self._chosen(store, self.names)
        chosen = [facts for facts in found if facts.status == "done"]
        new: list[Path] = []
        refused = [str(facts.error) for facts in found if facts.status == "unreadable"]
        for name in dict.fromkeys(facts.recipe for facts in chosen):
            folders = [facts.folder for facts in chosen if facts.recipe == name]
            try:
                new += add_all(folders, recipe_of(name), self.results, refused.append)
            except RecipeError as error:
                refused += [f"{folder}: {error} (a recipe of your own: --recipe FILE.py)" for folder in folders]
        there = (
            len(found) - len(new) - len(refused) - sum(facts.status not in ("done", "unreadable") for facts in found)
        )
        yield f"{_count(new)} added to {self.results}, {there} already there"
        fresh = set(new)
        loose = [facts for facts in chosen if facts.folder in fresh and (facts.commit or "").endswith("+")]
        if loose:
            names = ", ".join(facts.key[:8] for facts in loose[:5])
            yield f"{_count(loose)} of these from an uncommitted tree: {names}{', ...' * (len(loose) > 5)}"
        _tell_refused(refused, "not kept")

    def _chosen(self, store: Store, names: tuple[str, ...]) -> list[Facts]:
        found = [store.find(name) for name in names] if names else store.all()
        return [facts for facts in found if self._fits(facts)]

    @cached_property
    def own_recipe(self) -> Recipe | None:
        """The recipe of the user's file that `--recipe` names."""
        from winze.lab.recipe import recipe

        return recipe(self.recipe) if self.recipe is not None and self.recipe.endswith(".py") else None

    def _fits(self, facts: Facts) -> bool:
        wanted = self.recipe if self.own_recipe is None else self.own_recipe.name
        pairs: list[tuple[str, str | None]] = [(facts.recipe, wanted), (facts.status, self.status)]
        for one in self.at:
            axis, _, value = one.partition("=")
            pairs.append((shown(facts.point.get(axis, "")), shown(_label(value))))
        return all(glob is None or fnmatchcase(value, glob) for value, glob in pairs)


def _label(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def _tell_refused(reasons: list[str], what: str) -> None:
    """Say of every run that was passed over why, and end with the code of bad input where there was one."""
    for reason in reasons:
        sys.stderr.write(f"winze: {printable(reason)}\n")
    if reasons:
        raise FailedError(f"{_count(reasons)} {what}", BAD_INPUT)


def _listed(runs: list[Facts]) -> str:
    rows: list[tuple[str, ...]] = [("run", "recipe", "point", "seed", "scale", "status", "seconds", "when (UTC)", "")]
    for facts in runs:
        seed = "?" if facts.seed is None else str(facts.seed)
        seconds = "?" if facts.seconds is None else f"{facts.seconds:.1f}"
        when = facts.started[:16].replace("T", " ")
        what = (facts.recipe, str(facts.point), seed, facts.scale, facts.status, seconds, when)
        rows.append((facts.key[:8], *what, _short(facts.error or facts.note)))
    return _columns(rows) if runs else ""


def _checked(facts: Facts) -> Facts:
    """The same with what is wrong with a finished run's files as its error."""
    from winze.lab.runs.store import check

    try:
        if facts.status == "done":
            check(facts.folder)
    except OSError as error:
        return replace(facts, error=str(error))
    return facts


def _is_damaged(facts: Facts) -> bool:
    return facts.status == "done" and facts.error is not None


def _columns(rows: list[tuple[str, ...]]) -> str:
    return table(rows).rstrip("\n")


def _short(text: str, most: int = 100) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"


def _count(runs: list[Any]) -> str:
    return f"{len(runs)} run{'' if len(runs) == 1 else 's'}"


def _quantities(recipe: str) -> Any:
    """The quantities of the recipe; none where the recipe no longer exists."""
    from winze import lab

    try:
        return lab.recipe(recipe).quantities
    except lab.RecipeError:
        return {}
