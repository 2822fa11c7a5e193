"""In-distribution against OOD accuracy of every kept run on CIFAR-10, and what each change of a network moves."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kept_runs import in_words, kept_of
from matplotlib.figure import Figure
from table_text import table

from winze import lab
from winze.lab.claims.quantities import QUANTITIES, hidden
from winze.lab.claims.verdict import Interval, student
from winze.lab.runs.results import readings_of
from winze.readings import Point, Readings, facts
from winze.readings.point import shown
from winze.report import style

TRAINED, OOD = "cifar10", "tinyimagenet"
SCALES = ("gpu", "paper")
OTHERS = ("tunnel/main", "tunnel/capacity", "tunnel/ood", "tunnel/stem", "tunnel/small")  # without a change of ours
CHANGES = {
    "residual_droppath/table1": ("algorithm", "standard", "drop path"),
    "decayed/supervised": ("alpha", 1, "decayed shortcuts"),
    "tunnel/rules": ("rule", "standard", ""),
    "tunnel/no_shortcut": ("network", "resnet", "no shortcuts"),
    "temperature/training": ("temperature", 1, "temperature"),
    "temperature/schedule": ("temperature", 1, "temperature"),
    "temperature/factors": ("factor", "plain", "normalisation or start"),
}
"""The axis of each recipe that changes a network, its value without the change, and what the change is called."""
KINDS = {"slow tunnel": "slow tunnel", "residual droppath": "drop path", "decayed": "decayed shortcuts"}
"""What a change is called by the value on its axis, where its recipe has several."""
PLAIN_WORDS = {"plain": "no shortcuts", "decayed": "decayed shortcuts, alpha_min 0.6"} | {
    f"{frozen} {mask}": f"ResidualDroppath, frozen {frozen.removesuffix('s')}s, per-{mask} mask"
    for frozen in ("output", "weights")
    for mask in ("sample", "batch")
}
"""How a value on the axis of a change is written out."""
WIDEST = 10  # points that the interval of an accuracy may span in the figure
FAMILIES = ("mlp", "vgg", "resnet", "vit")


@dataclass(frozen=True)
class Change:
    """What a change moves, as paired differences over seeds in points."""

    kind: str
    what: str
    network: str
    accuracy: Interval
    ood: Interval


def all_runs(results: Path) -> Figure:
    """Left: one dot per run. Right: one dot per change with 95 % intervals, where that of accuracy is narrow enough."""
    with style.use() as colours:
        drawing, (left, right) = style.panels(2, tall=3.6)
        for spot, family in enumerate(FAMILIES):
            dots = [pair for name, pair in _dots(results) if family in name]
            looks = {
                "color": colours.scans[spot],
                "marker": style.MARKERS[spot],
                "label": f"{family} ({len(dots)} runs)",
            }
            left.plot(*zip(*dots, strict=True), linestyle="", markersize=3.5, alpha=0.7, **looks)
        clear = [one for one in changes(results) if one.accuracy.high - one.accuracy.low <= WIDEST]
        for spot, kind in enumerate(dict.fromkeys(one.kind for one in clear)):
            several = [one for one in clear if one.kind == kind]
            x, y = ([getattr(one, name).estimate for one in several] for name in ("accuracy", "ood"))
            xerr, yerr = ([half(getattr(one, name)) for one in several] for name in ("accuracy", "ood"))
            looks = {"color": colours.scans[spot], "marker": style.MARKERS[spot], "label": kind}
            right.errorbar(x, y, xerr=xerr, yerr=yerr, linestyle="", markersize=4, elinewidth=0.6, **looks)
        for axes in (left, right):
            axes.grid(True)
        right.axhline(0, color=colours.faint, lw=1)
        right.axvline(0, color=colours.faint, lw=1)
        left.set(
            title="One dot per run", xlabel="CIFAR-10 accuracy, %", ylabel="OOD accuracy at the last hidden layer, %"
        )
        right.set(
            title="What a change moves", xlabel="change of accuracy, points", ylabel="change of OOD accuracy, points"
        )
        right.set(xlim=(-11, 6), ylim=(-42, 15))
        left.legend(loc="lower right", fontsize=7)
        right.legend(loc="lower left", fontsize=7)
        return drawing


def moved(results: Path) -> str:
    """The table of all changes, those that keep most OOD accuracy first."""
    head = ["change", "network", "accuracy, points", "OOD accuracy, points", "seeds"]
    order = sorted(changes(results), key=lambda one: -one.ood.estimate)
    rows = [[one.what, one.network, _text(one.accuracy), _text(one.ood), one.ood.n] for one in order]
    return table(
        head,
        rows,
        "Differences from the same network without the change, paired by seed, with 95 % intervals over seeds.",
    )


def half(found: Interval) -> float:
    """Half of the interval, which is symmetric."""
    return found.high - found.estimate


def _text(found: Interval) -> str:
    ends = f" [{found.low:+.1f}, {found.high:+.1f}]" if math.isfinite(found.low + found.high) else ""
    return f"{found.estimate:+.1f}{ends}"


@cache
def changes(results: Path) -> tuple[Change, ...]:
    """Every change that at least three seeds share with the unchanged network; the same change of a run once."""
    found: dict[tuple[str, str, str], Change] = {}
    for name, (axis, plain, kind) in CHANGES.items():
        recipe = lab.recipe(name)
        for scale, points in _sound(name, results):
            for point, seeds in points.items():
                without = points.get(point | {axis: plain}, {})
                shared = sorted(seeds.keys() & without.keys())
                if point[axis] == plain or len(shared) < 3:
                    continue
                pairs = [(_pair(seeds[seed]), _pair(without[seed])) for seed in shared]
                gains = [student([mine[i] - other[i] for mine, other in pairs]) for i in (0, 1)]
                rest = [
                    in_words(recipe, f"{axis} {shown(point[axis])}") for axis in ("blocks", "rate") if axis in point
                ]
                rest += ["300 epochs"] * (scale == "paper")
                value = shown(point[axis])
                what = f"{axis} {value}" if axis in ("alpha", "temperature") else PLAIN_WORDS.get(value, value)
                one = Change(kind or KINDS[value], what, ", ".join([_network(name, point), *rest]), *gains)
                found.setdefault((one.kind, one.what, one.network), one)
    return tuple(found.values())


def _network(name: str, point: Point) -> str:
    if name == "tunnel/no_shortcut":
        return f"resnet{point['depth']}"
    return str(point.get("network", {"decayed/supervised": "resnet"}.get(name, "mlp8")))


@cache
def _dots(results: Path) -> tuple[tuple[str, tuple[float, float]], ...]:
    """Every run that has both accuracies: the name of its network, and the two."""
    return tuple(
        (str(lab.recipe(name).config(scale, point).network.name), _pair(one))
        for name in (*CHANGES, *OTHERS)
        for scale, points in _sound(name, results)
        for point, seeds in points.items()
        for one in seeds.values()
    )


def _sound(name: str, results: Path) -> Iterator[tuple[str, dict[Point, dict[int, Readings]]]]:
    """The runs on CIFAR-10 that learned their data and have OOD accuracies, by scale."""
    recipe = lab.recipe(name)
    for scale, points in kept_of(name, results).items():
        if scale in SCALES:
            sound = recipe.sound(readings_of(points))
            yield (
                scale,
                {point: {seed: one for seed, one in seeds.items() if _has(one)} for point, seeds in sound.items()},
            )


def _has(readings: Readings) -> bool:
    return facts.home(readings) == TRAINED and OOD in facts.others(readings)


def _pair(readings: Readings) -> tuple[float, float]:
    """The network's own accuracy and OOD accuracy at the last hidden layer, both in points."""
    return 100 * QUANTITIES["accuracy"](readings), 100 * hidden("probe", OOD)(readings)
