"""Work beside training and reading: distances between layers, and samples embedded in the plane."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from winze.data import Batches
from winze.lab import Bench, Prepared, Study, learn, prepare, read
from winze.lab.layers import WITHOUT
from winze.measure import Distances
from winze.observe import scan
from winze.observe.passes.hooks import recording
from winze.observe.places.find_places import find_spots
from winze.readings import Array


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
        bench.readings.arrays["l1"] = l1_distances(prepared, [place.name for place in found.places])


@torch.no_grad()
def l1_distances(prepared: Prepared, names: list[str]) -> Array:
    """The mean L1 distance per feature between every two places, NaN where they are not equally wide."""
    net, device = prepared.net, next(prepared.net.parameters()).device
    batches = Batches(*prepared.dataset.test, 1000, prepared.preprocess, device)
    spots = find_spots(net, next(iter(batches))[0][:2], names)
    gathered, rows = Distances(len(spots), order=1), dict[int, Tensor]()
    with recording(net, spots, rows.__setitem__, "flatten"):
        for x, _ in batches:
            net(x)
            gathered.update([rows[spot.place.index] for spot in spots])
    widths = torch.tensor([rows[spot.place.index].shape[1] for spot in spots])
    return (gathered.matrix() / widths).numpy()


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
