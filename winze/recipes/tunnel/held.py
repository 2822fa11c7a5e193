"""The thesis's advice for continual learning, put to the test: hold the extractor, and leave the tunnel free.

    winze run tunnel/held --scale cpu    # VGG-19 with an eighth of the channels on digits
    winze run tunnel/held --scale gpu    # VGG-19 on CIFAR-10, 3 seeds

A network learns five classes, then five others, with a head for each task. In task 2 all layers learn (`free`), the
extractor, layers 1 to 8, stands still (`extractor_held`) or learns at a tenth of the rate (`extractor_slow`), or the
tunnel does (`tunnel_held`, `tunnel_slow`). Batch norms of layers that stand still go by the statistics of task 1.

Layers 1 to 8 are the extractor that the thesis finds in a VGG-19 on CIFAR-10.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from winze.lab import Claim, Recipe, Scale, higher
from winze.lab.bench import Bench
from winze.lab.quantities import Whole
from winze.recipes.tunnel.settings import (
    CONTINUAL,
    EXTRACTOR,
    FAST,
    GENTLE,
    GENTLE_TASKS,
    NORM,
    PAPER,
    PICTURES,
    SYSTEM,
    TUNNEL,
    URL,
)
from winze.recipes.tunnel.tasks import FORGETTING, Continual, remember, title
from winze.report.ladders import Rung, ladder

ARMS = {
    "free": ((), 1.0),
    "tunnel_slow": (TUNNEL, 0.1),
    "tunnel_held": (TUNNEL, 0.0),
    "extractor_slow": (EXTRACTOR, 0.1),
    "extractor_held": (EXTRACTOR, 0.0),
}
ADVICE = "regularise the extractor only"


@dataclass(frozen=True)
class Held(Continual):
    """Tasks, and what the rates of some weights are multiplied by after the first."""

    weights: tuple[str, ...] = ()
    rate: float = 1.0


def work(config: Held, bench: Bench) -> None:
    """Learn both tasks, the second with some layers held; how well each is known right after it, and at the end."""
    remember(config, bench, replace(config.training, rates=tuple((glob, config.rate) for glob in config.weights)))


recipe = Recipe(
    name="tunnel/held",
    system=SYSTEM,
    shows="whether holding the extractor, and not the tunnel, keeps a network from forgetting",
    paper=PAPER,
    url=URL,
    arms={arm: {"weights": weights, "rate": rate} for arm, (weights, rate) in ARMS.items()},
    scales={
        "smoke": Scale(
            Held("winze/vgg19x0.0625", "digits", replace(CONTINUAL, epochs=1, augment=()), limit=200),
            seeds=(0,),
            arms=("free", "extractor_held"),
            departures=("digits instead of CIFAR-10", "VGG-19 with 4 channels, 1 epoch a task on 200 samples"),
        ),
        "cpu": Scale(
            Held("winze/vgg19x0.125", "digits", replace(CONTINUAL, augment=())),
            seeds=tuple(range(6)),
            departures=(
                "digits instead of CIFAR-10, as they are",
                "VGG-19 with an eighth of the channels",
                "on digits probes reach 95 % of the accuracy at layer 1: layers 1 to 8 are just the first half",
            ),
        ),
        "gpu": Scale(
            Held("winze/vgg19", "cifar10", replace(GENTLE_TASKS, epochs=10, evaluate_every=10)),
            seeds=(0, 1, 2),
            changes={"*": FAST},
            departures=("10 epochs a task instead of 30", "in bf16", GENTLE),
        ),
        "paper": Scale(Held("winze/vgg19", "cifar10", CONTINUAL), seeds=(0, 1, 2)),
    },
    work=work,
    quantities={
        "kept_of_task_1": Whole("kept", title(1)),
        "learnt_of_task_2": Whole("learnt", title(2)),
        "forgetting_of_task_1": Whole(FORGETTING, title(1)),
        "both_tasks_at_the_end": Whole("kept", title(1)) + Whole("kept", title(2)),
    },
    claims=(
        *(
            Claim(
                f"a network whose extractor {does} in task 2 forgets less of task 1 (by 10 points or more)",
                higher("forgetting_of_task_1", "free", than=arm, by=0.1),
                paper=ADVICE,
            )
            for arm, does in {"extractor_held": "stands still", "extractor_slow": "learns slowly"}.items()
        ),
        *(
            Claim(
                f"to {do} the extractor keeps more of task 1 than to {do} the tunnel",
                higher("kept_of_task_1", f"extractor_{how}", than=f"tunnel_{how}"),
                paper=ADVICE,
            )
            for do, how in {"hold": "held", "slow down": "slow"}.items()
        ),
        Claim(
            "a network whose tunnel stands still learns task 2 as well (5 points less at most)",
            higher("learnt_of_task_2", "tunnel_held", than="free", by=-0.05),
            paper="the tunnel is task-agnostic",
        ),
        Claim(
            "both tasks together are known best with the extractor held: better than with all layers free",
            higher("both_tasks_at_the_end", "extractor_held", than="free"),
            paper="open",
        ),
    ),
    departures=(
        NORM,
        PICTURES,
        "the thesis advises and does not measure: the arms are ours",
        "classes come in the order of the data set",
    ),
    measures=("learnt", "kept", FORGETTING),
    figures={
        "Both tasks at the end": partial(
            ladder,
            at={arm: arm.replace("_", " ") for arm in ARMS},
            rungs=[
                Rung("accuracy at the end", {title(task): ("kept", title(task)) for task in (1, 2)}),
                Rung("forgetting", {title(1): (FORGETTING, title(1))}),
            ],
            across="what is held in task 2",
        )
    },
)
