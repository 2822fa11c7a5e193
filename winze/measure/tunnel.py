"""Where the tunnel begins: the first place that already knows what the whole network knows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64, Shaped
from numpy import ndarray
from torch import Tensor

from winze.depth import Place

Curve = Sequence[float] | Shaped[ndarray, "..."] | Shaped[Tensor, "..."]  # by place, or by run and place
SLACK = 1e-9  # as floats, 0.98 x 0.46 is above 0.4508
AT_ONCE = 1 << 20  # samples drawn at a time


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
    """Find the tunnel from what each place's probe gets right, with a bootstrap interval over test samples.

    All places, runs and the reference share each resample. The reference is the network's own correctness, or its
    accuracy as a fixed number, or else the last probe.
    """
    check_threshold(threshold)
    right = correct.detach().cpu().double().reshape(-1, *correct.shape[-2:]).mean(0)
    if right.numel() == 0 or len(right) != len(places):
        raise ValueError(f"want correctness of {len(places)} places on samples, got {tuple(correct.shape)}")
    if reference is None:
        right = torch.cat([right, right[-1:]])
    elif isinstance(reference, Tensor):
        if reference.shape[-1:] != correct.shape[-1:]:
            raise ValueError(f"reference: {tuple(reference.shape)} does not fit {tuple(correct.shape)}")
        own = reference.detach().cpu().double().reshape(-1, correct.shape[-1]).mean(0)
        right = torch.cat([right, own[None]])
    else:
        right = torch.cat([right, torch.full_like(right[:1], reference)])
    *values, known = right.mean(1).tolist()
    first = _first(np.array(values), known, threshold)
    total = len(values)
    found = [_starts(drawn, threshold) for drawn in _resample(right, resamples, seed)] or [np.array([total])]
    ends = np.quantile(np.concatenate(found), [0.025, 0.975], method="inverted_cdf").astype(int)
    low, high = (places[end] if end < total else None for end in ends)
    if first is None:
        best = int(np.argmax(values))
        reason = (
            f"no place reaches {threshold:g} x {known:.4f}; the best, {places[best].name!r}, has {values[best]:.4f}"
        )
        return replace(Tunnel.none(reason, threshold, known), low=low, high=high)
    start = places[first]
    return Tunnel(start, (start.index + 1) / start.total, low, high, values[first], threshold, known)


def kappa(curve: Curve, eta: float = 0.99) -> float:
    """Give the share of depth after which probes are as good as they get; lower is more compressed.

    κ = ℓ*/L,   ℓ* = first place (from 1) with accuracy ≥ η · max
    """
    values = _curve(curve)
    first = _first(values, float(np.nanmax(values)), eta)
    if first is None:
        raise ValueError(f"want eta of at most 1, got {eta}")
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
    if not 0 < threshold <= 1:
        raise ValueError(f"want a threshold above 0 and of at most 1, such as 0.95 of the accuracy, got {threshold}")


def _curve(curve: Curve) -> Float64[ndarray, " place"]:
    values = np.asarray(curve.detach().cpu() if isinstance(curve, Tensor) else curve, dtype=np.float64)
    values = values.mean(0) if values.ndim == 2 and len(values) else values
    if values.ndim != 1 or not values.size or np.isnan(values).all():
        raise ValueError(f"want values by place, or by run and place, got shape {values.shape}, or all are NaN")
    return values


def _first(values: Float64[ndarray, " place"], reference: float, threshold: float) -> int | None:
    if not np.isfinite(reference):
        raise ValueError(f"want a finite reference accuracy, got {reference}")
    reached = np.flatnonzero(values >= threshold * reference - SLACK)
    return int(reached[0]) if reached.size else None


def _starts(drawn: Float64[ndarray, "resample row"], threshold: float) -> Int64[ndarray, " resample"]:
    """The first place that reaches the last row's share, in each resample; the number of places where none does."""
    reached = drawn[:, :-1] >= threshold * drawn[:, -1:] - SLACK
    return np.where(reached.any(1), reached.argmax(1), reached.shape[1])


def _resample(
    right: Float64[Tensor, "row sample"], resamples: int, seed: int
) -> Iterator[Float64[ndarray, "resample row"]]:
    """Draw test samples with replacement, and give the mean of each row over each draw, some draws at a time."""
    rng, n = np.random.default_rng(seed), right.shape[1]
    most = max(1, AT_ONCE // n)
    for start in range(0, resamples, most):
        draws = min(most, resamples - start)
        chosen = rng.integers(0, n, (draws, n)) + n * np.arange(draws)[:, None]
        counts = np.bincount(chosen.ravel(), minlength=draws * n).reshape(draws, n)
        yield counts @ right.numpy().T / n
