"""A recipe is data: a paper's table or figure as a study, axes, scales, claims and figures."""

from __future__ import annotations

import pkgutil
import re
import sys
import traceback
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, is_dataclass, replace
from fnmatch import fnmatchcase
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from winze.hints import did_you_mean
from winze.lab.axes import Axis, AxisError, PointGrid, Scale
from winze.lab.claims.claim import Claim, Judged, Question, RunReadings, Several, Statement, judge
from winze.lab.claims.quantities import Quantity, resolved
from winze.lab.runs.job import Job, plain
from winze.lab.study import learn_and_read
from winze.readings import Label, Point, Readings, ReadingsError
from winze.report.experiment.drawing import Drawing
from winze.train.fields import FieldError, check_types, replaced

if TYPE_CHECKING:
    from winze.lab.bench import Bench

PACKAGE = "winze.recipes"  # by name: recipes are imported only when one is requested


class RecipeError(ValueError):
    """A recipe that contradicts itself, or a part that does not exist."""


@dataclass(frozen=True)
class Recipe:
    """A published experiment.

    `study` holds the published settings, `axes` what is varied, `scales` the parts of the grid that run. `work(study,
    bench)` does one run and adds its results to `bench.readings`. `quantities` are named numbers of a run, for claims
    that share them. `measures` are globs of the measures, and of the arrays by name, that results/ keeps. `learned` is
    (quantity, twice chance): a run below it failed to learn; it is kept, named beside the verdicts, and not averaged.
    `changed` settings (`winze run --set`) replace those of every point. Contradictions raise at import.
    """

    name: str
    system: str
    paper: str
    url: str
    study: Any
    axes: Mapping[str, Axis]
    scales: Mapping[str, Scale]
    shows: str = ""
    work: Callable[[Any, Bench], None] = learn_and_read
    claims: tuple[Claim, ...] = ()
    questions: tuple[Question, ...] = ()
    quantities: Mapping[str, Quantity] = field(default_factory=dict)
    figures: tuple[Drawing, ...] = ()
    departures: tuple[str, ...] = ()
    measures: tuple[str, ...] = ("*",)
    learned: tuple[str | Quantity, float] = ("accuracy", 0.2)
    changed: Mapping[str, Any] = field(default_factory=dict)
    file: str = ""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9_]+/[a-z0-9_]+", self.name):
            raise RecipeError(f"a recipe's name is system/table, such as tunnel/main, not {self.name!r}")
        if not is_dataclass(self.study) or isinstance(self.study, type):
            raise RecipeError(f"{self.name}: study is a frozen dataclass such as Study(...), not {self.study!r}")
        if not self.scales:
            raise RecipeError(f"{self.name} has no scales")
        for name in self.scales:
            self._check_scale(name)
        for statement in (*self.claims, *self.questions):
            self._check_statement(statement)
        for name, quantity in self.quantities.items():
            self._check_measures(quantity, f"{self.name}: quantity {name!r}")
        for figure in self.figures:
            for axis in figure.axes:
                known(axis, self.axes, f"{self.name}, figure {figure.title!r}: there is no axis")

    def scale(self, name: str) -> Scale:
        """One of the scales, by name."""
        return self.scales[known(name, self.scales, f"{self.name} has no scale")]

    def grid(self, scale: str) -> PointGrid:
        """The points that run at a scale."""
        self.scale(scale)
        return self._grids[scale]

    @cached_property
    def _grids(self) -> dict[str, PointGrid]:
        return {name: PointGrid.of(self.axes, scale) for name, scale in self.scales.items()}

    def config(self, scale: str, point: Point) -> Any:
        """The study at a point of this scale, which the work receives."""
        chosen = self.scale(scale)
        if point not in self.grid(scale):
            self._check_values(point, f"{self.name} has")
            raise RecipeError(f"{self.name} does not run {point} at scale {scale}")
        axes = (
            axis.settings(label) for name, label in point.items() if not _is_set(axis := self.axes[name], self.changed)
        )
        last = (settings for values, settings in chosen.at if point.lies_at(values))
        config = self.study
        try:
            for settings in (chosen.settings, *axes, *last, self.changed):
                config = replaced(config, settings)
            check_types(config)
        except (FieldError, ValueError) as error:
            raise RecipeError(f"{self.name}, scale {scale}, {point}: {error}") from error
        return config

    def jobs(
        self, scale: str, at: Mapping[str, Iterable[Label]] | None = None, seeds: Iterable[int] | None = None
    ) -> list[Job]:
        """Every run of a scale, or those `at` some values of its axes; all points of one seed precede the next seed."""
        wanted = {name: tuple(labels) for name, labels in (at or {}).items()}
        self._check_values(wanted, f"{self.name} has")
        points = [p for p in self.grid(scale).points if all(p[name] in labels for name, labels in wanted.items())]
        if not points:
            chosen = "; ".join(f"{name}={','.join(map(str, labels))}" for name, labels in wanted.items())
            raise RecipeError(f"{self.name} runs nothing at {chosen} at scale {scale}")
        configs = {point: self.config(scale, point) for point in points}
        numbers = self.scale(scale).seed_numbers if seeds is None else tuple(dict.fromkeys(seeds))
        return [
            Job(self.name, scale, point, seed, config, self.file)
            for seed in numbers
            for point, config in configs.items()
        ]

    def with_settings(self, settings: Mapping[str, Any], scale: str) -> Recipe:
        """One scale of the recipe with some settings replaced at every point, as `winze run --set` does it.

        Settings are checked at this scale only, and no claim speaks of them. An axis of such a setting, or of a part of
        it, has one value.
        """
        if not settings:
            return self
        axes, chosen = dict(self.axes), self.scale(scale)
        for name, axis in self.axes.items():
            if whole := _is_set(axis, settings):
                value = settings[whole]
                axes[name] = Axis(axis.field, (value if isinstance(value, str | int | float | bool) else str(value),))
                values = {other: labels for other, labels in chosen.axes.items() if other != name}
                chosen = replace(chosen, axes=values, only=None)
        changed = {**self.changed, **settings}
        return replace(self, changed=changed, axes=axes, scales={scale: chosen}, claims=(), questions=())

    def verdicts(self, scale: str, runs: RunReadings) -> list[Judged]:
        """Every claim, then every question, that a scale can judge, with its verdict."""
        grid, sound = self.grid(scale), self.sound(runs)
        asked = [one for one in (*self.claims, *self.questions) if one.scales is None or scale in one.scales]
        judged = (replace(judge(one, grid, sound, self.quantities), scale=scale) for one in asked)
        return [one for one in judged if one.cells]

    def sound(self, runs: RunReadings) -> dict[Point, dict[int, Readings]]:
        """The runs that learned their data."""
        return {
            point: {seed: one for seed, one in seeds.items() if not self.failed(one)} for point, seeds in runs.items()
        }

    def failed(self, readings: Readings) -> str:
        """Why a run counts as failed; empty where it learned, or where this is unknown."""
        quantity, least = self.learned
        number, name = resolved(quantity, self.quantities)
        try:
            value = float(number(readings))
        except ReadingsError:
            return ""
        return "" if value >= least else f"{name} {value:.3g} is below {least:.3g}"

    def _check_scale(self, name: str) -> None:
        scale, where = self.scales[name], f"{self.name}, scale {name}"
        numbers = scale.seed_numbers
        whole = all(isinstance(seed, int) and seed >= 0 for seed in numbers)
        if not (numbers and whole and len(set(numbers)) == len(numbers)):
            raise RecipeError(f"{where}: seeds are different whole numbers from 0, not {scale.seeds}")
        for values in (scale.axes, *(values for values, _ in scale.at)):
            self._check_values(values, f"{where}: there is")
        points = self.grid(name).points
        if not points:
            raise RecipeError(f"{where}: no point runs")
        for point in points:
            plain(self.config(name, point))

    def _check_values(self, values: Mapping[str, Any], what: str) -> None:
        """Raise unless these are values of the axes: one value of each axis, or a tuple of them."""
        for name, value in values.items():
            axis = self.axes[known(name, self.axes, f"{what} no axis")]
            for label in value if isinstance(value, tuple) else (value,):
                if label not in axis.labels and not _is_set(axis, self.changed):
                    known(str(label), map(str, axis.labels), f"{what} no value of {name}")

    def _check_statement(self, statement: Statement) -> None:
        what = f"{self.name}, {statement.text!r}:"
        for axis in (*statement.axes, *statement.at, *statement.check.axes):
            known(axis, self.axes, f"{what} there is no axis")
        self._check_values(statement.at, f"{what} there is")
        check = statement.check
        for one in check.checks.values() if isinstance(check, Several) else (check,):
            for values, _ in getattr(one, "terms", ()):
                self._check_values(values, f"{what} there is")
            if one.quantity is not None:
                try:
                    quantity, _ = resolved(one.quantity, self.quantities)
                except ValueError as error:
                    raise RecipeError(f"{what} {error}") from error
                self._check_measures(quantity, what)
        for scale in statement.scales or ():
            known(scale, self.scales, f"{what} there is no scale")
        try:
            judged = [name for name in statement.scales or self.scales if statement.cells(self.grid(name))]
        except AxisError as error:
            raise RecipeError(f"{what} {error}") from error
        if not judged or (statement.scales and len(judged) < len(statement.scales)):
            raise RecipeError(f"{what} no scale runs all that it compares")

    def _check_measures(self, quantity: Quantity, what: str) -> None:
        for measure in getattr(quantity, "measures", ()):
            if not any(fnmatchcase(measure, kept) for kept in self.measures):
                raise RecipeError(f"{what} reads {measure!r}, which measures= leaves out")


