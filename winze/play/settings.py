"""What the page may ask for: points, one or two networks and how they are trained, checked before anything is built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, Literal

import winze.shape
from winze.data.plane import KINDS
from winze.networks.models.spiral_mlp import ACTIVATIONS
from winze.shape import Rule, Standard
from winze.shape.rules.masks import DRAWS, MASKS, PROFILES
from winze.train import SGD, Adam, AdamW, NAdam

DRAWN = "drawn"
DATA = (*KINDS, DRAWN)
OPTIMIZERS = {"Adam": Adam, "AdamW": AdamW, "NAdam": NAdam, "SGD": SGD}
OBJECTIVES = {"cross_entropy": "cross-entropy", "mse": "mean squared error"}
MOST_DRAWN, MOST_CLASSES = 2000, 4
HIDDEN = ("compute",)  # how a rule is computed changes no result

RULES: dict[str, type[Rule]] = {
    name: kind
    for name in winze.shape.__all__
    if isinstance(kind := getattr(winze.shape, name), type) and issubclass(kind, Rule) and kind is not Rule
}
CHOICES = {"profile": PROFILES, "mask": MASKS, "draw": DRAWS, "frozen": ("output", "weights")}
RANGES = {"rate": (0.0, 0.9), "shortcut": (-1.0, 2.0), "branch": (-1.0, 2.0), "bias": (-4.0, 4.0)}
UNIT = (0.0, 1.0)


class SettingsError(ValueError):
    """A setting that the playground does not take."""


@dataclass(frozen=True)
class Arm:
    """One network and how it is trained."""

    depth: int = 6
    width: int = 6
    activation: str = "gelu"
    rule: Rule = field(default_factory=Standard)
    objective: str = "cross_entropy"
    temperature: float | Literal["norm"] = 1.0
    """a number, or "norm": the norm of the logits"""
    optimizer: str = "Adam"
    lr: float = 0.01


@dataclass(frozen=True)
class Setup:
    """Everything that decides what the page shows: the same settings and seed give the same training."""

    data: str = "spiral"
    points: int = 1024
    noise: float = 0.0
    classes: int = 2
    """of gaussians; every other set has two, drawn points as many as were drawn"""
    drawn: tuple[tuple[float, float, int], ...] = ()
    batch: int = 128
    seed: int = 0
    arms: tuple[Arm, ...] = (Arm(),)


BOUNDS: dict[str, tuple[float, float]] = {
    "depth": (1, 64),
    "width": (2, 32),
    "temperature": (0.01, 1000),
    "lr": (1e-5, 1.0),
    "points": (16, 16384),
    "noise": (0.0, 0.5),
    "classes": (2, MOST_CLASSES),
    "batch": (1, 1024),
    "seed": (0, 2**31 - 1),
}


def parse(given: Any) -> Setup:
    """The settings of a message; what it leaves out keeps its default, what it does not know raises."""
    told = _known(given, Setup, "settings")
    numbers: dict[str, Any] = {
        name: whole(told, name, *BOUNDS[name]) for name in ("points", "classes", "batch", "seed") if name in told
    }
    setup = Setup(**numbers)
    if "data" in told:
        setup = replace(setup, data=_choice(told, "data", DATA))
    if "noise" in told:
        setup = replace(setup, noise=_number(told, "noise"))
    if "drawn" in told:
        setup = replace(setup, drawn=_points(told["drawn"]))
    if "arms" in told:
        arms = told["arms"]
        if not isinstance(arms, list) or not 1 <= len(arms) <= 2:
            raise SettingsError("arms is a list of one or two networks")
        setup = replace(setup, arms=tuple(map(_arm, arms)))
    if setup.data != "gaussians":
        setup = replace(setup, classes=2)
    if setup.data == DRAWN:
        labels = {label for _, _, label in setup.drawn}
        if len(labels) < 2 or len(setup.drawn) < 4:
            raise SettingsError("draw at least four points in two classes")
        setup = replace(setup, classes=max(labels) + 1)
    return setup


def plain(setup: Setup) -> dict[str, Any]:
    """The settings as JSON values, which `parse` takes back."""
    return {
        **{name: getattr(setup, name) for name in ("data", "points", "noise", "classes", "batch", "seed")},
        "drawn": [list(point) for point in setup.drawn],
        "arms": [
            {one.name: getattr(arm, one.name) for one in fields(Arm) if one.name != "rule"}
            | {"rule": {"name": type(arm.rule).__name__, **_options(arm.rule)}}
            for arm in setup.arms
        ],
    }


def catalogue() -> dict[str, Any]:
    """What the page offers: choices, bounds, defaults, and every rule with its parameters."""
    return {
        "data": list(DATA),
        "activations": list(ACTIVATIONS),
        "objectives": OBJECTIVES,
        "optimizers": list(OPTIMIZERS),
        "bounds": {name: list(ends) for name, ends in BOUNDS.items()},
        "rules": {name: {"about": _sentence(kind), "options": _parameters(kind)} for name, kind in RULES.items()},
        "defaults": plain(Setup()),
        "most_drawn": MOST_DRAWN,
        "most_classes": MOST_CLASSES,
    }


def _parameters(kind: type[Rule]) -> dict[str, dict[str, Any]]:
    """The parameters of a rule: a range for each number, the choices of each word, a flag."""
    found: dict[str, dict[str, Any]] = {}
    for one in fields(kind):
        default = one.default
        if one.name in HIDDEN or default is MISSING:
            continue
        if isinstance(default, bool):
            found[one.name] = {"kind": "flag", "default": default}
        elif isinstance(default, int | float):
            low, high = RANGES.get(one.name, UNIT)
            found[one.name] = {"kind": "number", "default": default, "low": low, "high": high}
        elif one.name in CHOICES:
            found[one.name] = {"kind": "choice", "default": default, "choices": list(CHOICES[one.name])}
    return found


def _options(rule: Rule) -> dict[str, Any]:
    return {name: getattr(rule, name) for name in _parameters(type(rule))}


def _sentence(kind: type[Rule]) -> str:
    return (kind.__doc__ or "").strip().split("\n", 1)[0]


def _arm(given: Any) -> Arm:
    told = _known(given, Arm, "a network")
    found: dict[str, Any] = {name: whole(told, name, *BOUNDS[name]) for name in ("depth", "width") if name in told}
    choices: dict[str, Any] = {"activation": ACTIVATIONS, "objective": OBJECTIVES, "optimizer": OPTIMIZERS}
    found |= {name: _choice(told, name, tuple(known)) for name, known in choices.items() if name in told}
    if "lr" in told:
        found["lr"] = _number(told, "lr")
    if "temperature" in told:
        found["temperature"] = "norm" if told["temperature"] == "norm" else _number(told, "temperature")
    if "rule" in told:
        found["rule"] = _rule(told["rule"])
    return Arm(**found)


def _rule(given: Any) -> Rule:
    if not isinstance(given, Mapping):
        raise SettingsError("a rule is an object with a name")
    name = _choice(given, "name", tuple(RULES))
    known, found = _parameters(RULES[name]), dict[str, Any]()
    for key, value in given.items():
        if key == "name":
            continue
        if key not in known:
            raise SettingsError(f"{name} has no parameter {str(key)[:40]!r}; it has {', '.join(known) or 'none'}")
        about = known[key]
        if about["kind"] == "number":
            found[key] = _within(value, key, about["low"], about["high"])
        elif about["kind"] == "flag":
            if not isinstance(value, bool):
                raise SettingsError(f"{key} is true or false")
            found[key] = value
        else:
            found[key] = _choice(given, key, tuple(about["choices"]))
    return RULES[name](**found)


def _known(given: Any, kind: type, what: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise SettingsError(f"{what} must be an object")
    names = {one.name for one in fields(kind)}
    strange = [str(name)[:40] for name in given if name not in names]
    if strange:
        raise SettingsError(f"{what}: there is no setting {strange[0]!r}")
    return given


def _choice(told: Mapping[str, Any], name: str, choices: tuple[str, ...]) -> str:
    value = told.get(name)
    if not isinstance(value, str) or value not in choices:
        raise SettingsError(f"{name} is one of {', '.join(choices)}, not {str(value)[:40]!r}")
    return value


def _number(told: Mapping[str, Any], name: str) -> float:
    return _within(told[name], name, *BOUNDS[name])


def whole(told: Mapping[str, Any], name: str, low: float, high: float, default: int | None = None) -> int:
    """A whole number of a message, within its bounds."""
    value = told.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise SettingsError(f"{name} is a whole number, not {str(value)[:40]!r}")
    return int(_within(value, name, low, high))


def _within(value: Any, name: str, low: float, high: float) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise SettingsError(f"{name} is a number, not {str(value)[:40]!r}")
    if not low <= value <= high:  # NaN lies nowhere; whole numbers may be too large for a float
        raise SettingsError(f"{name} lies between {low:g} and {high:.10g}, not at {str(value)[:40]}")
    return float(value)


def _points(given: Any) -> tuple[tuple[float, float, int], ...]:
    if not isinstance(given, list) or len(given) > MOST_DRAWN:
        raise SettingsError(f"drawn is a list of at most {MOST_DRAWN} points")
    found = []
    for one in given:
        if not isinstance(one, list) or len(one) != 3:
            raise SettingsError("a drawn point is [x, y, class]")
        x, y = (_within(value, "a drawn coordinate", -1.0, 1.0) for value in one[:2])
        label = one[2]
        if not isinstance(label, int) or isinstance(label, bool) or not 0 <= label < MOST_CLASSES:
            raise SettingsError(f"the class of a drawn point lies between 0 and {MOST_CLASSES - 1}")
        found.append((x, y, label))
    return tuple(found)
