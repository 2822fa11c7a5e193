"""Beyond the thesis: does the learning rate decide how far a tunnel collapses?

    winze run tunnel/learning_rate --scale cpu    # VGG-19 with an eighth of the channels on digits
    winze run tunnel/learning_rate --scale gpu --jobs 8    # VGG-19 and ResNet-18 on CIFAR-10, 8 points x 3 seeds

Four learning rates train from the same initial weights on the same batches, with a warm-up and the thesis's milestones.
Networks are compared after as many epochs, and where the training loss of an epoch first falls to the same value: the
network with the lower rank might only have fitted the data further. For this all layers are probed every other epoch.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from winze.lab import Axis, Question, Recipe, Scale, Watching, falls, rises, several
from winze.lab.claims.quantities import OOD, RunNumber, TunnelLayer, hidden
from winze.recipes.tunnel import _settings as use
from winze.recipes.tunnel._course import COURSE, LOSS, AtLoss, follow, over_loss
from winze.recipes.tunnel._quantities import FINAL_RANK, OOD_LOST
from winze.report.experiment import over_depth, over_setting
from winze.train import Epochs, Training

NETWORKS = {
    "vgg19": {"network.name": "winze/vgg19"},
    "resnet18": {
        "network.name": "winze/resnet18",
        "network.options": use.STEMS["7x7/1"],
        "reading.places": "blocks",
        "watching.places": "blocks",
    },
}
LOSSES = (0.5, 0.1)
START = TunnelLayer().named("tunnel start")
OOD_END = hidden("probe", OOD).named("OOD accuracy of the last hidden layer")
slope: dict[str, Any] = {"over": "rate", "scale": math.log10}


def warm(training: Training) -> Training:
    """The same training with a warm-up of two epochs; its learning rate changes after every step."""
    return replace(training, schedule=replace(training.schedule, warmup=Epochs(2), per="step"))


def matched(number: RunNumber) -> dict[str, RunNumber]:
    """A number of the trained network, and the same number at equal training losses."""
    return {"equal epochs": number} | {f"training loss {loss}": AtLoss(number, loss) for loss in LOSSES}


def asked(text: str, check: Callable[..., Any], number: RunNumber, departure: str = "") -> Question:
    """Whether a number changes with the logarithm of the learning rate, by epochs and by training loss."""
    checks = several("compared at", {name: check(one, **slope) for name, one in matched(number).items()})
    return Question(text, checks, each="network", departure=departure, scales=("cpu", "gpu", "paper"))


watching = Watching(("probe", "rank"), Epochs(2), probe_samples=10_000, pool=2, max_features=1000, names=COURSE)
cpu = use.on_digits(
    {"watching.pool": "flatten", "training": warm(use.CONVOLUTIONS)},
    "VGG-19 with an eighth of the channels, a warm-up of two epochs",
    axes={"network": ("vgg19",)},
    at=(({}, {"network.name": "winze/vgg19x0.125"}),),
)
departures = (
    "learning rates of 0.01, 0.03 and 0.2 beside the thesis's 0.1, and a warm-up of two epochs, which 0.2 needs",
    "during training, layers are read every two epochs by ridge probes on 10,000 training images and at most 1000 "
    "features, ranks on 4000 test images; the training loss is the mean over an epoch",
)

recipe = Recipe(
    "tunnel/learning_rate",
    **use.scanned(*COURSE.values(), LOSS, "epoch_steps", departures=departures),
    shows="the higher the learning rate, the further the tunnel's rank collapses",
    study=replace(use.study, training=warm(use.VGG), watching=watching),
    axes={"network": Axis("", NETWORKS), "rate": Axis("training.optimizer.lr", (0.01, 0.03, 0.1, 0.2), default=0.1)},
    scales={
        "smoke": replace(use.smoke(cpu), axes={**cpu.axes, "rate": (0.03, 0.1)}),
        "cpu": cpu,
        "gpu": Scale(
            {**use.GRID, **use.TINY, "training": warm(use.quick(use.VGG, 60))},
            seeds=3,
            at=(({"network": "resnet18"}, {"watching.pool": use.POOLED, "reading.pool": use.POOLED}),),
            departures=(use.ON_TINY, use.ON_GRID, "60 epochs instead of 160, in bf16"),
        ),
        "paper": use.as_published(),
    },
    work=follow,
    questions=(
        asked("does the rank of the last hidden layer fall with the learning rate?", falls, FINAL_RANK),
        asked("does the tunnel start earlier at higher learning rates?", falls, START, use.OWN_BAR),
        asked("does the OOD accuracy of the last hidden layer fall with the learning rate?", falls, OOD_END),
        asked("does the OOD accuracy lost in the tunnel rise with the learning rate?", rises, OOD_LOST, use.FEW_IMAGES),
    ),
    figures=(
        *(
            over_setting(matched(number), x="rate", panel="network", log=True, up=str(number), across="learning rate")
            for number in (FINAL_RANK, START, OOD_END)
        ),
        over_depth("numerical_rank", colour="rate", panel="network"),
        over_depth("probe", colour="rate", panel="network", ood=True),
        over_loss("During training", {"rank": FINAL_RANK, "OOD accuracy": OOD_END}, colour="rate", panel="network"),
    ),
)
