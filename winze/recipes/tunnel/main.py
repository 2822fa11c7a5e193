"""Where the tunnel starts: probes and ranks at every layer of MLPs, VGG-19 and ResNet-34 (table 5.2.1, figure 5.2.1).

    winze run tunnel/main --scale cpu    # MLP-4 and MLP-8 on digits, minutes on 2 cores
    winze run tunnel/main --scale gpu    # MLP-12, VGG-19, ResNet-34 on CIFAR-10, 3 seeds, 71 run-minutes on an H200

The first layers (the extractor) make classes linearly separable. The rest (the tunnel) adds no accuracy, compresses
features to a rank of about the number of classes, and lowers OOD accuracy. The scale gpu trains VGG-19 and ResNet-34 as
published. Block k of a ResNet is layer 2k + 1; with projections the end of the third stage, layer 27, is layer 29.
"""

from winze.lab import Axis, Claim, Question, Reading, Recipe, Scale, at_least, at_most, higher, level, tunnel_at
from winze.recipes.tunnel import _settings as use
from winze.recipes.tunnel._quantities import FINAL_RANK, OOD_LOST, OOD_PEAK_AFTER_START
from winze.recipes.tunnel._tables import BY_DATA
from winze.report.experiment import profiles, tunnel_starts
from winze.train import Epochs

START, START_98 = ({cell: layers[column] for cell, layers in BY_DATA.items()} for column in (0, 1))
BIG = tuple(use.NETWORKS)
cpu = Scale(
    {"reading": Reading(), "training": use.SMALL},
    axes={"network": ("mlp4", "mlp8"), "data": ("digits",)},
    seeds=3,
    departures=(use.OTHER_DIGITS, "MLPs of 256 units, momentum 0.9, learning rate 0.03, 150 epochs"),
)

recipe = Recipe(
    "tunnel/main",
    **use.scanned("effective_rank", "correct/*"),
    shows="deep layers add no accuracy, lower the rank to about the number of classes, and lose OOD accuracy",
    study=use.study,
    axes={
        "network": Axis("", {f"mlp{n}": {"network.name": f"winze/mlp{n}x256"} for n in (4, 8)} | use.NETWORKS),
        "data": Axis("", use.DATA | {"digits": use.DIGITS}),
    },
    scales=use.scales(
        cpu,
        Scale(
            use.FLAT,
            axes={"network": BIG, "data": ("cifar10",)},
            seeds=3,
            at=(
                ({}, use.TINY),
                ({"network": "mlp12"}, {"training.length": Epochs(200)}),
                *(({"network": network}, use.FAST) for network in BIG[1:]),
            ),
            departures=(use.ON_TINY, "MLP-12 for 200 epochs instead of 1000", "VGG-19 and ResNet-34 in bf16"),
        ),
        use.as_published(
            axes={"network": BIG, "data": tuple(use.DATA)},
            only=lambda point: (point["network"], point["data"]) in START,
        ),
    ),
    claims=(
        Claim(
            "the tunnel starts at layer 4 of MLP-12, 8 of VGG-19 and 20 of ResNet-34 on CIFAR-10 (by 95 % of the "
            "accuracy, within two layers)",
            "table 5.2.1",
            tunnel_at(0.95, START),
            each=("network", "data"),
            paper=START,
            headline=True,
        ),
        Claim(
            "the rank of MLPs and VGG-19 collapses to about the number of classes (at most twice as many)",
            "fig. 5.2.1",
            at_most(FINAL_RANK, {"mlp8": 10, "mlp12": 20, "vgg19": 20}),
            each="network",
            paper={"mlp8": 5, "mlp12": 10, "vgg19": 10},
            headline=True,
        ),
        Claim(
            "OOD accuracy falls in the tunnel (by 5 points or more)",
            "fig. 5.3.3",
            at_least(OOD_LOST, 0.05),
            each="network",
            only=("mlp8", *BIG),
            departure=use.FEW_IMAGES,
            headline=True,
        ),
        Claim(
            "OOD accuracy peaks at the entry of the tunnel (within two layers)",
            "fig. 5.3.3",
            level(OOD_PEAK_AFTER_START, 0, within=2),
            each="network",
            only=BIG,
            departure=use.FEW_IMAGES,
        ),
    ),
    questions=(
        Question(
            "does the tunnel start at the layers of table 5.2.1 by 98 % of the accuracy (within two layers)?",
            tunnel_at(0.98, START_98),
            each=("network", "data"),
            paper=START_98,
        ),
        Question(
            "does ResNet-34 end at a higher rank than VGG-19?",
            higher(FINAL_RANK, {"network": "resnet34"}, than={"network": "vgg19"}),
            paper="higher",
        ),
    ),
    figures=(profiles("network"), tunnel_starts(("network", "data"), paper=START, whose="thesis")),
)
