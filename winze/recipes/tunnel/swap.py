"""Is the tunnel task-agnostic: extractor and tunnel of two tasks, crossed (table 5.4.1).

    winze run tunnel/swap --scale cpu    # VGG-19 with an eighth of the channels on digits, minutes on 2 cores
    winze run tunnel/swap --scale gpu    # VGG-19 on CIFAR-10, 3 seeds

A network learns five classes (task 1), then five others (task 2), with a head for each task. E_k and T_k are its
extractor (layers 1 to 8) and its tunnel (the other hidden layers) after task k. E_a + T_b is judged on each task
through that task's head. FT: the head learnt anew on task 1, on top of E2 + T1, or right on top of E2.

The thesis's numbers are of one class split that it does not name, and of a training that it does not give for this
table; here both are those of its other continual runs, and classes come in the order of the data set.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from winze.lab import Claim, Recipe, Scale, at_least, higher, level
from winze.lab.bench import Bench
from winze.lab.quantities import Number, Whole
from winze.observe import scan
from winze.recipes.tunnel.settings import CONTINUAL, FAST, GENTLE, GENTLE_TASKS, NORM, PAPER, PICTURES, SYSTEM, URL
from winze.recipes.tunnel.tasks import Continual, Learnt, learn, title
from winze.report.points import Group, points

PAIRS = {"E1+T1": (1, 1), "E1+T2": (1, 2), "E2+T2": (2, 2), "E2+T1": (2, 1)}
TUNED, PROBED = "E2+T1 (FT)", "E2 (FT)"
TABLE = {  # table 5.4.1: percent right on tasks 1 and 2
    "E1+T1": (92.04, 56.8),
    "E1+T2": (92.5, 58.04),
    "E2+T2": (50.84, 93.94),
    "E2+T1": (50.66, 93.72),
    TUNED: (56.1,),
    PROBED: (74.4,),
}
CELLS = [(row, task, value) for row, values in TABLE.items() for task, value in enumerate(values, 1)]
FULL = ("gpu", "paper")


@dataclass(frozen=True)
class Swap(Continual):
    """Tasks, and the last layer of the extractor."""

    extractor: int = 8
    probe: Literal["ridge", "adam"] = "adam"


def work(config: Swap, bench: Bench) -> None:
    """Learn both tasks, judge every pair of extractor and tunnel, and learn the head of task 1 anew."""
    learnt = learn(config, bench)
    if not bench.writes:
        return
    for measure, (front, back) in PAIRS.items():
        for task in (1, 2):
            right = learnt.accuracy(learnt.crossed(front, back, config.extractor), task)
            bench.readings.add(
                measure, right, data=title(task), split="test", n=len(learnt.tasks[task - 1].test_labels)
            )
    for measure, right in _tuned(config, learnt).items():
        bench.readings.add(measure, right, data=title(1), split="test", n=len(learnt.tasks[0].test_labels))
    bench.readings.conventions["notes"].append(
        f"the extractor is layers 1 to {config.extractor} ({learnt.names[config.extractor - 1]}), "
        f"the tunnel layers {config.extractor + 1} to {len(learnt.names)}"
    )


def _tuned(config: Swap, learnt: Learnt) -> dict[str, float]:
    """What linear heads learnt on task 1 reach on top of E2 + T1 and of E2."""
    learnt.net.load_state_dict(learnt.crossed(2, 1, config.extractor))
    device = next(learnt.net.parameters()).device
    task, places = learnt.tasks[0], [learnt.names[config.extractor - 1], learnt.names[-1]]
    train, test = ((learnt.preprocess(images.to(device)), labels) for images, labels in (task.train, task.test))
    found = scan(
        learnt.net,
        train,
        test,
        places=places,
        measures=("probe",),
        probe=config.probe,
        pool="flatten",
        progress=False,
    )
    return dict(zip((PROBED, TUNED), found.curve("probe").tolist(), strict=True))


def _on(row: str, task: int) -> Number:
    return Whole(row, title(task))


def _name(row: str, task: int) -> str:
    return f"{row} on task {task}"


groups = [
    Group(row, {title(task): (row, title(task)) for task in range(1, len(values) + 1)}) for row, values in TABLE.items()
]
recipe = Recipe(
    name="tunnel/swap",
    system=SYSTEM,
    shows="the tunnel serves another task as well as its own; the extractor is what a task needs and forgets",
    paper=PAPER,
    url=URL,
    arms={"five_five": {"tasks": (5, 5)}, "seven_three": {"tasks": (7, 3)}},
    scales={
        "smoke": Scale(
            Swap(
                "winze/vgg11x0.0625",
                "digits",
                replace(CONTINUAL, epochs=1, augment=()),
                limit=200,
                extractor=4,
                probe="ridge",
            ),
            seeds=(0,),
            departures=("digits instead of CIFAR-10", "VGG-11 with 4 channels, 1 epoch a task on 200 samples"),
        ),
        "cpu": Scale(
            Swap("winze/vgg19x0.125", "digits", replace(CONTINUAL, augment=()), probe="ridge"),
            seeds=(0, 1, 2, 3, 4, 5),
            departures=(
                "digits instead of CIFAR-10, as they are",
                "VGG-19 with an eighth of the channels",
                "heads learnt anew are fitted in closed form",
            ),
        ),
        "gpu": Scale(
            Swap("winze/vgg19", "cifar10", GENTLE_TASKS),
            seeds=(0, 1, 2),
            changes={"*": FAST},
            departures=("in bf16", GENTLE),
        ),
        "paper": Scale(Swap("winze/vgg19", "cifar10", CONTINUAL), seeds=(0, 1, 2)),
    },
    work=work,
    quantities={
        **{_name(row, task): _on(row, task) for row, task, _ in CELLS},
        "gain_on_task_1_by_the_tunnel_of_task_2": _on("E1+T2", 1) - _on("E1+T1", 1),
        "gain_on_task_2_by_the_tunnel_of_task_1": _on("E2+T1", 2) - _on("E2+T2", 2),
        "loss_on_task_1_by_the_extractor_of_task_2": _on("E1+T1", 1) - _on("E2+T1", 1),
        "loss_on_task_2_by_the_extractor_of_task_1": _on("E2+T2", 2) - _on("E1+T2", 2),
        "loss_on_task_1_by_the_tunnel_of_task_2": _on("E1+T1", 1) - _on("E1+T2", 1),
        "gain_of_a_head_on_E2_over_one_on_E2+T1": _on(PROBED, 1) - _on(TUNED, 1),
        "gain_of_a_new_head_on_E2+T1": _on(TUNED, 1) - _on("E2+T1", 1),
    },
    claims=(
        Claim(
            "on task 1 the tunnel of task 2 is as good as that of task 1, behind the extractor of task 1 (5 points)",
            level("gain_on_task_1_by_the_tunnel_of_task_2", "five_five", 0, within=0.05),
            paper="92.04 -> 92.5",
        ),
        Claim(
            "on task 2 the tunnel of task 1 is as good as that of task 2, behind the extractor of task 2 (5 points)",
            level("gain_on_task_2_by_the_tunnel_of_task_1", "five_five", 0, within=0.05),
            paper="93.94 -> 93.72",
        ),
        Claim(
            "the extractor of task 2 has lost task 1, whatever the tunnel (20 points or more)",
            at_least("loss_on_task_1_by_the_extractor_of_task_2", "five_five", 0.2),
            paper="92.04 -> 50.66",
        ),
        Claim(
            "the extractor of task 1 does not serve task 2, whatever the tunnel (20 points or more)",
            at_least("loss_on_task_2_by_the_extractor_of_task_1", "five_five", 0.2),
            paper="93.94 -> 58.04",
        ),
        Claim(
            "a new head on the extractor of task 2 finds more of task 1 than one behind a tunnel",
            at_least("gain_of_a_head_on_E2_over_one_on_E2+T1", "five_five", 0),
            paper="56.1 -> 74.4",
        ),
        Claim(
            "a new head behind extractor 2 and tunnel 1 finds back a little of task 1",
            at_least("gain_of_a_new_head_on_E2+T1", "five_five", 0),
            paper="50.66 -> 56.1",
        ),
        Claim(
            "the tunnel of a task of more classes keeps task 2 of fewer (5 points)",
            level("gain_on_task_2_by_the_tunnel_of_task_1", "seven_three", 0, within=0.05),
            paper="keeps both",
        ),
        Claim(
            "the tunnel of a task of fewer classes does badly on task 1 of more (loses 5 points or more)",
            at_least("loss_on_task_1_by_the_tunnel_of_task_2", "seven_three", 0.05),
            paper="does badly",
        ),
        Claim(
            "it does worse than where both tasks have as many classes",
            higher("loss_on_task_1_by_the_tunnel_of_task_2", "seven_three", than="five_five"),
            paper="does badly",
        ),
        *(
            Claim(
                f"{row} is right about {value} % of task {task} (within 5 points)",
                level(_name(row, task), "five_five", value / 100, within=0.05),
                paper=value,
                scales=FULL,
            )
            for row, task, value in CELLS
        ),
    ),
    departures=(
        NORM,
        PICTURES,
        "both tasks learn as the thesis's other continual runs do: 30 epochs each at a constant rate of .1",
        "classes come in the order of the data set; the thesis does not say which it took",
        "statistics of batch norm go with their layer",
        "new heads are linear probes: Adam at .001, 30 epochs",
    ),
    measures=("E*",),
    figures={
        "Extractors and tunnels crossed": partial(
            points,
            groups=groups,
            what="accuracy",
            told={"five_five": {(row, title(task)): value / 100 for row, task, value in CELLS}},
            whose="the thesis, CIFAR-10",
        )
    },
)
