"""How alike the layers are: CKA and mean L1 distances between all pairs (figures 5.2.3 and 5.12.1).

    winze run tunnel/similarity --scale cpu    # MLP-8 on digits
    winze run tunnel/similarity --scale gpu    # MLP-12, VGG-19 and ResNet-34 on CIFAR-10, 3 seeds

CKA is that of minibatches, without bias. The L1 distance of two layers of one width p is the mean over samples of
‖h_i − h_j‖₁ / p; it is read of MLPs, whose layers are equally wide. In these numbers the tunnel is the last two thirds
of the hidden layers: layers 5 to 12 of MLP-12, as in the thesis. Where probes say that it begins is marked in the maps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from winze.data import Batches
from winze.lab import Claim, Recipe, Scale, at_least, at_most
from winze.lab.bench import Bench
from winze.lab.quantities import TunnelLayer, Whole
from winze.lab.study import Study, Trained, read, train
from winze.measure import Distances
from winze.observe.places import find_spots
from winze.observe.record import recording
from winze.readings import Array
from winze.recipes.tunnel.numbers import OverMatrix
from winze.recipes.tunnel.settings import (
    COUNTED,
    FLAT,
    GENTLE,
    GRID,
    MLP,
    NORM,
    ON_GRID,
    PAPER,
    PICTURES,
    POOLED,
    REFERENCE,
    RESNET,
    SMALL,
    SYSTEM,
    URL,
    VGG,
    gentle,
    mlp12,
    resnet34,
    vgg19,
)
from winze.report.by_arm import Arms
from winze.report.maps import cka_map, distance_map
from winze.report.means import means_of

if TYPE_CHECKING:
    import matplotlib.figure

NAMES = {"mlp8": "MLP-8", "mlp12": "MLP-12", "vgg19": "VGG-19", "resnet34": "ResNet-34"}


@dataclass(frozen=True)
class Likeness(Study):
    """A study that also reads how far apart the layers are, where they are equally wide."""

    distances: bool = False


def work(config: Likeness, bench: Bench) -> None:
    """Train one network, then read probes, CKA and distances at every layer."""
    trained = train(config, bench)
    found = read(config, bench, trained)
    if found is not None and config.distances:
        bench.readings.arrays["l1"] = l1_distances(trained, [place.name for place in found.places])


@torch.no_grad()
def l1_distances(trained: Trained, names: list[str]) -> Array:
    """The mean L1 distance a feature between every two places, NaN where they are not equally wide."""
    net, device = trained.net, next(trained.net.parameters()).device
    batches = Batches(*trained.dataset.test, 1000, trained.preprocess, device)
    spots = find_spots(net, next(iter(batches))[0][:2], names)
    gathered = Distances(len(spots), order=1)
    rows: dict[int, Tensor] = {}
    with recording(net, spots, rows.__setitem__, "flatten"):
        for x, _ in batches:
            net(x)
            gathered.update([rows[spot.place.index] for spot in spots])
    widths = torch.tensor([rows[spot.place.index].shape[1] for spot in spots])
    return (gathered.matrix() / widths).numpy()


def within(matrix: Array) -> float:
    """The mean over pairs of layers of the last two thirds."""
    return among(matrix[_third(matrix) :, _third(matrix) :])


def among(matrix: Array) -> float:
    """The mean over all pairs."""
    return float(matrix[np.triu_indices(len(matrix), 1)].mean())


def within_over_across(matrix: Array) -> float:
    """How much more alike layers of the last two thirds are to each other than to those of the first."""
    return within(matrix) - float(matrix[_third(matrix) :, : _third(matrix)].mean())


def late_over_early(matrix: Array) -> float:
    """The mean step from layer to layer in the last two thirds, over that in the first."""
    steps = np.diagonal(matrix, 1)
    return float(steps[_third(matrix) - 1 :].mean() / steps[: _third(matrix) - 1].mean())


def _third(matrix: Array) -> int:
    return max(2, len(matrix) // 3)


def cka_maps(arms: Arms, theme: str = "light") -> matplotlib.figure.Figure:
    """Draw the mean CKA of each arm."""
    return cka_map(means_of(arms), theme=theme)


def l1_maps(arms: Arms, theme: str = "light") -> matplotlib.figure.Figure:
    """Draw the mean distances of each arm that has them."""
    return distance_map(means_of(arms), said="mean L1 distance a feature", theme=theme)


digits = Likeness("winze/mlp8x256", "digits", SMALL, measures=("probe", "rank", "cka"), distances=True)
recipe = Recipe(
    name="tunnel/similarity",
    system=SYSTEM,
    shows="the layers of the tunnel are alike and change the features little",
    paper=PAPER,
    url=URL,
    arms={"mlp8": {}, "mlp12": mlp12, "vgg19": vgg19, "resnet34": resnet34},
    scales={
        "smoke": Scale(
            replace(digits, training=replace(SMALL, epochs=2), limit=300),
            seeds=(0,),
            arms=("mlp8",),
            departures=("digits instead of CIFAR-10", "2 epochs on 300 samples"),
        ),
        "cpu": Scale(
            digits,
            seeds=(0, 1, 2, 3, 4),
            arms=("mlp8",),
            departures=("MLP-8, 256 wide, with momentum .9 and rate .03, for 150 epochs on digits",),
        ),
        "gpu": Scale(
            replace(digits, data="cifar10", distances=False, **GRID),
            seeds=(0, 1, 2),
            arms=("mlp12", "vgg19", "resnet34"),
            changes={
                "mlp12": {"training": replace(MLP, epochs=60), "pool": "flatten", "distances": True},
                "vgg19": {"training": gentle(VGG, 16)},
                "resnet34": {"training": gentle(RESNET, 16), "pool": POOLED},
            },
            departures=(
                "60 epochs of MLP-12 instead of 1000, 16 of the others instead of 160; VGG and ResNet in bf16",
                GENTLE,
                ON_GRID,
            ),
        ),
        "paper": Scale(
            replace(digits, data="cifar10", distances=False, **FLAT),
            seeds=(0, 1, 2),
            arms=("mlp12", "vgg19", "resnet34"),
            changes={"mlp12": {"distances": True}},
        ),
    },
    work=work,
    quantities={
        "accuracy": Whole("accuracy"),
        "tunnel_start": TunnelLayer(0.95),
        "cka_within_the_tunnel": OverMatrix("cka", within),
        "cka_behind_the_start_by_probes": OverMatrix("cka", among, behind=True),
        "cka_within_the_tunnel_above_that_to_the_extractor": OverMatrix("cka", within_over_across),
        "l1_step_in_the_tunnel_over_the_extractor": OverMatrix("l1", late_over_early),
    },
    claims=(
        *(
            claim
            for arm, name in NAMES.items()
            for claim in (
                Claim(
                    f"the layers of the tunnel of {name} are alike (CKA of .8 or more)",
                    at_least("cka_within_the_tunnel", arm, 0.8),
                    paper="bright block",
                ),
                Claim(
                    f"so are all layers of {name} behind the start that its probes find (CKA of .8 or more)",
                    at_least("cka_behind_the_start_by_probes", arm, 0.8),
                    paper="bright block",
                ),
                Claim(
                    f"the layers of the tunnel of {name} are more alike than they are to the extractor (by .1 or more)",
                    at_least("cka_within_the_tunnel_above_that_to_the_extractor", arm, 0.1),
                    paper="bright block",
                ),
            )
        ),
        *(
            Claim(
                f"the features of {NAMES[arm]} change less from layer to layer in the tunnel (less than half as far)",
                at_most("l1_step_in_the_tunnel_over_the_extractor", arm, 0.5),
                paper="small in the tunnel",
            )
            for arm in ("mlp8", "mlp12")
        ),
    ),
    departures=(
        NORM,
        PICTURES,
        REFERENCE,
        COUNTED,
        "the thesis shows maps alone; the levels that are asked for here are ours",
        "CKA of ResNets is that of their blocks; the thesis once names ResNet-18 and once 34",
    ),
    measures=("probe", "accuracy", "numerical_rank", "cka", "l1", "loss"),
    figures={"CKA": cka_maps, "L1 distance": l1_maps},
)
