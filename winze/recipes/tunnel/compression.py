"""What the tunnel does to classes: variances within and between them, and pictures of the features (figure 5.2.2).

    winze run tunnel/compression --scale cpu    # VGG-19 with an eighth of the channels on digits
    winze run tunnel/compression --scale gpu    # VGG-19 on CIFAR-10, 3 seeds

Variances are those of test samples around the mean of their class, and of class means around each other, at every
layer. Claims compare the place where the tunnel starts with the last hidden layer, and take variances a feature: layers
have different widths, and a sum over features would tell of those. Pictures are t-SNE of some samples at layers 7 and
18, before and after the tunnel of the thesis's network.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from winze.lab import Claim, Recipe, Scale, at_least, at_most
from winze.lab.bench import Bench
from winze.lab.counting import WITHOUT
from winze.lab.quantities import Number, TunnelLayer, Whole, hidden
from winze.lab.study import Study, Trained, read, train
from winze.observe.embedding import embed_places
from winze.observe.feed import Feed
from winze.observe.places import find_spots
from winze.observe.probes import features_of
from winze.observe.reader import Reader
from winze.readings import Readings
from winze.recipes.tunnel.numbers import AtTunnel
from winze.recipes.tunnel.settings import (
    CONVOLUTIONS,
    FLAT,
    GENTLE,
    GRID,
    NORM,
    ON_GRID,
    PAPER,
    PICTURES,
    REFERENCE,
    SYSTEM,
    URL,
    VGG,
    gentle,
    shortened,
)
from winze.report.by_arm import Arms
from winze.report.facts import MOST_FEATURES
from winze.report.lines import class_variances
from winze.report.means import means_of
from winze.report.pictures import embedding
from winze.report.scans import UnreadError

if TYPE_CHECKING:
    import matplotlib.figure

BEFORE = 7  # the layer of the picture before the tunnel
ON_MEANS = {
    "gpu": "feature maps are read as means over a grid, which vary less than positions do; linear layers are not"
}


@dataclass(frozen=True)
class Compression(Study):
    """A study that also draws so many test samples at some layers in the plane."""

    pictured: tuple[int, ...] = (BEFORE, 18)
    samples: int = 600
    method: Literal["pca", "tsne", "umap"] = "tsne"


def work(config: Compression, bench: Bench) -> None:
    """Train one network, read probes, ranks and variances at every layer, and draw samples at two."""
    trained = train(config, bench)
    if read(config, bench, trained) is not None:
        _picture(bench.readings, trained, config)


def _picture(readings: Readings, trained: Trained, config: Compression) -> None:
    device = next(trained.net.parameters()).device
    images, labels = (part[: config.samples] for part in trained.dataset.test)
    assert trained.preprocess is not None
    fed = Feed((trained.preprocess(images.to(device)), labels), "pictures", device=device)
    numbers = readings.conventions["layers"][WITHOUT]
    indices = [numbers.index(layer) for layer in config.pictured]
    names = [readings.conventions["places"][index] for index in indices]
    rows, _ = features_of(Reader(trained.net, find_spots(trained.net, fed.example(), names), config.pool), fed)
    points = embed_places(indices, [features.cpu() for features in rows], config.method)
    readings.arrays |= {f"embedding/{index}": xy for index, xy in points.items()}
    readings.arrays["embedding/labels"] = labels.numpy()
    readings.conventions["embedding"] = config.method


@dataclass(frozen=True)
class EachFeature(Number):
    """A sum over features, divided by how many there are."""

    measure: str
    at: Callable[[str], Number]

    @property
    def measures(self) -> tuple[str, ...]:
        return *self.at(self.measure).measures, "features"

    def __call__(self, readings: Readings) -> float:
        return self.at(self.measure)(readings) / min(self.at("features")(readings), MOST_FEATURES)


def _kept(measure: str) -> Number:
    """What the last hidden layer has of that at the start of the tunnel, a feature."""
    return EachFeature(measure, hidden) / EachFeature(measure, AtTunnel)


def variances(arms: Arms, theme: str = "light") -> matplotlib.figure.Figure:
    """Draw the mean variances of each arm over depth."""
    return class_variances(means_of(arms), theme=theme)


def pictures(arms: Arms, theme: str = "light") -> matplotlib.figure.Figure:
    """Draw the samples of each arm's first seed."""
    first = {arm: runs[0] for arm, runs in arms.items() if runs}
    if not first:
        raise UnreadError("no runs")
    return embedding(first, theme=theme)


digits = Compression(
    "winze/vgg19x0.125", "digits", CONVOLUTIONS, measures=("probe", "rank", "variance"), pool="flatten"
)
recipe = Recipe(
    name="tunnel/compression",
    system=SYSTEM,
    shows="in the tunnel samples of a class draw together and classes move apart",
    paper=PAPER,
    url=URL,
    arms={"vgg19": {}},
    scales={
        "smoke": Scale(
            replace(
                digits,
                network="winze/vgg11x0.0625",
                training=shortened(CONVOLUTIONS, 2),
                limit=300,
                pictured=(BEFORE, 10),
                samples=100,
                method="pca",
            ),
            seeds=(0,),
            departures=("digits instead of CIFAR-10", "VGG-11 with 4 channels, 2 epochs on 300 samples"),
        ),
        "cpu": Scale(
            digits,
            seeds=(0, 1, 2, 3, 4),
            departures=("digits instead of CIFAR-10", "VGG-19 with an eighth of the channels, 30 epochs"),
        ),
        "gpu": Scale(
            replace(
                digits,
                network="winze/vgg19",
                data="cifar10",
                training=gentle(VGG, 16),
                **GRID,
            ),
            seeds=(0, 1, 2),
            departures=("16 epochs instead of 160", "in bf16", GENTLE, ON_GRID),
        ),
        "paper": Scale(
            replace(
                digits,
                network="winze/vgg19",
                data="cifar10",
                training=VGG,
                method="umap",
                **FLAT,
            ),
            seeds=(0, 1, 2),
        ),
    },
    work=work,
    quantities={
        "accuracy": Whole("accuracy"),
        "tunnel_start": TunnelLayer(0.95),
        "rank_at_the_end": hidden("numerical_rank"),
        "variance_within_classes_kept": _kept("intra_variance"),
        "variance_between_classes_kept": _kept("inter_variance"),
        "variance_within_over_between_kept": (hidden("intra_variance") / hidden("inter_variance"))
        / (AtTunnel("intra_variance") / AtTunnel("inter_variance")),
    },
    claims=(
        Claim(
            "the variance within classes falls from the start of the tunnel to its end",
            at_most("variance_within_classes_kept", "vgg19", 1),
            paper="falls",
            departure=ON_MEANS,
        ),
        Claim(
            "the variance between classes rises from the start of the tunnel to its end",
            at_least("variance_between_classes_kept", "vgg19", 1),
            paper="rises",
            departure=ON_MEANS,
        ),
        Claim(
            "classes get tighter in the tunnel: within over between falls to less than half",
            at_most("variance_within_over_between_kept", "vgg19", 0.5),
            paper="looser to tight clusters",
        ),
    ),
    departures=(
        NORM,
        PICTURES,
        REFERENCE,
        "variances are told a feature, since layers differ in width; the text of the thesis once has them reversed",
        "t-SNE instead of UMAP at all scales but paper",
    ),
    measures=("probe", "accuracy", "numerical_rank", "*_variance", "features", "embedding/*", "loss"),
    figures={"Class variances": variances, "Samples before and after": pictures},
)
