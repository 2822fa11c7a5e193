"""Readings as a scan stores them, with known answers, made without a network."""

import numpy as np

from winze.place import Place
from winze.readings import Readings


def correctness(shares: np.ndarray, samples: int) -> np.ndarray:
    """Nested hits: a place is right on the first samples, so its accuracy is exact."""
    return np.arange(samples)[None] < np.round(np.asarray(shares) * samples)[:, None]


def scan(
    probe: list[float] | None = None,
    ood: dict[str, list[float]] | None = None,
    ranks: list[float] | None = None,
    accuracy: float | None = 0.982,
    names: list[str] | None = None,
    costs: bool = True,
    arrays: bool = True,
    samples: int = 500,
    classes: list[str] | None = None,
) -> Readings:
    """A scan of 19 places whose extractor ends at layer 8, unless told otherwise."""
    rng = np.random.default_rng(0)
    if probe is None:
        probe = [0.42, 0.5, 0.58, 0.66, 0.74, 0.82, 0.9, 0.972, *np.linspace(0.974, 0.982, 11)]
    total = len(probe)
    names = names or [f"features.{3 * i + 1}" for i in range(total)]
    if ood is None:
        ood = {"textures": [0.3 + 0.03 * i if i < 7 else 0.48 - 0.0083 * (i - 6) for i in range(total)]}
    ranks = ranks or [
        float(round(10 + 200 * np.exp(-(((i - total / 3) / (total / 4 + 0.1)) ** 2)))) for i in range(total)
    ]
    made = Readings(conventions=conventions(names, list(ood), classes))
    places = [Place(i, total, name) for i, name in enumerate(names)]
    for place, value in zip(places, probe, strict=True):
        made.add("probe", value, place=place, data="cifar10", split="test", low=value - 0.01, high=value + 0.01, n=500)
    for name, curve in ood.items():
        for place, value in zip(places, curve, strict=True):
            made.add("probe", value, place=place, data=name, split="test", low=value - 0.02, high=value + 0.02, n=200)
    for place, rank in zip(places, ranks, strict=True):
        depth = (place.index + 1) / total
        values = {
            "numerical_rank": rank,
            "effective_rank": rank / 2,
            "participation_ratio": rank / 3,
            "intra_variance": 2.0 - 1.8 * depth,
            "inter_variance": 0.2 + 1.5 * depth,
            "nc1": 3 * (1 - depth) + 0.1,
            "sample_norm": 10 + place.index,
            "features": 512,
        }
        if costs:
            values |= {"cut_parameters": 20e6 * depth, "cut_flops": 4e8 * depth, "cut_seconds": 0.05 * depth + 0.001}
        for measure, value in values.items():
            made.add(measure, value, place=place, data="cifar10", split="test", n=500)
    if accuracy is not None:
        made.add("accuracy", accuracy, data="cifar10", split="test", low=0.97, high=0.99, n=500)
    if costs:
        for measure, value in {"parameters": 20e6, "flops": 4e8, "seconds": 0.051}.items():
            made.add(measure, value)
    if arrays:
        add_arrays(made, np.array(probe), ranks, samples, accuracy, rng, len(classes or range(10)))
    return made


def add_arrays(
    made: Readings,
    probe: np.ndarray,
    ranks: list[float],
    samples: int,
    accuracy: float | None,
    rng: np.random.Generator,
    classes: int,
) -> None:
    total = len(probe)
    made.arrays["correct/cifar10"] = correctness(np.nan_to_num(probe), samples)
    if accuracy is not None and np.isfinite(accuracy):
        made.arrays["correct/network"] = correctness(np.array([accuracy]), samples)[0]
    step = np.subtract.outer(np.arange(total), np.arange(total))
    made.arrays["cka"] = np.exp(-np.abs(step) / (1 + np.arange(total)[:, None] + np.arange(total)[None]))
    labels = rng.integers(0, classes, 240)
    made.arrays["embedding/labels"] = labels
    centres = rng.normal(size=(classes, 2))
    for index, rank in enumerate(ranks):
        made.arrays[f"spectrum/{index}"] = np.exp(-np.arange(64) / (1 + rank / 20)) * 5
        spread = 1.5 * (1 - (index + 1) / total) + 0.1
        made.arrays[f"embedding/{index}"] = (centres[labels] * 3 + rng.normal(size=(240, 2)) * spread).astype("f4")


def conventions(names: list[str], ood: list[str], classes: list[str] | None) -> dict[str, object]:
    return {
        "network": "vgg19",
        "data": "cifar10",
        "ood": ood,
        "places": names,
        "pool": "mean",
        "probe": "ridge",
        "samples": {"cifar10": {"train": 50000, "test": 500}},
        "batch": 256,
        "cka": {"estimator": "unbiased minibatch", "batch": 256},
        "rank": {"threshold": 0.001, "of": "covariance spectrum of centred features", "max_features": 8000},
        "preprocess": None,
        "classes": classes,
        "notes": [],
        "versions": {"torch": "2.11.0", "winze": "0.1.0"},
        "dtype": "float32",
        "device": "cpu",
        "seconds": 12.3,
        "example": [1, 3, 32, 32],
        "embedding": "pca",
    }


def watched(places: int = 6, steps: int = 12) -> Readings:
    """Readings during training: ranks that fall fastest at the deepest place."""
    made = Readings(conventions={"network": "mlp", "data": "digits"})
    for step in range(steps):
        for index in range(places):
            place = Place(index, places, f"layers.{index}")
            rank = 10 + 90 * np.exp(-step * (index + 1) / 20)
            made.add("numerical_rank", rank, place=place, data="digits", split="test", step=10 * step)
            made.add("probe", 1 - 0.9 * np.exp(-step * (index + 1) / 10), place=place, data="digits", step=10 * step)
    return made