def _is_set(axis: Axis, settings: Iterable[str]) -> str:
    """The setting, if any, that replaces what an axis varies: its field, or a part of the study that holds it."""
    return next((name for name in settings if f"{axis.field}.".startswith(f"{name}.")), "")


def recipes(package: str = PACKAGE) -> Mapping[str, Recipe]:
    """Every recipe by name; modules whose name starts with an underscore are not recipes."""
    return {name: _made(name, package) for name in _names(package)}


def recipe(name: str, package: str = PACKAGE) -> Recipe:
    """The recipe of that name, or the one in a file of the user's; only its own module is imported."""
    if name.endswith(".py"):
        return from_file(name)
    known(name, _names(package), "there is no recipe")
    return _made(name, package)


def from_file(path: str) -> Recipe:
    """The recipe that a Python file defines as `recipe`; it is run once per process, and again when it changes."""
    file = Path(path).resolve()
    if not file.is_file():
        raise RecipeError(f"there is no file {path}")
    return _from_file(file, file.stat().st_mtime_ns)


@cache
def _from_file(file: Path, changed: int) -> Recipe:
    name = f"winze_recipe_{file.stem}_{zlib.crc32(str(file).encode()):08x}"
    module = ModuleType(name)
    module.__file__ = str(file)
    sys.modules[name] = module  # dataclasses look up their module
    try:
        exec(compile(file.read_bytes(), str(file), "exec"), vars(module))  # an import could take stale bytecode
    except (ValueError, OSError):  # these speak for themselves
        raise
    except Exception as error:
        frames = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
        line = error.lineno if isinstance(error, SyntaxError) else frames[-1]
        raise RecipeError(f"{file}, line {line}: {type(error).__name__}: {error}") from error
    return replace(_recipe_in(module, str(file)), file=str(file))


def _names(package: str) -> list[str]:
    """The modules of the package as system/table."""
    inside = pkgutil.walk_packages(import_module(package).__path__, f"{package}.")
    modules = [module.name.removeprefix(f"{package}.") for module in inside if not module.ispkg]
    return sorted(name.replace(".", "/") for name in modules if "._" not in name)


def _made(name: str, package: str) -> Recipe:
    module = import_module(f"{package}.{name.replace('/', '.')}")
    made = _recipe_in(module, module.__name__)
    if made.name != name:
        raise RecipeError(
            f"{module.__name__} defines a recipe named {made.name!r}; its module requires the name {name!r}"
        )
    return made


def _recipe_in(module: ModuleType, where: str) -> Recipe:
    made = getattr(module, "recipe", None)
    if not isinstance(made, Recipe):
        raise RecipeError(f"{where} defines no `recipe = Recipe(...)`")
    return made


def known(name: str, names: Iterable[str], what: str) -> str:
    """The name itself; an unknown one raises with the nearest known names."""
    there = list(names)
    if name not in there:
        hint = did_you_mean(name, there) or f"; there is {', '.join(there) or 'none'}"
        raise RecipeError(f"{what} {name!r}{hint}")
    return name
