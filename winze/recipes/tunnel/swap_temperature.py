"""Beyond the thesis: does the softmax temperature move where forgetting happens?

    winze run tunnel/swap_temperature --scale cpu    # VGG-19 with an eighth of the channels on digits
    winze run tunnel/swap_temperature --scale gpu    # VGG-19 on CIFAR-10, 2 points x 3 seeds

The experiment of tunnel/swap (table 5.4.1) at T = 1 and T = 100. A high temperature compresses features earlier
(chapter 6), so the tunnel might begin before layer 8, and less of what a task needs might be lost with the extractor.
"""

from winze.lab import Axis, Question, Recipe, Scale, alike, higher, several
from winze.recipes.tunnel import _continual as two
from winze.recipes.tunnel._continual import PROBED, TUNED, on
from winze.recipes.tunnel._settings import FAST, GENTLE_TASKS
from winze.report.experiment import over_setting
from winze.train import Classify

cold, hot = {"temperature": 1}, {"temperature": 100}
HEATED = {1: Classify(), 100: Classify(temperature=100.0, compensate=True)}
by_extractor = (on(1, "E1+T1") - on(1, "E2+T1")).named("loss on task 1 by the extractor of task 2")
by_tunnel = (on(1, "E1+T1") - on(1, "E1+T2")).named("loss on task 1 by the tunnel of task 2")
forgotten = (on(1, "E1+T1") - on(1, "E2+T2")).named("forgetting of task 1")
slow = {"training.optimizer.lr": 0.01, "training.schedule": GENTLE_TASKS.schedule}
SLOW = "learning rate 0.01 with a warm-up of one epoch: at 0.1 and 0.03 networks on digits did not learn at T = 100"

recipe = Recipe(
    "tunnel/swap_temperature",
    **two.swapped(
        "the loss at T = 100 is multiplied by T, so that gradients do not shrink; learning rates are the same"
    ),
    shows="whether a high softmax temperature moves forgetting from the extractor to the tunnel",
    axes={"temperature": Axis("training.objective", HEATED)},
    scales={
        "smoke": Scale({**two.smoke, "reading.probe": "ridge"}, departures=(two.SMOKE,)),
        "cpu": Scale({**two.digits, **slow, "reading.probe": "ridge"}, seeds=5, departures=(two.DIGITS, SLOW)),
        "gpu": Scale({**FAST, **slow}, seeds=3, departures=("bf16", SLOW)),
        "paper": Scale({}, seeds=3),
    },
    questions=(
        Question(
            "does T = 100 raise what the tunnel of task 2 costs task 1, and lower what its extractor costs?",
            several(
                "exchanged",
                {"tunnel": higher(by_tunnel, hot, than=cold), "extractor": higher(by_extractor, cold, than=hot)},
            ),
        ),
        Question("does the network forget more at T = 100?", higher(forgotten, hot, than=cold)),
        Question(
            "do E1 + T1 at T = 1 and T = 100 reach the same accuracy on task 1 (within 2 points)?",
            alike(on(1, "E1+T1"), hot, to=cold, within=0.02),
        ),
        Question(
            "do the features of E2 keep more of task 1 than those of E2 + T1 by a larger margin at T = 100?",
            higher((on(1, PROBED) - on(1, TUNED)).named("probe of E2 above that of E2 + T1"), hot, than=cold),
        ),
    ),
    figures=(
        over_setting(
            {"by the extractor": by_extractor, "by the tunnel": by_tunnel, "by both": forgotten},
            x="temperature",
            log=True,
            up="accuracy lost on task 1",
        ),
    ),
)
