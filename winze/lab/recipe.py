"""A recipe is data: a paper's table or figure as arms, seeds, scales, the work of one run, and claims."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from importlib import import_module
from typing import TYPE_CHECKING, Any

from winze.lab.claims import Claim, Quantity, Runs, verdict
from winze.lab.fields import FieldError, check_types, replaced
from winze.lab.job import Job, plain
from winze.lab.verdicts import Verdict
from winze.readings import Readings

if TYPE_CHECKING:
    import matplotlib.figure

    from winze.lab.bench import Bench

Draw = Callable[[Mapping[str, Sequence[Readings]], str], "matplotlib.figure.Figure"]
"""A figure of every arm's runs in a theme, `light` or `dark`."""

PACKAGE = "winze.recipes"  # by name: the lab knows recipes only when it is asked for one


class RecipeError(ValueError):
    """A recipe that contradicts itself, or a part that a recipe does not have."""


@dataclass(frozen=True)
class Scale:
    """How much work a recipe is: what all arms start from, the seeds, and what is cut down.

    `arms`: those that run at this scale (None: all). `changes`: fields to replace in an arm's config, on top of the
    recipe's; the arm `*` stands for all. `departures`: in what this scale differs from the paper.
    """

    base: Any
    seeds: tuple[int, ...]
    arms: tuple[str, ...] | None = None
    changes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    departures: tuple[str, ...] = ()


@dataclass(frozen=True)
class Recipe:
    """A published experiment: paper, arms, scales, the work of one run, what is read off it, and what is claimed.

    An arm is the fields of the scale's base config that it replaces (`training.epochs` names a field of a field).
    `work(config, bench)` does one run and leaves what it read in `bench.readings`. A quantity is one number of one
    run's readings; claims name quantities. `measures` are globs of the measures, and of the arrays by name, that
    results/ keeps. Whatever does not fit together raises when the recipe is made, so at import.
    """

    name: str
    system: str
    shows: str
    paper: str
    url: str
    arms: Mapping[str, Mapping[str, Any]]
    scales: Mapping[str, Scale]
    work: Callable[[Any, Bench], None]
    quantities: Mapping[str, Quantity] = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()
    departures: tuple[str, ...] = ()
    measures: tuple[str, ...] = ("*",)
    figures: Mapping[str, Draw] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9_]+/[a-z0-9_]+", self.name):
            raise RecipeError(f"a recipe's name is system/table, such as tunnel/main, not {self.name!r}")
        if not self.arms or not self.scales:
            raise RecipeError(f"{self.name} has no {'scales' if self.arms else 'arms'}")
        for name in self.scales:
            self._check_scale(name)
        for claim in self.claims:
            self._check_claim(claim)
        for name, quantity in self.quantities.items():
            for measure in getattr(quantity, "measures", ()):
                if not any(fnmatchcase(measure, kept) for kept in self.measures):
                    raise RecipeError(f"{self.name}: quantity {name!r} reads {measure!r}, which measures= leaves out")

    def scale(self, name: str) -> Scale:
        """One of the scales, by name."""
        return self.scales[_known(name, self.scales, f"{self.name} has no scale")]

    def arms_at(self, scale: str) -> tuple[str, ...]:
        """The arms that run at a scale, in the recipe's order."""
        chosen = self.scale(scale).arms
        return tuple(arm for arm in self.arms if chosen is None or arm in chosen)

    def config(self, scale: str, arm: str) -> Any:
        """What the work of this arm is given at this scale."""
        there = self.arms_at(scale)
        if arm not in there:
            _known(arm, self.arms, f"{self.name} has no arm")
            raise RecipeError(f"{self.name} does not run arm {arm!r} at scale {scale}; it runs {', '.join(there)}")
        config = self.scale(scale).base
        for changes in (self.arms[arm], *self._changes(scale, arm)):
            try:
                config = replaced(config, changes)
                check_types(config)
            except FieldError as error:
                raise RecipeError(f"{self.name}, scale {scale}, arm {arm}: {error}") from error
        return config

    def jobs(self, scale: str, arms: Iterable[str] | None = None, seeds: Iterable[int] | None = None) -> list[Job]:
        """Every run of a scale, or of some of its arms and seeds; all arms of one seed come before the next seed."""
        chosen = self.arms_at(scale) if arms is None else tuple(dict.fromkeys(arms))
        configs = {arm: self.config(scale, arm) for arm in chosen}
        numbers = self.scale(scale).seeds if seeds is None else tuple(dict.fromkeys(seeds))
        return [Job(self.name, scale, arm, seed, config) for seed in numbers for arm, config in configs.items()]

    def claims_at(self, scale: str) -> tuple[Claim, ...]:
        """The claims that are judged at a scale."""
        arms = self.arms_at(scale)
        asked = [claim for claim in self.claims if claim.scales is None or scale in claim.scales]
        return tuple(claim for claim in asked if all(arm in arms for arm in claim.check.arms))

    def verdicts(self, scale: str, runs: Runs) -> list[tuple[Claim, Verdict]]:
        """Every claim of a scale with what the readings, by arm and seed, say about it."""
        return [(claim, verdict(claim, runs, self.quantities)) for claim in self.claims_at(scale)]

    def _changes(self, scale: str, arm: str) -> list[Mapping[str, Any]]:
        changes = self.scale(scale).changes
        return [changes[name] for name in ("*", arm) if name in changes]

    def _check_scale(self, name: str) -> None:
        scale = self.scales[name]
        if not is_dataclass(scale.base) or isinstance(scale.base, type):
            raise RecipeError(f"{self.name}, scale {name}: base is a frozen dataclass, not {scale.base!r}")
        numbers = all(isinstance(seed, int) and seed >= 0 for seed in scale.seeds)
        if not scale.seeds or not numbers or len(set(scale.seeds)) < len(scale.seeds):
            raise RecipeError(f"{self.name}, scale {name}: seeds are different whole numbers from 0, not {scale.seeds}")
        for arm in scale.arms or ():
            _known(arm, self.arms, f"{self.name}, scale {name}: there is no arm")
        there = self.arms_at(name)
        for arm in scale.changes:
            _known(arm, ("*", *there), f"{self.name}, scale {name}, changes: this scale has no arm")
        for arm in there:
            plain(self.config(name, arm))

    def _check_claim(self, claim: Claim) -> None:
        what = f"{self.name}, claim {claim.text!r}:"
        for arm in claim.check.arms:
            _known(arm, self.arms, f"{what} there is no arm")
        if claim.check.quantity is not None:
            _known(claim.check.quantity, self.quantities, f"{what} there is no quantity")
        told = () if isinstance(claim.departure, str) else claim.departure
        for scale in (*(claim.scales or ()), *told):
            _known(scale, self.scales, f"{what} there is no scale")
        for scale in claim.scales or ():
            absent = [arm for arm in claim.check.arms if arm not in self.arms_at(scale)]
            if absent:
                raise RecipeError(f"{what} scale {scale} does not run {', '.join(absent)}")
        if not any(claim in self.claims_at(scale) for scale in self.scales):
            raise RecipeError(f"{what} no scale runs all of {', '.join(claim.check.arms)}")


