"""Which other sets networks are probed on, and how that is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from winze.readings import Array, Readings
from winze.recipes.tunnel.settings import TEN_OF_CIFAR100
from winze.report import facts
from winze.report.arms import arm_profiles
from winze.report.curves import Curve

if TYPE_CHECKING:
    import matplotlib.figure

ORDER = np.random.default_rng(0).permutation(100).tolist()
COUNTS = (5, 10, 20, 50)
HERE = ("mnist", "fashion_mnist", "usps", "dtd", "caltech101", "pets")
ELSEWHERE = ("stl10", "svhn", "food101", "flowers102", "places365", TEN_OF_CIFAR100)
DIGITS = ("digits[5-9]", "digits[5-6]", "digits[5-7]")


def some(name: str, count: int) -> str:
    """The first `count` classes of a set of a hundred, in an order that was drawn once."""
    if count == len(ORDER):
        return name
    return f"{name}[{','.join(map(str, ORDER[:count]))}]"


TINY_SETS = tuple(some("tinyimagenet100", count) for count in COUNTS)
CIFAR_SETS = tuple(some("cifar100", count) for count in COUNTS)
SUBSETS = (*TINY_SETS, *CIFAR_SETS, *DIGITS)
OF_CLASSES = {some(name, count): count for name in ("tinyimagenet100", "cifar100") for count in COUNTS} | dict(
    zip(DIGITS, (5, 2, 3), strict=True)
)
MANY = {"tinyimagenet": "Tiny-ImageNet", TEN_OF_CIFAR100: "CIFAR-100"} | {
    name: name.replace("_", " ") for name in (*HERE, *ELSEWHERE[:-1])
}


def of_best(curve: Array) -> Array:
    """Every value as a share of the highest."""
    return curve / np.nanmax(curve)


def first_other(arms: Mapping[str, Sequence[Readings]], theme: str = "light") -> matplotlib.figure.Figure:
    """Draw the depth profile with the first other set alone: a dozen lines would hide it."""
    return arm_profiles({arm: [_without_later_sets(one) for one in runs] for arm, runs in arms.items()}, theme)


def _without_later_sets(readings: Readings) -> Readings:
    later = facts.others(readings)[1:]
    return replace(readings, rows=[row for row in readings.rows if row.data not in later])


OWN = Curve("its own data", "probe", dash="--", beside=True)
EACH_SET = [
    OWN,
    *(Curve(said, "probe", name, 1 + i % 6, ":" if i >= 6 else "-") for i, (name, said) in enumerate(MANY.items())),
]
EACH_COUNT = [
    OWN,
    *(
        Curve(f"{count} classes", "probe", name, 1 + sorted({2, 3, *COUNTS}).index(count))
        for name, count in OF_CLASSES.items()
    ),
]
