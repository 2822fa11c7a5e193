"""Data that needs no files: the two-armed spiral, scikit-learn's digits, and sums of two digits."""

from __future__ import annotations

from math import pi

import numpy as np
import torch
from jaxtyping import Float32, Int64
from torch import Tensor

from winze.data.select import SEED
from winze.data.sources.source import Source, held

DIGITS = tuple("0123456789")


def spiral(angles: int = 8192, seed: int = SEED) -> tuple[Float32[Tensor, "point 2"], Int64[Tensor, " point"]]:
    """Two spiral arms of `angles` points each, in an order that mixes them.

        α ~ U(0, 2π),  r = α / 2π,  arm 0: (r sin α, r cos α),  arm 1: the same r at α + π

    The toy task of ResidualDroppath: 16384 points in all.
    """
    rng = np.random.default_rng(seed)
    alpha = rng.uniform(0, 2 * pi, angles)
    radius = alpha / (2 * pi)
    arms = [np.stack([radius * np.sin(turned), radius * np.cos(turned)], 1) for turned in (alpha, alpha + pi)]
    order = rng.permutation(2 * angles)
    points = np.concatenate(arms)[order].astype(np.float32)
    labels = np.repeat(np.arange(2), angles)[order].astype(np.int64)
    return torch.from_numpy(points), torch.from_numpy(labels)


def spiral_source() -> Source:
    """The spiral with a test part that is another draw, a quarter of the size."""
    train, test = spiral(8192, SEED), spiral(2048, SEED + 1)
    parts = [held(points, labels.numpy(), "spiral") for points, labels in (train, test)]
    notes = (f"drawn afresh: train seed {SEED}, test seed {SEED + 1}",)
    return Source("spiral", ("arm 0", "arm 1"), parts[0], parts[1], "built in", notes)


def _digits() -> list[tuple[torch.Tensor, np.ndarray]]:
    """Images and labels of scikit-learn's digits, the train part first."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    bunch = load_digits()
    grey = np.rint(bunch.images * (255 / 16)).astype(np.uint8)
    labels = bunch.target.astype(np.int64)
    rows = train_test_split(np.arange(len(labels)), test_size=450, stratify=labels, random_state=SEED)
    return [(torch.from_numpy(grey[part, None]), labels[part]) for part in map(np.sort, rows)]


def digits_source() -> Source:
    """scikit-learn's 1797 digits of 8 x 8, split 1347 / 450 by class with a fixed seed.

    Their 17 grey levels 0-16 become round(255 v / 16), which keeps all of them apart.
    """
    parts = [held(images, labels, "digits") for images, labels in _digits()]
    notes = (f"split 1347 / 450 by class, seed {SEED}; grey levels 0-16 spread over 0-255",)
    return Source("digits", DIGITS, parts[0], parts[1], "scikit-learn", notes)


def digit_sums_source(train: int = 16000, test: int = 4000) -> Source:
    """Two digits side by side, labelled by the last digit of their sum: a task that needs depth.

        image = [a | b], 8 x 16 pixels,   label = (a + b) mod 10

    No linear classifier of the pixels solves it: a network has to recognise both digits and then to add them. Train
    pairs are drawn from the 1347 train digits, test pairs from the 450 test digits, both with fixed seeds.
    """
    parts = []
    for part, ((images, labels), count) in enumerate(zip(_digits(), (train, test), strict=True)):
        left, right = np.random.default_rng(SEED + part).integers(0, len(labels), (2, count))
        pairs = torch.cat([images[left], images[right]], dim=3)
        parts.append(held(pairs, (labels[left] + labels[right]) % 10, "digit_sums"))
    notes = (f"{train} / {test} random pairs of scikit-learn's digits, seeds {SEED} and {SEED + 1}",)
    return Source("digit_sums", DIGITS, parts[0], parts[1], "scikit-learn", notes)