def recipes(package: str = PACKAGE) -> Mapping[str, Recipe]:
    """Every recipe by name."""
    found = {}
    for name in _names(package):
        made = _made(name, package)
        if made is not None:
            found[name] = made
    return found


def recipe(name: str, package: str = PACKAGE) -> Recipe:
    """The recipe of that name; only its own module is imported."""
    made = _made(name, package) if name in _names(package) else None
    if made is None:
        _known(name, [other for other in recipes(package) if other != name], "there is no recipe")
    assert made is not None
    return made


def _names(package: str) -> list[str]:
    """The modules of the package as system/table; a recipe may live in any of them."""
    inside = pkgutil.walk_packages(import_module(package).__path__, f"{package}.")
    modules = [module.name.removeprefix(f"{package}.") for module in inside if not module.ispkg]
    return sorted(name.replace(".", "/") for name in modules)


def _made(name: str, package: str) -> Recipe | None:
    module = import_module(f"{package}.{name.replace('/', '.')}")
    made = getattr(module, "recipe", None)
    if isinstance(made, Recipe) and made.name != name:
        raise RecipeError(f"{module.__name__} holds a recipe named {made.name!r}; its name is {name!r}")
    return made if isinstance(made, Recipe) else None


def _known(name: str, known: Iterable[str], what: str) -> str:
    """The name itself; where it is not known, raise with the nearest that are."""
    names = list(known)
    if name not in names:
        near = get_close_matches(name, names, n=3, cutoff=0.8) or get_close_matches(name, names, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there is {', '.join(names) or 'none'}"
        raise RecipeError(f"{what} {name!r}; {hint}")
    return name
