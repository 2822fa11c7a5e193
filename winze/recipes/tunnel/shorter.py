"""Do networks without a tunnel forget less: VGG-19 with ever fewer convolutions on two tasks (figure 5.4.1).

    winze run tunnel/shorter --scale cpu    # VGG-19 with an eighth of the channels on digits
    winze run tunnel/shorter --scale gpu    # VGG-19 of 5 to 19 layers on CIFAR-10, 3 seeds

A network learns five classes, then five others, with a head for each task. `learnt` is how often it is right about a
task right after learning it, `kept` at the end, and forgetting what lies between. Arms are named after the number of
layers: convolutions, two linear layers and the output. The thesis does not say which layers it took away; here they are
the deepest convolutions, and all five pools stay.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from winze.lab import Claim, Recipe, Scale, higher, rises
from winze.lab.quantities import Whole
from winze.recipes.tunnel.settings import CONTINUAL, FAST, GENTLE, GENTLE_TASKS, NORM, PAPER, PICTURES, SYSTEM, URL
from winze.recipes.tunnel.tasks import FORGETTING, Continual, remember, title
from winze.report.ladders import Rung, ladder

LINEAR = 3  # layers behind the convolutions
CONVS = (2, 4, 6, 8, 10, 13, 16)
ARMS = {f"layers_{convs + LINEAR}": convs for convs in CONVS}
FEW = ("layers_7", "layers_11", "layers_19")
WHOLE, AS_EXTRACTOR, BELOW = "layers_19", "layers_11", "layers_5"
LADDERS = {("cpu",): FEW, ("gpu", "paper"): tuple(ARMS)}  # by scale


recipe = Recipe(
    name="tunnel/shorter",
    system=SYSTEM,
    shows="networks without a tunnel learn as well and forget less",
    paper=PAPER,
    url=URL,
    arms={arm: {"options": {"convs": convs}} for arm, convs in ARMS.items()},
    scales={
        "smoke": Scale(
            Continual("winze/vgg19x0.0625", "digits", replace(CONTINUAL, epochs=1, augment=()), limit=200),
            seeds=(0,),
            arms=(AS_EXTRACTOR, WHOLE),
            departures=("digits instead of CIFAR-10", "VGG-19 with 4 channels, 1 epoch a task on 200 samples"),
        ),
        "cpu": Scale(
            Continual("winze/vgg19x0.125", "digits", replace(CONTINUAL, augment=())),
            seeds=tuple(range(8)),
            arms=FEW,
            departures=("digits instead of CIFAR-10, as they are", "VGG-19 with an eighth of the channels"),
        ),
        "gpu": Scale(
            Continual("winze/vgg19", "cifar10", replace(GENTLE_TASKS, epochs=10, evaluate_every=10)),
            seeds=(0, 1, 2),
            changes={"*": FAST},
            departures=("10 epochs a task instead of 30", "in bf16", GENTLE),
        ),
        "paper": Scale(Continual("winze/vgg19", "cifar10", CONTINUAL), seeds=(0, 1, 2)),
    },
    work=remember,
    quantities={
        **{
            f"{measure}_of_task_{task}": Whole(measure, title(task))
            for measure in ("learnt", "kept")
            for task in (1, 2)
        },
        "forgetting_of_task_1": Whole(FORGETTING, title(1)),
    },
    claims=(
        *(
            Claim(
                f"VGG-19 of its first 8 convolutions learns task {task} as well as the whole (2 points less at most)",
                higher(f"learnt_of_task_{task}", AS_EXTRACTOR, than=WHOLE, by=-0.02),
                paper="as the whole",
            )
            for task in (1, 2)
        ),
        *(
            Claim(
                f"networks shorter than the extractor learn task {task} worse: 2 convolutions against 8",
                higher(f"learnt_of_task_{task}", AS_EXTRACTOR, than=BELOW),
                paper="lower below the extractor",
            )
            for task in (1, 2)
        ),
        Claim(
            "VGG-19 of its first 8 convolutions forgets less than the whole",
            higher("forgetting_of_task_1", WHOLE, than=AS_EXTRACTOR),
            paper="forgets less",
        ),
        *(
            Claim(
                "the shorter the network, the less it forgets",
                rises("forgetting_of_task_1", ladder_of, at=[float(arm.split("_")[1]) for arm in ladder_of]),
                paper="forgets less",
                scales=scales,
            )
            for scales, ladder_of in LADDERS.items()
        ),
    ),
    departures=(
        NORM,
        PICTURES,
        "the deepest convolutions are taken away first, pools and linear layers stay; the thesis does not say which",
        "classes come in the order of the data set; the thesis does not say which it took",
    ),
    measures=("learnt", "kept", FORGETTING),
    figures={
        "Accuracy and forgetting": partial(
            ladder,
            at={arm: convs + LINEAR for arm, convs in ARMS.items()},
            rungs=[
                Rung("accuracy right after", {title(task): ("learnt", title(task)) for task in (1, 2)}),
                Rung("forgetting", {title(1): (FORGETTING, title(1))}),
            ],
            across="number of layers",
        )
    },
)
