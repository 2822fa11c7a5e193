"""Layers of the network after one task in the network after another, one by one (figures 5.11.1 to 5.11.9).

    winze run tunnel/substitution --scale cpu    # VGG-19 and VGG-13 with few channels on digits
    winze run tunnel/substitution --scale gpu    # VGG-19 and VGG-13 of three widths on CIFAR-10, 3 seeds

M1 and M2 are a network after task 1 and after task 2. `front_1` is M1^{1:x} + M2^{x+1:n} over x, `front_2` is
M2^{1:x} + M1^{x+1:n}, each judged on both tasks through that task's own head; n counts hidden layers, 18 of a VGG-19.
Where the top layers of M2 can be replaced by those of M1 without harm to task 2, they are a tunnel.

The thesis's two statements about tasks of 3 and 7 classes pull apart: layers above the seventh give no improvement in
task 2, and replacing any top layers hurts it. Both are judged as they stand.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from winze.depth import Place
from winze.lab import Claim, Recipe, Scale, at_least, at_most, higher, level
from winze.lab.bench import Bench
from winze.lab.quantities import At, Over
from winze.readings import Array
from winze.recipes.tunnel.settings import CONTINUAL, FAST, GENTLE, GENTLE_TASKS, NORM, PAPER, PICTURES, SYSTEM, URL
from winze.recipes.tunnel.tasks import Continual, learn, title
from winze.report.curves import Curve, curves

TOP = 10  # layers that the thesis replaces
NONE = 0.02  # of accuracy: what counts as no gain and no loss
SPLITS = {"three_seven": (3, 7), "five_five": (5, 5), "seven_three": (7, 3)}
LINES = [
    Curve(f"{said}, {title(task)}", f"front_{front}", title(task), colour=front - 1, dash="-" if task == 1 else "--")
    for front, said in ((1, "x layers of M1, then M2"), (2, "x layers of M2, then M1"))
    for task in (1, 2)
]


def work(config: Continual, bench: Bench) -> None:
    """Learn both tasks, then judge every crossing of the two networks on both."""
    learnt = learn(config, bench)
    if not bench.writes:
        return
    count = len(learnt.names)
    for upto, name in enumerate(["none", *learnt.names]):
        for front, back in ((1, 2), (2, 1)):
            weights = learnt.crossed(front, back, upto)
            for task in (1, 2):
                right, n = learnt.accuracy(weights, task), len(learnt.tasks[task - 1].test_labels)
                place = Place(upto, count + 1, name)
                bench.readings.add(f"front_{front}", right, place=place, data=title(task), split="test", n=n)
    bench.readings.conventions["layers"] = {"from the first": list(range(count + 1))}


def gain_above(curve: Array, layer: int) -> float:
    """How much more is right with any number of front layers above `layer` than with `layer` of them."""
    return float(curve[layer + 1 :].max() - curve[layer])


def mean_loss(curve: Array) -> float:
    """What replacing the top 1, 2, ... 10 layers costs, on average."""
    return float(curve[-1] - curve[-1 - TOP : -1].mean())


def replaceable(curve: Array) -> float:
    """The share of layers, counted from the top, that can be replaced together at no more than 2 points."""
    lost = curve[-1] - curve[::-1]
    return float((np.append(lost > NONE, True).argmax() - 1) / (len(curve) - 1))


recipe = Recipe(
    name="tunnel/substitution",
    system=SYSTEM,
    shows="the top layers of the network after another task serve as well as its own",
    paper=PAPER,
    url=URL,
    arms={
        **{arm: {"tasks": tasks} for arm, tasks in SPLITS.items()},
        "vgg19_narrow": {"network": "winze/vgg19x0.25"},
        "vgg19_wide": {"network": "winze/vgg19x2"},
        "vgg13_narrow": {"network": "winze/vgg13x0.25"},
        "vgg13": {"network": "winze/vgg13"},
        "vgg13_wide": {"network": "winze/vgg13x2"},
    },
    scales={
        "smoke": Scale(
            Continual("winze/vgg11x0.0625", "digits", replace(CONTINUAL, epochs=1, augment=()), limit=200),
            seeds=(0,),
            arms=("three_seven", "five_five"),
            departures=("digits instead of CIFAR-10", "VGG-11 with 4 channels, 1 epoch a task on 200 samples"),
        ),
        "cpu": Scale(
            Continual("winze/vgg19x0.125", "digits", replace(CONTINUAL, augment=())),
            seeds=(0, 1, 2),
            arms=(*SPLITS, "vgg13_narrow", "vgg13_wide"),
            changes={
                "vgg13_narrow": {"network": "winze/vgg13x0.0625"},
                "vgg13_wide": {"network": "winze/vgg13x0.25"},
            },
            departures=(
                "digits instead of CIFAR-10, as they are",
                "VGG-19 with an eighth of the channels, VGG-13 with a sixteenth and with a quarter",
            ),
        ),
        "gpu": Scale(
            Continual("winze/vgg19", "cifar10", replace(GENTLE_TASKS, epochs=10, evaluate_every=10)),
            seeds=(0, 1, 2),
            changes={"*": FAST},
            departures=("10 epochs a task instead of 30", "in bf16", GENTLE),
        ),
        "paper": Scale(Continual("winze/vgg19", "cifar10", CONTINUAL), seeds=(0, 1, 2)),
    },
    work=work,
    quantities={
        "task_2_without_its_top": At("front_2", -1 - TOP, title(2)) - At("front_2", -1, title(2)),
        "task_1_above_layer_8": Over("front_1", partial(gain_above, layer=8), title(1)),
        "task_2_above_layer_7": Over("front_2", partial(gain_above, layer=7), title(2)),
        "mean_loss_of_task_1_by_a_foreign_top": Over("front_1", mean_loss, title(1)),
        "mean_loss_of_task_2_by_a_foreign_top": Over("front_2", mean_loss, title(2)),
        "share_of_layers_that_can_be_replaced": Over("front_2", replaceable, title(2)),
    },
    claims=(
        Claim(
            "tasks of 5 and 5: replacing the top 10 layers leaves task 2 as it was (3 points)",
            level("task_2_without_its_top", "five_five", 0, within=0.03),
            paper="unchanged",
        ),
        Claim(
            "tasks of 5 and 5: more than 8 bottom layers give no further gain on task 1 (2 points)",
            at_most("task_1_above_layer_8", "five_five", NONE),
            paper="no gain above 8",
        ),
        Claim(
            "tasks of 3 and 7: more than 7 bottom layers give no further gain on task 2 (2 points)",
            at_most("task_2_above_layer_7", "three_seven", NONE),
            paper="no gain above 7",
        ),
        Claim(
            "tasks of 3 and 7: replacing any top layers hurts task 2 (a point or more, over the top 1 to 10)",
            at_least("mean_loss_of_task_2_by_a_foreign_top", "three_seven", 0.01),
            paper="hurts",
        ),
        Claim(
            "tasks of 7 and 3: replacing any top layers hurts task 1 (a point or more, over the top 1 to 10)",
            at_least("mean_loss_of_task_1_by_a_foreign_top", "seven_three", 0.01),
            paper="hurts",
        ),
        Claim(
            "tasks of 7 and 3: replacing the top 10 layers leaves task 2 as it was (3 points)",
            level("task_2_without_its_top", "seven_three", 0, within=0.03),
            paper="unchanged",
        ),
        Claim(
            "a narrow VGG-13 has no clear tunnel: less than a quarter of its layers can be replaced at no loss",
            at_most("share_of_layers_that_can_be_replaced", "vgg13_narrow", 0.25),
            paper="no clear tunnel",
        ),
        *(
            Claim(
                f"a wide VGG-{depth} has a tunnel: a quarter of its layers or more can be replaced at no loss",
                at_least("share_of_layers_that_can_be_replaced", f"vgg{depth}_wide", 0.25),
                paper="tunnel",
            )
            for depth in (13, 19)
        ),
        *(
            Claim(
                f"of a wide VGG-{depth} more layers can be replaced at no loss than of a narrow one",
                higher("share_of_layers_that_can_be_replaced", f"vgg{depth}_wide", than=f"vgg{depth}_narrow"),
                paper="wide ones show it",
            )
            for depth in (13, 19)
        ),
    ),
    departures=(
        NORM,
        PICTURES,
        "both tasks learn as the thesis's other continual runs do: 30 epochs each at a constant rate of .1",
        "classes come in the order of the data set; the thesis does not say which it took",
        "statistics of batch norm go with their layer; a head speaks for its task as that task left it",
    ),
    measures=("front_*",),
    figures={"Layers substituted": partial(curves, lines=LINES, up="accuracy", across="x, layers from the first")},
)
