"""Beyond the thesis: do decayed shortcuts or ResidualDroppath change erosion and forgetting?

    winze run erosion/rules --scale cpu    # ResNet-18 with few channels on digits
    winze run erosion/rules --scale gpu    # ResNet-18 on CIFAR-10, 3 points x 3 seeds

Each run trains two networks with the same rule: one on plain images and then on images with class-coded squares, one on
two tasks of five classes with a head per task. Forgetting is the accuracy on task 1 right after it minus that at the
end.
"""

from dataclasses import replace

from winze.data import Noise
from winze.lab import Axis, Network, Question, Recipe, Scale, Whole, alike, lower, several
from winze.lab.continual import FORGETTING, KEPT, LEARNED, MATRIX
from winze.recipes.erosion import _settings as use
from winze.recipes.erosion._settings import after
from winze.report.experiment import over_setting
from winze.shape import DecayedIdentity, ResidualDropPath
from winze.train import Epochs, Milestones

STANDARD = {"rule": "standard"}
RULES = {"standard": None, "decayed": DecayedIdentity(0.6), "residual_droppath": ResidualDropPath()}
forgetting = Whole(FORGETTING, "task 1").named("forgetting of task 1")
small = replace(use.DIGITS, length=Epochs(12), augment=(Noise(0.3),), schedule=Milestones(at=(6, 9), per="epoch"))
digits = {**use.digits, **use.UNREAD, "training": replace(small, checkpoint=Epochs(12))}
digits |= {"network.name": "winze/resnet18x0.0625", "square.code": "position", "square.size": 1}
brief = replace(small, length=Epochs(1), schedule=Milestones(per="epoch"), evaluate=Epochs(1), checkpoint=Epochs(1))
checks = {
    "less erosion": lower(use.fall, than=STANDARD),
    "less forgetting": lower(forgetting, than=STANDARD),
    "same accuracy": alike(after(0), to=STANDARD, within=0.02),
}

resnets = replace(
    use.study,
    network=Network("winze/resnet18", {"stem": "cifar"}),
    training=use.NETWORKS["resnet18"]["training"],
    reading=replace(use.reading, measures=()),
    forget=(5, 5),
)
ABOUT = use.ABOUT | {
    "study": resnets,
    "departures": (*use.DEPARTURES, "two tasks of five classes in the order of the data set, a head per task"),
    "measures": (*use.COURSE, FORGETTING, KEPT, LEARNED, MATRIX),
}

recipe = Recipe(
    "erosion/rules",
    **ABOUT,
    shows="whether other shortcuts change erosion and forgetting",
    axes={"rule": Axis("network.rule", RULES)},
    scales={
        "smoke": Scale({**digits, "data": use.smoke["data"], "training": brief}, departures=(use.SMOKE,)),
        "cpu": Scale(
            digits,
            seeds=5,
            departures=(
                "digits instead of CIFAR-10, ResNet-18 with a sixteenth of the channels, 12 epochs per task; images "
                "are grey, so the position of a white pixel tells the class",
            ),
        ),
        "gpu": Scale(
            {"training": replace(use.SHORT, precision="bf16-mixed", channels_last=True)},
            seeds=3,
            departures=(use.SHORTER,),
        ),
        "paper": Scale(seeds=3),
    },
    questions=(
        Question(
            "does the rule lower erosion and forgetting against the standard shortcut, at the same accuracy?",
            several("effect", checks),
            each="rule",
        ),
    ),
    figures=(
        use.curves("rule"),
        over_setting({"erosion": use.fall, "forgetting": forgetting}, x="rule", up="accuracy lost"),
    ),
)
