"""A recipe of no work at all, and readings that say what a test wants."""

from dataclasses import dataclass, field
from typing import Literal

from winze.lab import Axis, Claim, Recipe, Scale, lower
from winze.lab.claims.quantities import Whole
from winze.place import Place
from winze.readings import Point, Readings


@dataclass(frozen=True)
class Inner:
    rate: float = 0.1
    steps: int = 10


@dataclass(frozen=True)
class Settings:
    name: str = "plain"
    size: int = 3
    inner: Inner = field(default_factory=Inner)
    milestones: tuple[int, ...] = ()
    kind: Literal["long", "short"] = "long"
    limit: int | None = None


def score(value, note=""):
    """Readings of one number."""
    made = Readings()
    made.add("score", value, note=note)
    return made


PLAIN, FAST = Point(speed="plain"), Point(speed="fast")


def runs(**speeds):
    """One score per seed at every speed: runs(plain=[1, 2, 3], fast=[4, 5, 6]), or by seed: runs(fast={0: 1, 2: 3})."""
    seeds = {speed: values if isinstance(values, dict) else dict(enumerate(values)) for speed, values in speeds.items()}
    return {
        Point(speed=speed): {seed: score(value) for seed, value in values.items()} for speed, values in seeds.items()
    }


QUANTITIES = {"score": Whole("score")}


def curves(*probes, accuracy=None, ood=None, layers=None, correct=None):
    """Readings of one run for each probe curve, by seed; `correct` are boolean arrays [place, sample]."""
    made = {}
    for seed, probe in enumerate(probes):
        one = Readings(conventions={"data": "cifar10", "places": [f"layers.{i}" for i in range(len(probe))]})
        places = [Place(i, len(probe), f"layers.{i}") for i in range(len(probe))]
        for place, value in zip(places, probe, strict=True):
            one.add("probe", value, place=place, data="cifar10", split="test", n=100)
            one.add("numerical_rank", 100 - 10 * place.index, place=place, data="cifar10", split="test", n=100)
        for place, value in zip(places, ood or (), strict=False):
            one.add("probe", value, place=place, data="others", split="test", n=50)
        one.add("accuracy", probe[-1] if accuracy is None else accuracy, data="cifar10", split="test", n=100)
        if layers:
            one.conventions = one.conventions.having(layers=layers)
        if correct is not None:
            one.arrays["correct/cifar10"] = correct[seed]
            one.arrays["correct/network"] = correct[seed][-1]
        made[seed] = one
    return made


LOWER = Claim("fast scores lower", "table 1", lower("score", {"speed": "fast"}, than={"speed": "plain"}), paper="12 %")


def make_recipe(**changes):
    """A recipe with two points and two scales, with whatever a test wants otherwise."""
    parts = {
        "name": "small/score",
        "system": "S0",
        "shows": "less is less",
        "paper": "A Paper <of 2024>",
        "url": "https://example.org/paper",
        "study": Settings(),
        "axes": {"speed": Axis("inner.rate", {"plain": 0.1, "fast": 0.5})},
        "scales": {"smoke": Scale({"size": 1}), "cpu": Scale(seeds=3)},
        "work": lambda config, bench: bench.readings.add("score", config.inner.rate + bench.seed),
        "quantities": QUANTITIES,
        "claims": (LOWER,),
        "departures": ("it is not the paper's network",),
    }
    return Recipe(**parts | changes)
