"""Where the tunnel begins: the first place that already knows what the whole network knows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64, Shaped
from numpy import ndarray
from torch import Tensor

from winze.place import Place

Curve = Sequence[float] | Shaped[ndarray, "..."] | Shaped[Tensor, "..."]  # by place, or by run and place
SLACK = 1e-9  # as floats, 0.98 x 0.46 is above 0.4508
AT_ONCE = 100  # resamples drawn at a time
REMEMBERED = 1 << 24  # drawn samples that are kept for the next tunnel: 64 MB


@dataclass(frozen=True)
class Tunnel:
    """The tunnel of a network: every place after `start`, which is the last one to keep.

    `share` = (start.index + 1) / total; `low` and `high` bound the start with 95 % of resamples of the test samples
    (None: beyond the last place); `accuracy` is that of the start's probe. `start` is None where no place reaches
    `threshold` x `reference`, or where the reference means nothing, and `reason` says so; it is false then.
    """

    start: Place | None
    share: float
    low: Place | None
    high: Place | None
    accuracy: float
    threshold: float
    reference: float
    reason: str = ""

    def __bool__(self) -> bool:
        return self.start is not None

    @classmethod
    def none(cls, reason: str, threshold: float, reference: float) -> Tunnel:
        """No tunnel, and why."""
        return cls(None, math.nan, None, None, math.nan, threshold, reference, reason)


def tunnel_start(curve: Curve, reference: float | None = None, threshold: float = 0.95) -> int | None:
    """Give the index (from 0) of the first place whose accuracy is at least threshold x reference.

    Several runs (run x place) are averaged first. Without a reference the last place is the reference.
    Masarczyk et al., 2023, arXiv 2305.19753.
    """
    check_threshold(threshold)
    values = _curve(curve)
    return _first(values, values[-1] if reference is None else reference, threshold)


def tunnel(
    places: Sequence[Place],
    correct: Bool[Tensor, "*run place sample"],
    reference: float | Bool[Tensor, "..."] | None = None,
    threshold: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Tunnel:
    """Find the tunnel from what each place's probe gets right, with a bootstrap interval over test samples and runs.

    All places, runs and the reference share each resample. The reference is the network's own correctness, or its
    accuracy as a fixed number, or else the last probe.
    """
    right = correct.detach().cpu().numpy().reshape(-1, *correct.shape[-2:]).astype(np.float64)
    if right.size == 0 or right.shape[1] != len(places):
        raise ValueError(f"expected correctness of {len(places)} places on samples, got {tuple(correct.shape)}")
    if reference is None:
        known = right[:, -1]
    elif isinstance(reference, Tensor):
        if reference.shape[-1:] != correct.shape[-1:]:
            raise ValueError(f"reference: {tuple(reference.shape)} does not fit {tuple(correct.shape)}")
        known = reference.detach().cpu().numpy().reshape(-1, correct.shape[-1]).astype(np.float64)
    else:
        known = np.full((1, right.shape[2]), float(reference))
    rows = np.concatenate([right, np.broadcast_to(known, right[:, 0].shape)[:, None]], 1)
    means = rows.mean(2)
    if isinstance(reference, float):
        means[:, -1] = reference  # the mean of equal numbers may differ in its last bit
    return tunnel_of_runs(places, means[:, :-1], means[:, -1], threshold, rows, resamples, seed)


def tunnel_of_runs(
    places: Sequence[Place],
    curves: Float64[ndarray, "run place"],
    references: Float64[ndarray, " run"],
    threshold: float = 0.95,
    correct: Shaped[ndarray, "run place_and_reference sample"] | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> Tunnel:
    """Find the tunnel of the mean curve, with an interval from resampled runs and, where known, test samples.

    `references` are the accuracies to be reached, one per run. `correct` holds what each place's probe gets right, and
    in its last row what the reference does; all runs share each draw of samples. With few runs the interval is narrow
    for its 95 %: it can only be made of the runs there are.
    """
    check_threshold(threshold)
    if len(curves) != len(references) or curves.shape[1:] != (len(places),) or not len(curves):
        shapes = f"{curves.shape} curves, {references.shape} references, {len(places)} places"
        raise ValueError(f"expected a curve and a reference per run, got {shapes}")
    if correct is not None and (correct.shape[:2] != (len(curves), len(places) + 1) or not correct.shape[2]):
        raise ValueError(
            f"correctness of shape {correct.shape} does not fit {len(curves)} runs of {len(places)} places"
        )
    mean, reference = curves.mean(0), float(references.mean())
    if len(curves) == 1 and correct is None:  # every draw is this one run
        resamples = min(resamples, 1)
    whole = np.concatenate([curves, references[:, None]], axis=1)
    drawn = [_starts(rows, threshold) for rows in _resample(whole, correct, resamples, seed)]
    ends = np.quantile(np.concatenate(drawn or [np.array([len(places)])]), [0.025, 0.975], method="inverted_cdf")
    low, high = (places[end] if end < len(places) else None for end in ends.astype(int).tolist())
    first = None if np.isnan(mean).all() else _first(mean, reference, threshold)
    if first is None:
        reason = _unreached(places, mean, reference, threshold)
        return replace(Tunnel.none(reason, threshold, reference), low=low, high=high)
    start = places[first]
    return Tunnel(start, (start.index + 1) / start.total, low, high, float(mean[first]), threshold, reference)


def _unreached(places: Sequence[Place], curve: Float64[ndarray, " place"], reference: float, threshold: float) -> str:
    """Why there is no tunnel, with the place that came nearest."""
    said = f"no place reaches {threshold:g} x {reference:.4f}"
    if np.isnan(curve).all():
        return said
    best = int(np.nanargmax(curve))
    return f"{said}; the best, {places[best].name!r}, has {curve[best]:.4f}"


def kappa(curve: Curve, eta: float = 0.99) -> float:
    """Give the share of depth after which probes are as good as they get; lower is more compressed.

    κ = ℓ*/L,   ℓ* = first place (from 1) with accuracy ≥ η · max
    """
    values = _curve(curve)
    first = _first(values, float(np.nanmax(values)), eta)
    if first is None:
        raise ValueError(f"expected eta of at most 1, got {eta}")
    return (first + 1) / len(values)


def rho(curve: Curve) -> float:
    """Give the share of the best OOD accuracy that is lost by the last place.

    ρ = (max acc − acc_L) / max acc
    """
    values = _curve(curve)
    best = float(np.nanmax(values))
    return (best - float(values[-1])) / best if best > 0 else float("nan")


def best_place(places: Sequence[Place], curve: Curve) -> Place:
    """Give the place with the highest value, the earliest of equals."""
    values = _curve(curve)
    if len(values) != len(places):
        raise ValueError(f"{len(values)} values for {len(places)} places")
    return places[int(np.nanargmax(values))]


def check_threshold(threshold: float) -> None:
    """Raise unless it is a share of an accuracy."""
    if isinstance(threshold, str | bool) or not 0 < threshold <= 1:
        raise ValueError(
            f"expected a threshold above 0 and of at most 1, such as 0.95 of the accuracy, got {threshold!r}"
        )


def _curve(curve: Curve) -> Float64[ndarray, " place"]:
    values = np.asarray(curve.detach().cpu() if isinstance(curve, Tensor) else curve, dtype=np.float64)
    values = values.mean(0) if values.ndim == 2 and len(values) else values
    if values.ndim != 1 or not values.size or np.isnan(values).all():
        raise ValueError(f"expected values by place, or by run and place, got shape {values.shape}, or all are NaN")
    return values


def _first(values: Float64[ndarray, " place"], reference: float, threshold: float) -> int | None:
    if not np.isfinite(reference):
        raise ValueError(f"expected a finite reference accuracy, got {reference}")
    reached = np.flatnonzero(values >= threshold * reference - SLACK)
    return int(reached[0]) if reached.size else None


def _starts(drawn: Float64[ndarray, "resample row"], threshold: float) -> Int64[ndarray, " resample"]:
    """The first place that reaches the last row's share, in each resample; the number of places where none does."""
    reached = drawn[:, :-1] >= threshold * drawn[:, -1:] - SLACK
    return np.where(reached.any(1), reached.argmax(1), reached.shape[1])


