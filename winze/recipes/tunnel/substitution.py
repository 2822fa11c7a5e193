"""Layers of the network after one task in the network after another (thesis, figures 5.11.1 to 5.11.9).

    winze run tunnel/substitution --scale cpu                   # narrow VGG-19 and VGG-13 on digits: 7 minutes
    winze run tunnel/substitution --scale gpu --at rate=0.03    # CIFAR-10: 8 points x 3 seeds, 60 minutes of an H200

M1 and M2 are a network after task 1 and after task 2. `front_1` is M1^{1:x} + M2^{x+1:n} over x, which the thesis calls
bottom-up; `front_2` is M2^{1:x} + M1^{x+1:n}. Both are evaluated on each task through that task's head; n is the number
of hidden layers, 18 of a VGG-19. Top layers of M2 that those of M1 can replace without loss on task 2 are a tunnel.
"""

from typing import Any

from winze.lab import Axis, Recipe, Scale, at_least, at_most, higher, level, several
from winze.lab.claims.quantities import At
from winze.readings import Point
from winze.recipes.tunnel import _continual as two
from winze.report.experiment import over_depth
from winze.train import Epochs


def varies_one(point: Point) -> bool:
    """Whether a point varies the split, or the network and its width, not both."""
    return point["split"] == "5+5" or (point["network"] == "vgg19" and point["width"] in (1, 0.125, 0.0625))


fives, larger_first, larger_last = ({"split": split} for split in ("5+5", "7+3", "3+7"))
exchanges = {
    "5+5, top 10, task 2": level(two.top, 0, within=0.03, at=fives),
    "7+3, top 10, task 2": level(two.top, 0, within=0.03, at=larger_first),
    "5+5, above layer 8, task 1": at_most(two.above_8, two.NONE, at=fives),
    "3+7, above layer 7, task 2": at_most(two.above_7, two.NONE, at=larger_last),
}
hurt = {
    "3+7, task 2": at_least(two.loss_2, 0.01, at=larger_last),
    "7+3, task 1": at_least(two.loss_1, 0.01, at=larger_first),
}
looks: Any = {"up": "accuracy", "across": "x"}
lines = {f"M{k}^{{1:x}} + M{3 - k}, task {task}": (f"front_{k}", f"task {task}") for k in (1, 2) for task in (1, 2)}

recipe = Recipe(
    "tunnel/substitution",
    **two.about(two.substitute, *two.CROSSED, measures=("front_*",), accuracy=At("front_1", -1, "task 1")),
    shows="the top layers can be exchanged between the networks of two tasks without loss",
    axes={
        "split": Axis("tasks", two.splits),
        "network": Axis("network.name", {name: f"winze/{name}" for name in ("vgg19", "vgg13")}),
        "width": Axis("", {1: {}} | {one: {"network.options.width": one} for one in (0.25, 2, 0.125, 0.0625)}),
        "rate": two.RATE,
    },
    scales={
        "smoke": Scale(
            two.smoke,
            {"split": ("5+5", "3+7"), "network": ("vgg19",), "width": (0.0625,), **two.PUBLISHED},
            departures=(two.SMOKE,),
        ),
        "cpu": Scale(
            two.digits,
            {"width": (0.0625, 0.125, 0.25), **two.PUBLISHED},
            seeds=3,
            only=lambda point: varies_one(point) and (point["network"] == "vgg13") == (point["width"] != 0.125),
            departures=(two.DIGITS, "VGG-13 with a sixteenth and a quarter of the channels"),
        ),
        "gpu": Scale(
            two.ten_epochs,
            {"width": (1, 0.25, 2)},
            seeds=3,
            only=varies_one,
            at=(two.GENTLY, two.FIFTEEN, ({"rate": 0.1, "width": 2}, {"training.length": Epochs(10)})),
            departures=(two.SHORT, two.TWO_RATES),
        ),
        "paper": Scale({}, {"width": (1, 0.25, 2), **two.PUBLISHED}, seeds=3, only=varies_one),
    },
    claims=(
        two.claim(
            "layers above the extractor can be exchanged between the networks of two tasks: the top 10 change task 2 "
            "by 3 points at most, and more than 7 or 8 bottom layers gain 2 points at most",
            "figs. 5.11.1 to 5.11.3",
            several("tasks", exchanges),
            paper="unchanged, no gain",
            post_hoc="3+7 was first read on the other curve, M2^{1:x} + M1^{x+1:n}",
        ),
    ),
    questions=(
        two.question(
            "does replacing the top 1 to 10 layers cost the task with more classes a point or more?",
            several("tasks", hurt),
        ),
        two.question(
            "can a larger share of the layers be replaced in wide networks (x 2) than in narrow ones (x 0.25)?",
            higher(two.share, {"width": 2}, than={"width": 0.25}),
            each=("network", "rate"),
        ),
    ),
    figures=(
        over_depth(lines, at={"network": "vgg19", "width": (1, 0.125)}, title="Layers substituted", **looks),
        over_depth(lines, at=fives, title="Layers substituted by width", **looks),
    ),
)
