"""Figures of the temperature recipes: networks over depth and training, alignment, and curves of the exact recipes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from winze.readings import Array, Point, Readings
from winze.recipes.temperature._settings import KAPPA, QUANTITIES, cells
from winze.report.experiment import Drawing, PointRuns, over_depth, over_setting, over_training
from winze.report.experiment.alignment_maps import alignment_maps
from winze.report.experiment.stored_curves import Line, Panels, Words, spectrum, stored_curves

LOSSES = {"mse": "squared error", "ce": "cross-entropy", "dynamic": "dynamic T", "detached": "dynamic T, no gradient"}
LAWS = {
    "P1": Words("P1: rank of softmax(c B), B of rank 2", "c", "rank", "x"),
    "P2": Words("P2: σ₁ − σₙ against its bound", "bound", "σ₁ − σₙ"),
    "P3": Words("P3: rank of softmax(c x yᵀ), 8 x 8", "c", "rank", "x"),
    "P4": Words("P4: share of the largest ‖W A‖", "from A as drawn (0) to aligned (1)", "share"),
    "P5": Words("P5: σ₁ of a product of layers", "layers", "σ₁", "y"),
    "P6": Words("P6: distance from the limit", "T", "largest error", "xy"),
    "P7": Words("P7: learned along, across (1, …, 1)", "step", "norm"),
}


def _mean(seeds: Sequence[Readings], name: str) -> Array:
    found: Array = np.mean([one.arrays[name] for one in seeds], axis=0)
    return np.maximum(found, 0.5) if name == "toy/iterations" else found  # a logarithmic axis has no 0


def toy_curves(runs: PointRuns) -> Panels:
    """Figures 6.2.1 to 6.2.4: rank over training, accuracy with noise, and singular values of one network."""
    ranks, noise, spectra = [], [], {}
    for point, seeds in runs.items():
        name, x = LOSSES[str(point["loss"])], _mean(seeds, "toy/iterations")
        own = name + (", larger start" if point["start"] == 0.1 else "")
        ranks.append(Line(own, x, _mean(seeds, "toy/rank")[:, 0]))
        noise.append(Line(own, _mean(seeds, "toy/noise"), _mean(seeds, "toy/noisy_accuracy")))
        for kind in ("before", "after")[: {"detached": 0, "ce": 2}.get(str(point["loss"]), 1)] if own == name else ():
            words = Words(f"{name}, {kind} softmax", "iteration", "singular values", "x")
            spectra[words] = spectrum(x, _mean(seeds[:1], f"toy/{kind}_softmax"))
    rank, noisy = Words("rank of the logits", "iteration", "rank", "x"), Words("noise", "σ of noise", "accuracy", "x")
    return {rank: ranks, noisy: noise, **spectra}


def softmax_curves(runs: PointRuns) -> Panels:
    """Figures 6.2.5 and 6.8.1: singular values, rank, gap and inner products of columns over the scale c."""
    panels: Panels = {}
    for point, seeds in runs.items():
        first, size, over = seeds[0].arrays, f"{point['size']} x {point['size']}", "c = 1 / T"
        c = 10.0 ** first["c/exponents"]
        if point["size"] == 32:
            values = np.maximum(first["c/values"], 1e-9)
            panels[Words(f"{size}, one matrix", over, "singular values", "xy")] = spectrum(c, values)
            panels[Words(f"{size}, mean", over, "rank", "x")] = [Line("rank", c, _mean(seeds, "c/rank"))]
            continue
        gap, rank = Line("σ₁ − σₙ", c, first["c/gap"]), Line("rank", c, first["c/rank_of_first"])
        panels[Words(f"{size}, one matrix", over, "σ₁ − σₙ and rank", "x")] = [gap, rank]
        kinds = "largest entries in different rows", "largest entries in one row"
        inner = [Line(kinds[same], c, one) for same, one in zip(first["c/same"], first["c/inner"].T, strict=True)]
        panels[Words(f"{size}, pairs of columns", over, "inner product", "x")] = inner
    return panels


def law_curves(runs: PointRuns) -> Panels:
    """What each proposition is about, over its random cases."""
    panels: Panels = {}
    for point, (first, *_) in runs.items():
        x = first.arrays["law/x"]
        lines = [Line(name[4:], x, curve) for name, curve in first.arrays.items() if name != "law/x"]
        bound = [Line("bound", np.sort(x), np.sort(x))] if point["law"] == "P2" else []
        panels[LAWS[str(point["law"])]] = lines + bound
    return panels


def networks(colour: str, panel: str | None = None) -> tuple[Drawing, ...]:
    """Ranks, norms and probes over depth, and the norm of the logits over training."""
    by: Any = {"colour": colour, "panel": panel, "shared": False}
    tiny: Any = {"up": "probe, Tiny-ImageNet", "title": "Probe over depth on the second OOD set"}
    rank, weights, probe = (over_depth(one, **by) for one in ("numerical_rank", "weight_norm", "probe"))
    second, first = over_depth({"": ("probe", "tinyimagenet")}, **tiny, **by), over_depth("probe", ood=True, **by)
    norms = over_depth("sample_norm", log=True, **by), over_training("logits_norm", log=True, **by)
    return rank, second, *norms, first, probe, weights


def heat(point: Point) -> str:
    """The temperature of a point, as figures name it."""
    return f"T = {point['temperature']}"


heats: Any = {"at": {"temperature": (1, 10, 100, 1000)}, "log": True, "up": "κ", "title": "Kappa by temperature"}
published = {(temperature, network): value for (network, temperature), value in cells(KAPPA).items()}
TRAINING = (
    over_setting(QUANTITIES["kappa"], "temperature", "network", paper=published, **heats),
    *networks("temperature", "network"),
    *(
        alignment_maps(f"Alignment in {name}", {"network": name, "temperature": (1, 100)}, heat)
        for name in ("mlp8", "resnet18", "resnet20")
    ),
)
TOY = (stored_curves("Rank, robustness and singular values", toy_curves, across=3, wide=3.6),)
SOFTMAX = (stored_curves("Softmax of a rank-1 matrix over its scale", softmax_curves),)
PROPOSITIONS = (stored_curves("Seven propositions", law_curves, across=4, wide=2.9),)
