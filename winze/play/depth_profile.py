"""What the live panels show over depth: distances, CKA, ranks, probes, the tunnel, singular values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from winze import measure
from winze.measure import CKA, Distances, Moments, Value
from winze.networks import SpiralMLP
from winze.place import Place
from winze.play.nodes import grid, streams

SAMPLES, BATCH = 512, 256  # that ranks, probes and CKA read, and of one batch of CKA
SIDE = 20  # points along a side of the grid for distances
HELD_OUT = 10  # every tenth training point chooses the penalty of a probe
THRESHOLD, RESAMPLES = 0.95, 200  # of the tunnel and of its interval

Array = np.ndarray[Any, np.dtype[Any]]
Points = tuple[Tensor, Tensor]


@dataclass
class Profile:
    """Facts of the whole network after this many steps, and arrays over its places: h_0, then each layer."""

    step: int = 0
    facts: dict[str, float | int | str | None] = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)


def profile(net: SpiralMLP, train: Points, test: Points, classes: int) -> Profile:
    """Read a network at every depth, by the measures of a scan."""
    found = Profile()
    for _ in stages(found, net, train, test, classes):
        pass
    return found


def glance(net: SpiralMLP, train: Points, test: Points) -> dict[str, float]:
    """Accuracies and the norm of the logits, which cost little; nothing where the outputs are not finite."""
    (x, y), (u, v) = (train[0][:SAMPLES], train[1][:SAMPLES]), test
    with torch.no_grad():
        outputs, others = (net.output(streams(net, points)[-1]) for points in (x, u))
    if not (outputs.isfinite().all() and others.isfinite().all()):
        return {}
    return {
        "train_accuracy": float((outputs.argmax(1) == y).double().mean()),
        "test_accuracy": float((others.argmax(1) == v).double().mean()),
        "logits_norm": float(measure.sample_norm(others)),
    }


def stages(found: Profile, net: SpiralMLP, train: Points, test: Points, classes: int) -> Iterator[None]:
    """Fill a profile piece by piece, so that a training can go on between pieces; all are of one moment."""
    (x, y), (u, v) = ((part[0][:SAMPLES], part[1][:SAMPLES]) for part in (train, test))
    seen, other, mapped = (streams(net, points) for points in (x, u, grid(SIDE)))
    weights = [net.get_parameter(f"layers.{i}.branch.0.weight").detach().clone() for i in range(len(net.layers))]
    if not all(bool(torch.isfinite(one).all()) for one in (*seen, *other, *mapped, *weights)):
        found.facts["note"] = "the features are no longer finite numbers"
        return
    with torch.no_grad():
        own = net.output(other[-1]).argmax(1) == v
    yield
    yield from _similar(found, other)
    yield from _ranks(found, other, weights)
    found.arrays["distances"] = Distances(len(mapped)).update(mapped).matrix().float().numpy()
    yield
    yield from _probes(found, (seen, y), (other, v), classes, own)


def _similar(found: Profile, features: list[Tensor]) -> Iterator[None]:
    similar = CKA(len(features))
    for start in range(0, len(features[0]), BATCH):
        similar.update([one[start : start + BATCH] for one in features])
        yield
    found.arrays["cka"] = similar.matrix().float().numpy()


def _ranks(found: Profile, features: list[Tensor], weights: list[Tensor]) -> Iterator[None]:
    spectra = measure.spectra([Moments.of(one) for one in features])
    yield
    found.arrays |= {
        "rank": _column([measure.numerical_rank_of(one) for one in spectra]),
        "effective_rank": _column([measure.effective_rank_of(one, exp=True) for one in spectra]),
        "singular_values": torch.stack([one.clamp(min=0).sqrt() for one in spectra]).float().numpy(),
        "weight_values": torch.stack([measure.singular_values(one, centre=False) for one in weights]).float().numpy(),
    }
    yield


def _probes(
    found: Profile, train: tuple[list[Tensor], Tensor], test: tuple[list[Tensor], Tensor], classes: int, own: Tensor
) -> Iterator[None]:
    (seen, y), (other, v) = train, test
    held = torch.arange(len(y)) % HELD_OUT == HELD_OUT - 1
    if len(y) < 2 * HELD_OUT or len(y[~held].unique()) < 2:
        found.facts["note"] = "too few points for probes"
        return
    moments: list[tuple[Moments, Moments]] = []
    for some in _parts(seen):
        moments += [
            (Moments.of(one[~held], y[~held], classes), Moments.of(one[held], y[held], classes)) for one in some
        ]
        yield
    probes = measure.ridges([kept for kept, _ in moments], [out for _, out in moments])
    yield
    correct = torch.stack([probe.correct(one, v) for probe, one in zip(probes, other, strict=True)])
    found.arrays["probe"] = correct.double().mean(1).float().numpy()
    chance, accuracy = float(v.bincount().max()) / len(v), float(own.double().mean())
    if accuracy <= chance + 2 * (chance * (1 - chance) / len(v)) ** 0.5:
        found.facts["note"] = "no tunnel: the accuracy is not clearly above chance"
        return
    places = [Place(i, len(seen), f"layers.{i - 1}" if i else "input") for i in range(len(seen))]
    tunnel = measure.tunnel(places, correct, own, THRESHOLD, RESAMPLES)
    start, low, high = (None if end is None else end.index for end in (tunnel.start, tunnel.low, tunnel.high))
    found.facts |= {"tunnel": start, "tunnel_low": low, "tunnel_high": high, "tunnel_level": THRESHOLD * accuracy}
    if not tunnel:
        found.facts["note"] = tunnel.reason


def _parts(places: list[Tensor], size: int = 12) -> Iterator[list[Tensor]]:
    return (places[start : start + size] for start in range(0, len(places), size))


def _column(values: list[Value]) -> Array:
    return np.array([float(value) for value in values], dtype=np.float32)
