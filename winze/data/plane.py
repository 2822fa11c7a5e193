"""Labelled points in the plane: the small sets on which a network can be watched."""

from __future__ import annotations

from collections.abc import Callable
from math import pi

import numpy as np
import torch
from jaxtyping import Float32, Int64
from torch import Tensor

from winze.data.data_error import DataError
from winze.data.select import SEED
from winze.data.synthetic import spiral

Drawn = tuple[np.ndarray, np.ndarray]
NumpyGenerator = np.random.Generator


def plane(
    kind: str, points: int = 512, noise: float = 0.0, classes: int = 2, seed: int = SEED
) -> tuple[Float32[Tensor, "point 2"], Int64[Tensor, " point"]]:
    """Draw labelled points around [-1, 1]², in an order that mixes the classes.

    `kind` is spiral, circles, xor, gaussians or moons. `noise` is the standard deviation of what is added to both
    coordinates, after labels are given. `classes` counts the Gaussians; every other kind has two classes.
    """
    if kind not in KINDS:
        raise DataError(f"points in the plane are one of {', '.join(KINDS)}, not {kind!r}")
    if points < 2 or noise < 0:
        raise DataError(f"plane: needs at least 2 points and a noise of at least 0, got {points} and {noise}")
    if classes < 2 or (classes != 2 and kind != "gaussians"):
        raise DataError(f"plane: {kind} has two classes; only gaussians may have more, got {classes}")
    rng = np.random.default_rng(seed)
    if kind == "spiral":
        first, labels = (part.numpy() for part in spiral(-(-points // 2), seed))
        first, labels = first[:points], labels[:points]
    else:
        first, labels = DRAW[kind](points, classes, rng)
        order = rng.permutation(points)
        first, labels = first[order], labels[order]
    moved = first + noise * rng.standard_normal(first.shape)
    return torch.from_numpy(moved.astype(np.float32)), torch.from_numpy(labels.astype(np.int64))


def _circles(points: int, classes: int, rng: NumpyGenerator) -> Drawn:
    labels = np.arange(points) % 2
    radius = np.where(labels == 0, 0.8, 0.35) + rng.uniform(-0.1, 0.1, points)
    angle = rng.uniform(0, 2 * pi, points)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1), labels


def _xor(points: int, classes: int, rng: NumpyGenerator) -> Drawn:
    corner = np.arange(points) % 4
    signs = np.stack([1 - 2 * (corner // 2), 1 - 2 * (corner % 2)], 1)
    return signs * rng.uniform(0.06, 0.95, (points, 2)), np.where(signs.prod(1) > 0, 0, 1)


def _gaussians(points: int, classes: int, rng: NumpyGenerator) -> Drawn:
    labels = np.arange(points) % classes
    angle = 2 * pi * labels / classes + pi / 4
    centres = 0.55 * np.stack([np.cos(angle), np.sin(angle)], 1)
    return centres + 0.12 * rng.standard_normal((points, 2)), labels


def _moons(points: int, classes: int, rng: NumpyGenerator) -> Drawn:
    labels = np.arange(points) % 2
    angle = rng.uniform(0, pi, points)
    upper = np.stack([np.cos(angle) - 0.5, np.sin(angle) - 0.25], 1)
    return 0.6 * np.where(labels[:, None] == 0, upper, -upper), labels


DRAW: dict[str, Callable[[int, int, NumpyGenerator], Drawn]] = {
    "circles": _circles,
    "xor": _xor,
    "gaussians": _gaussians,
    "moons": _moons,
}
KINDS = ("spiral", *DRAW)  # `winze.data.spiral` draws the first
