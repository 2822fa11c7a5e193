"""Work beside training and reading: layers watched and reset, distances between them, samples in the plane."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from torch.optim.swa_utils import update_bn

from winze.data import Batches
from winze.lab import Bench, Prepared, Study, learn, prepare, read
from winze.lab.claims.quantities import AtTunnel, OverTraining, TunnelLayer, Whole
from winze.lab.layers import WITHOUT, NamedTensors, crossed, layer_of_each, weights_of
from winze.observe import scan
from winze.observe.layer_distances import layer_distances
from winze.place import Place
from winze.readings import Array, Readings, ReadingsError
from winze.recipes.tunnel import _quantities
from winze.report.experiment import Drawing, of_scans, over_depth
from winze.report.scan.cka_map import training_map
from winze.report.scan.curves import curves_over_training
from winze.train import evaluate

RANK, CHANGE = "rank_while_learning", "weight_change"
FIRST = 75  # steps
DEEP = slice(-6, -1)  # the five hidden layers before the output


def watch_and_reset(study: Study, bench: Bench) -> None:
    """Train a network and read it; after a whole training, reset its layers one by one."""
    prepared = prepare(study, bench)
    start = weights_of(prepared.net)
    learn(prepared, bench)
    read(prepared, bench)
    assert study.watching is not None
    if bench.writes and study.watching.weights_every is not None:
        reset(bench.readings, prepared, start, study.watching.samples)


def reset(readings: Readings, prepared: Prepared, start: NamedTensors, samples: int) -> None:
    """Evaluate the network with all hidden layers from one on as they began, and again with fresh norm statistics."""
    net, dataset, study, end = prepared.net, prepared.dataset, prepared.study, weights_of(prepared.net)
    layers, trained = layer_of_each(net), {name for name, _ in net.named_parameters()}
    names, ready = readings.conventions["places"], (prepared.preprocess, next(net.parameters()).device)
    test = Batches(*dataset.test, 1000, *ready)
    few = Batches(*dataset.train, study.training.batch, *ready, limit=samples)
    for spot, name in enumerate(names[:-1]):
        mixed = crossed(end, start, layers, spot)
        begun = {key: value for key, value in mixed.items() if key in trained and layers[key] < len(names)}
        where: Any = {"place": Place(spot, len(names), name), "data": study.data.name, "split": "test"}
        net.load_state_dict(end | begun)
        readings.add("reset", evaluate(net, test), **where)
        update_bn(few, net)
        readings.add("reset_refreshed", evaluate(net, test), **where)
    net.load_state_dict(end)


def switch_from_start(ranks: Array, start: int) -> float:
    """How many layers after the tunnel's start ranks fall over training instead of rising.

    The switch is the layer up to which most ranks have risen and behind which most have not.
    """
    rose = ranks[:, -1] > ranks[:, 0]
    right = [rose[:layer].sum() + (~rose[layer:]).sum() for layer in range(len(rose) + 1)]
    return float(np.argmax(right) - start)


@dataclass(frozen=True)
class Switch(OverTraining):
    """Layers from the tunnel's start to the switch; its interval over samples is that of the start."""

    def spread(self, readings: Readings) -> tuple[float, float]:
        start, at = TunnelLayer(), self(readings) + TunnelLayer()(readings)
        low, high = start.spread(readings)
        return at - high, at - low


def accuracy_over_chance(readings: Readings) -> float:
    """That of a whole training; 75 steps cannot fail."""
    if not any(row.measure == CHANGE for row in readings.rows):
        raise ReadingsError("the network was trained for 75 steps only")
    return _quantities.accuracy_over_chance(readings)


LEARNED = accuracy_over_chance, 2.0
deep_rank = OverTraining(RANK, lambda ranks, _: float(ranks[DEEP, -1].mean()), tunnel=False).named(
    "deep rank at the end"
)
change = OverTraining(CHANGE, lambda changes, start: float(changes[start:].mean() / changes[:start].mean())).named(
    "weight change of the tunnel over that of the extractor"
)
switch = Switch(RANK, switch_from_start).named("layers from the tunnel's start to the switch")
lost = {
    name: (Whole("accuracy") - AtTunnel(measure, behind=1)).named("accuracy lost without the tunnel's weights")
    for name, measure in {"as trained": "reset", "refreshed": "reset_refreshed"}.items()
}


@dataclass(frozen=True)
class Likeness(Study):
    """A study that also reads how far apart the layers are, where they are equally wide."""

    distances: bool = False


def read_distances(study: Likeness, bench: Bench) -> None:
    """Train one network, then read probes, CKA and distances at every layer."""
    prepared = prepare(study, bench)
    learn(prepared, bench)
    found = read(prepared, bench)
    if found is not None and study.distances:
        batches = Batches(*prepared.dataset.test, 1000, prepared.preprocess, bench.device)
        bench.readings.arrays["l1"] = layer_distances(prepared.net, batches, [place.name for place in found.places])


@dataclass(frozen=True)
class Compression(Study):
    """A study that also embeds so many test samples at some layers in the plane."""

    layers: tuple[int, ...] = (7, 18)
    samples: int = 600
    method: Literal["pca", "tsne", "umap"] = "tsne"


def read_embeddings(study: Compression, bench: Bench) -> None:
    """Train one network, read probes, ranks and variances at every layer, and embed samples at two."""
    prepared, readings = prepare(study, bench), bench.readings
    learn(prepared, bench)
    if read(prepared, bench) is None:
        return
    images, labels = (part[: study.samples] for part in prepared.dataset.test)
    samples = prepared.fed(images), labels
    indices = [readings.conventions["layers"][WITHOUT].index(layer) for layer in study.layers]
    names = [readings.conventions["places"][index] for index in indices]
    pool, method = study.reading.pool, study.method
    found = scan(prepared.net, samples, samples, places=names, measures="rank", pool=pool, embed=method).readings.arrays
    readings.arrays |= {f"embedding/{index}": found[f"embedding/{spot}"] for spot, index in enumerate(indices)}
    readings.arrays["embedding/labels"] = found["embedding/labels"]
    readings.declare(embedding=method)


def figures(whole: Mapping[str, str]) -> tuple[Drawing, ...]:
    """The change of weights and the ranks over training, and the reset network over depth."""
    curves = {"probe": "probe", "reset from this layer on": "reset", "with fresh statistics": "reset_refreshed"}
    return (
        of_scans("Weight change", training_map, dict, measure=CHANGE, cap=0.02),
        of_scans("Rank over training", curves_over_training, measure=RANK),
        over_depth(curves, at=whole, title="Layers reset", up="accuracy"),
    )
