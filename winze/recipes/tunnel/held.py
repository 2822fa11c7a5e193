"""The thesis's advice for continual learning, tested: regularise the extractor only (thesis, section 5.7).

    winze run tunnel/held --scale cpu                      # VGG-19 with an eighth of the channels on digits: 8 minutes
    winze run tunnel/held --scale gpu --at start=shared    # VGG-19 on CIFAR-10: 5 points x 3 seeds, 15 H200 minutes

In task 2 the extractor (layers 1 to 8) or the tunnel is frozen, with its batch norm statistics, or trained at a tenth
of the learning rate. All points of a seed share the network after task 1; those with a start of their own do not.
"""

from dataclasses import replace
from functools import partial

from winze.lab import Axis, Question, Recipe, Scale, higher, not_below, several
from winze.recipes.tunnel import _continual as two
from winze.recipes.tunnel._settings import EXTRACTOR, FAST, GENTLE_TASKS, TUNNEL
from winze.report.experiment import over_setting
from winze.train import Epochs

slowed = {
    f"{name} {how}": tuple((glob, factor) for glob in globs)
    for name, globs in {"tunnel": TUNNEL, "extractor": EXTRACTOR}.items()
    for how, factor in {"slow": 0.1, "frozen": 0.0}.items()
}
question = partial(Question, each="start")
at = {name: {"slowed": name} for name in ("none", *slowed)}
both = (two.kept[1] + two.kept[2]).named("sum of both final accuracies")
less = {how: higher(two.forgetting, at["none"], than=at[f"extractor {how}"], by=0.1) for how in ("slow", "frozen")}
more = {how: higher(two.kept[1], at[f"extractor {how}"], than=at[f"tunnel {how}"]) for how in ("slow", "frozen")}

recipe = Recipe(
    "tunnel/held",
    **two.about(
        two.learn_tasks,
        "the thesis gives this advice and does not test it: the experiment is ours",
        "of runs with a start of their own, the accuracy on task 1 right after it differs by up to 4 points per seed",
        study=two.Held(**two.parts),
    ),
    shows="whether freezing the extractor, and not the tunnel, keeps a network from forgetting",
    axes={"slowed": Axis("slowed", {"none": (), **slowed}), "start": Axis("shared", {"shared": True, "own": False})},
    scales={
        "smoke": Scale(
            two.smoke, {"slowed": ("none", "extractor frozen"), "start": ("shared",)}, departures=(two.SMOKE,)
        ),
        "cpu": Scale(
            two.digits,
            seeds=6,
            departures=(two.DIGITS, "on digits the tunnel starts at layer 1: layers 1 to 8 are just the first half"),
        ),
        "gpu": Scale(
            {"training": replace(GENTLE_TASKS, length=Epochs(10), evaluate=Epochs(10)), **FAST},
            seeds=3,
            departures=("bf16; 10 epochs per task instead of 30, at a learning rate of 0.03 instead of 0.1",),
        ),
        "paper": Scale({}, {"start": ("shared",)}, seeds=3),
    },
    questions=(
        question(
            "does a slow or frozen extractor reduce forgetting of task 1 by 10 points or more?",
            several("extractor", less),
        ),
        question(
            "does a slow or frozen extractor keep more of task 1 than a slow or frozen tunnel?", several("layers", more)
        ),
        question(
            "does a network with a frozen tunnel learn task 2 as well (5 points less at most)?",
            not_below(two.learned[2], at["tunnel frozen"], than=at["none"], margin=0.05),
        ),
        question(
            "are both tasks together more accurate at the end with a frozen extractor?",
            higher(both, at["extractor frozen"], than=at["none"]),
        ),
    ),
    figures=tuple(over_setting(one, x="slowed", line="start", up=str(one)) for one in (two.forgetting, both)),
)
