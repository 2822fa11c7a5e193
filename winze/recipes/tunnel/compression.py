"""What the tunnel does to classes: variances within and between them, and embeddings of the features (figure 5.2.2).

    winze run tunnel/compression --scale cpu    # VGG-19 with an eighth of the channels on digits, 3 run-minutes
    winze run tunnel/compression --scale gpu    # VGG-19 on CIFAR-10, 3 seeds, 15 run-minutes on an H200

Variances are those of test samples around the mean of their class, and of class means around each other, per feature.
Claims compare the layer where the tunnel starts with the last hidden layer. Embeddings are t-SNE of some samples at
layers 7 and 18, before and after the tunnel of the thesis's network.
"""

from winze.lab import Axis, Claim, Data, Network, Question, Reading, Recipe, Scale, at_least, at_most, several
from winze.lab.claims.quantities import AtTunnel, RunNumber, derived, hidden
from winze.readings.facts import MOST_FEATURES
from winze.recipes.tunnel import _settings as use
from winze.recipes.tunnel._work import Compression, read_embeddings
from winze.report.experiment import first_seeds, of_scans
from winze.report.scan.curves import class_variances
from winze.report.scan.embedding_plot import embedding


def kept(measure: str) -> RunNumber:
    """The variance per feature at the last hidden layer, over that at the start of the tunnel."""
    end, start = (
        derived(measure, lambda total, count: total / min(count, MOST_FEATURES), at(measure), at("features"))
        for at in (hidden, AtTunnel)
    )
    return end / start


REVERSED = "t-SNE instead of UMAP; the thesis's text once has within and between reversed"
within, between = kept("intra_variance"), kept("inter_variance")
change = {
    "within classes": at_most(within.named("within classes, end over start"), 1),
    "between classes": at_least(between.named("between classes, end over start"), 1),
}
cpu = use.on_digits(
    {"data.name": "digits", "reading.ood": ()},
    "VGG-19 with an eighth of the channels",
    5,
    at=(({}, {"network.name": "winze/vgg19x0.125"}),),
)
recipe = Recipe(
    "tunnel/compression",
    **use.scanned("*_variance", "features", "embedding/*") | {"departures": (*use.COMMON[:3], REVERSED)},
    shows="in the tunnel classes get tighter relative to their distance",
    study=Compression(
        Network("winze/vgg19"), Data("cifar10"), use.VGG, Reading(measures=("probe", "rank", "variance"))
    ),
    axes={"network": Axis("network.name", {"vgg19": "winze/vgg19"})},
    scales=use.scales(
        cpu,
        Scale(
            {**use.GRID, "training": use.gentle(use.VGG, 16)},
            seeds=3,
            departures=("16 epochs instead of 160, in bf16", use.GENTLE, use.ON_GRID),
        ),
        Scale({**use.FLAT, "method": "umap"}, seeds=3),
    ),
    work=read_embeddings,
    claims=(
        Claim(
            "from the start of the tunnel to its end the variance within classes falls and that between classes rises",
            "fig. 5.2.2",
            several("variance", change),
            paper={"within classes": "falls", "between classes": "rises"},
            departure="at scale gpu features are means over a grid, and variances cannot be compared over depth",
        ),
    ),
    questions=(
        Question(
            "does the variance within over that between classes fall to less than half?",
            at_most((within / between).named("within over between, end over start"), 0.5),
        ),
    ),
    figures=(
        of_scans("Class variances", class_variances),
        of_scans("Samples before and after the tunnel", embedding, first_seeds),
    ),
)
