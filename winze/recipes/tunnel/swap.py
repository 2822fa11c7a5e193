"""Is the tunnel task-agnostic: extractors and tunnels of two tasks exchanged (thesis, table 5.4.1).

    winze run tunnel/swap --scale cpu                   # VGG-19 with an eighth of the channels on digits: 7 minutes
    winze run tunnel/swap --scale gpu --at rate=0.03    # VGG-19 on CIFAR-10: 2 points x 3 seeds, 40 minutes of an H200

A network is trained on task 1, then on task 2, with a head per task. E_k and T_k are its extractor (layers 1 to 8) and
its tunnel (the other hidden layers) after task k; E_a + T_b is evaluated on each task through that task's head. FT: a
new head is fitted on task 1, on top of E2 + T1 or directly on top of E2.
"""

from winze.lab import Axis, Recipe, Scale, at_least, higher, level, several
from winze.recipes.tunnel import _continual as two
from winze.recipes.tunnel._continual import PROBED, TUNED, on
from winze.recipes.tunnel._settings import FAST
from winze.report.experiment import over_setting

TABLE = {  # table 5.4.1: accuracy in percent, by task
    1: {"E1+T1": 92.04, "E1+T2": 92.5, "E2+T2": 50.84, "E2+T1": 50.66, TUNED: 56.1, PROBED: 74.4},
    2: {"E1+T1": 56.8, "E1+T2": 58.04, "E2+T2": 93.94, "E2+T1": 93.72},
}
CELLS = {f"{row}, task {k}": (k, row, value) for k, rows in TABLE.items() for row, value in rows.items()}
own, tunnel, extractor = {1: "E1+T1", 2: "E2+T2"}, {1: "E1+T2", 2: "E2+T1"}, {1: "E2+T1", 2: "E1+T2"}
gain = {k: (on(k, tunnel[k]) - on(k, own[k])).named(f"gain on task {k} by the tunnel of task {3 - k}") for k in own}
lost = {
    k: (on(k, own[k]) - on(k, extractor[k])).named(f"loss on task {k} by the extractor of task {3 - k}") for k in own
}
lost_by_tunnel = (on(1, "E1+T1") - on(1, "E1+T2")).named("loss on task 1 by the tunnel of task 2")
exchanges = {f"tunnel, task {k}": level(gain[k], 0, within=0.05) for k in own}
exchanges |= {f"extractor, task {k}": at_least(lost[k], 0.2) for k in own}
levels = {name: level(on(k, row), value / 100, within=0.05) for name, (k, row, value) in CELLS.items()}
unequal = {"T1, task 2": level(gain[2], 0, within=0.05), "T2, task 1": at_least(lost_by_tunnel, 0.05)}

recipe = Recipe(
    "tunnel/swap",
    **two.swapped("new heads are linear probes: Adam at 0.001, 30 epochs; ridge on digits"),
    shows="the tunnel is task-agnostic; what a task needs and forgets is the extractor",
    axes={"split": Axis("tasks", {name: two.splits[name] for name in ("5+5", "7+3")}), "rate": two.RATE},
    scales={
        "smoke": Scale({**two.smoke, "reading.probe": "ridge"}, two.PUBLISHED, departures=(two.SMOKE,)),
        "cpu": Scale({**two.digits, "reading.probe": "ridge"}, two.PUBLISHED, seeds=6, departures=(two.DIGITS,)),
        "gpu": Scale(FAST, seeds=3, at=(two.GENTLY,), departures=(two.TWO_RATES,)),
        "paper": Scale({}, two.PUBLISHED, seeds=3),
    },
    claims=(
        two.claim(
            "the tunnel is task-agnostic: the other task's tunnel keeps the accuracy within 5 points, the other task's "
            "extractor loses 20 points or more",
            "table 5.4.1",
            several("exchanged", exchanges),
            paper={f"tunnel, task {k}": f"{TABLE[k][own[k]]} -> {TABLE[k][tunnel[k]]}" for k in own}
            | {f"extractor, task {k}": f"{TABLE[k][own[k]]} -> {TABLE[k][extractor[k]]}" for k in own},
        ),
        two.claim(
            "extractors and tunnels of two tasks reach the accuracies of table 5.4.1 (within 5 points)",
            "table 5.4.1",
            several("combination", levels),
            paper={name: value for name, (_, _, value) in CELLS.items()},
            scales=("gpu", "paper"),
        ),
        two.claim(
            "after tasks of 7 and 3 classes the tunnel of the larger task keeps the accuracy on the smaller (within 5 "
            "points), and the tunnel of the smaller loses 5 points or more on the larger",
            "appendix on tasks of unequal size",
            several("tunnel", unequal),
            at={"split": "7+3"},
            paper={"T1, task 2": "keeps both", "T2, task 1": "does badly"},
        ),
    ),
    questions=(
        two.question(
            "does the tunnel of task 2 lose more on task 1 where task 2 has fewer classes?",
            higher(lost_by_tunnel, {"split": "7+3"}, than={"split": "5+5"}),
        ),
    ),
    figures=tuple(
        over_setting(
            {row: on(k, row) for row in rows},
            x="rate",
            panel="split",
            paper={(0.1, "5+5", row): value / 100 for row, value in rows.items()},
            up=f"accuracy on task {k}",
        )
        for k, rows in TABLE.items()
    ),
)
