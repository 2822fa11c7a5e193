"""Small networks on CIFAR-10, whose weights come with winze: VGG-19 with a quarter of the channels, ResNet-20, a ViT.

    winze run tunnel/small --scale cpu    # smaller ones on digits, a minute
    winze run tunnel/small --scale gpu    # the networks that `winze scan NAME --pretrained` loads, 3 seeds

The thesis reads full VGG-19 and ResNet-34, and no ViT. Whether networks that a laptop scans in seconds have tunnels is
our own question. `python docs/generate/weights.py RUN...` puts the weights of runs into the package.
"""

from dataclasses import replace
from typing import Any

from winze.lab import Axis, Question, Recipe, Scale, at_least, at_most
from winze.recipes.tunnel import _settings as use
from winze.recipes.tunnel._quantities import OOD_LOST, START_SHARE
from winze.report.experiment import profiles, tunnel_starts
from winze.train import Epochs


def each(setting: str, *values: Any) -> use.Pairs:
    """A setting of VGG-19, of ResNet-20 and of the ViT."""
    return tuple(({"network": one}, {setting: value}) for one, value in zip(NETWORKS, values, strict=False))


NETWORKS = {
    "vgg19": {"network.name": "winze/vgg19x0.25"},
    "resnet20": {"network.name": "winze/resnet20", "reading.places": "blocks"},
    "vit": {"network.name": "winze/vit6x128", "reading.places": "blocks"},
}
POOLS = each("reading.pool", 2, use.POOLED, "mean")
short = (
    use.quick(use.VGG, 60),
    use.quick(use.RESNET, 60),
    replace(use.VIT, length=Epochs(100), precision="bf16-mixed"),
)
cpu = use.on_digits(
    {},
    "VGG-19 with an eighth of the channels, ResNet-20 with half; no ViT",
    axes={"network": ("vgg19", "resnet20")},
    at=each("network.name", "winze/vgg19x0.125", "winze/resnet20x0.5"),
)

recipe = Recipe(
    "tunnel/small",
    **use.scanned("effective_rank"),
    shows="whether the small networks that come with winze have tunnels",
    study=use.study,
    axes={"network": Axis("", NETWORKS)},
    scales=use.scales(
        cpu,
        Scale(
            {**use.GRID, **use.TINY},
            seeds=3,
            at=each("training", *short) + POOLS,
            departures=(use.ON_TINY, use.ON_GRID, "60 epochs of VGG and ResNet, 100 of the ViT, in bf16"),
        ),
        use.as_published(at=each("training", use.VGG, use.RESNET, use.VIT) + POOLS[2:]),
    ),
    questions=(
        Question(
            "does the tunnel start within the first three quarters of the layers?",
            at_most(START_SHARE, 0.75),
            each="network",
        ),
        Question(
            "does OOD accuracy fall in the tunnel (by 5 points or more)?",
            at_least(OOD_LOST, 0.05),
            each="network",
            departure=use.FEW_IMAGES,
        ),
    ),
    figures=(profiles("network"), tunnel_starts("network", within=0.75)),
)