def _resample(
    whole: Float64[ndarray, "run row"],
    correct: Shaped[ndarray, "run row sample"] | None,
    resamples: int,
    seed: int,
) -> Iterator[Float64[ndarray, "resample row"]]:
    """The mean over runs drawn with replacement, each over test samples drawn with replacement, some draws at once.

    Counts of samples are exact in float32 below 2^24, which multiplies twice as fast.
    """
    flat = None if correct is None else correct.reshape(-1, correct.shape[2]).astype(np.float32)
    n = None if flat is None else flat.shape[1]
    small = (n or 1) * resamples <= REMEMBERED
    for counts, picked in (_remembered if small else _draws)(len(whole), n, resamples, seed):
        rows = np.broadcast_to(whole, (len(picked), *whole.shape))
        if flat is not None:
            rows = ((counts @ flat.T).astype(np.float64) / flat.shape[1]).reshape(rows.shape)
        yield np.take_along_axis(rows, picked[:, :, None], 1).mean(1)


def _draws(
    runs: int, samples: int | None, resamples: int, seed: int
) -> Iterator[tuple[Any, Int64[ndarray, "draw run"]]]:
    """How often each test sample comes in each draw (None without samples), and which runs do, some draws at once."""
    rng = np.random.default_rng(seed)
    for start in range(0, resamples, AT_ONCE):
        draws, counts = min(AT_ONCE, resamples - start), None
        if samples is not None:
            chosen = rng.integers(0, samples, (draws, samples)) + samples * np.arange(draws)[:, None]
            counts = np.bincount(chosen.ravel(), minlength=draws * samples).reshape(draws, samples).astype(np.float32)
        yield counts, rng.integers(0, runs, (draws, runs))


@lru_cache(maxsize=4)
def _remembered(runs: int, samples: int | None, resamples: int, seed: int) -> list[tuple[Any, Any]]:
    """The same draws for the next tunnel of as many runs and samples: a page of claims has hundreds of them."""
    return list(_draws(runs, samples, resamples, seed))
