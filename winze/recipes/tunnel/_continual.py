"""What the recipes with two tasks share: the study, learning rates, scales and departures, and what a run does."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from winze.data import Batches
from winze.lab import Axis, Bench, Claim, Continual, Data, Network, Question, Reading, TaskSequence, learn, tasks
from winze.lab.claims.quantities import At, Over, RunNumber, Whole
from winze.lab.continual import FORGETTING, KEPT, LEARNED, MATRIX, over_chance
from winze.observe import scan
from winze.place import Place
from winze.readings import Array
from winze.recipes.tunnel._settings import AUGMENTED, CONTINUAL, FAST, GENTLE_TASKS, NORM, THESIS
from winze.train import CrossEntropy, Epochs, History
from winze.train.fields import Count, Positive
from winze.train.objectives.base import judged

parts: Any = {"network": Network("winze/vgg19"), "data": Data("cifar10"), "training": CONTINUAL}
plain = Continual(**parts)
splits = {"5+5": (5, 5), "7+3": (7, 3), "3+7": (3, 7)}
RATE, PUBLISHED = Axis("training.optimizer.lr", (0.03, 0.1)), {"rate": (0.1,)}
claim, question = partial(Claim, each="rate"), partial(Question, each="rate")
GENTLY = {"rate": 0.03}, {"training.schedule": GENTLE_TASKS.schedule}
FIFTEEN = {"rate": 0.1}, {"training.length": Epochs(15), "training.evaluate": Epochs(15)}
ten_epochs = {**FAST, "training.length": Epochs(10), "training.evaluate": Epochs(10)}
digits: Mapping[str, Any] = {"network.name": "winze/vgg19x0.125", "data": Data("digits"), "training.augment": ()}
smoke = {**digits, "network.name": "winze/vgg19x0.0625", "data.limit": 200, "training.length": Epochs(1)}

DIGITS = "digits instead of CIFAR-10; VGG-19 with an eighth of the channels"
SMOKE = "digits instead of CIFAR-10; VGG with 4 channels, 1 epoch per task on 200 samples"
TWO_RATES = (
    "bf16; two learning rates: 0.1, as published, and 0.03 with a warm-up of one epoch, since VGG-19 sometimes stays "
    "at chance at 0.1; failed runs are listed and not averaged"
)
SHORT = "10 epochs per task at a learning rate of 0.03 and 15 at 0.1, instead of 30"
DEPARTURES = (NORM, AUGMENTED, "classes are taken in the order of the data set; the thesis does not name them")
CROSSED = (
    "both tasks are trained as in figure 5.4.1, for 30 epochs at a constant learning rate; the thesis does not say",
    "statistics of batch norm go with their layer; the head of a task is as that task left it",
)
TUNED, PROBED = "E2+T1 (FT)", "E2 (FT)"
TOP = 10  # layers that the thesis substitutes
NONE = 0.02  # accuracy that counts as no gain and no loss


def on(task: int, measure: str, name: str = "") -> RunNumber:
    """A number of a task, such as the accuracy of a combination of extractor and tunnel."""
    return Whole(measure, f"task {task}").named(f"{name or measure} on task {task}")


learned, kept = (
    {k: on(k, one, name) for k in (1, 2)} for one, name in ((LEARNED, "accuracy"), (KEPT, "final accuracy"))
)
forgetting = on(1, FORGETTING)
STORED = (LEARNED, KEPT, FORGETTING, MATRIX)


def gain_above(curve: Array, layer: int) -> float:
    """The gain of any number of front layers above `layer` over `layer` of them."""
    return float(curve[layer + 1 :].max() - curve[layer])


def mean_loss(curve: Array) -> float:
    """The mean cost of replacing the top 1, 2, ... 10 layers."""
    return float(curve[-1] - curve[-1 - TOP : -1].mean())


def replaceable(curve: Array) -> float:
    """The share of layers, counted from the top, that can be replaced together at a loss of 2 points at most."""
    lost = curve[-1] - curve[::-1]
    return float((np.append(lost > NONE, True).argmax() - 1) / (len(curve) - 1))


top = (At("front_2", -1 - TOP, "task 2") - At("front_2", -1, "task 2")).named("change of task 2 without its top 10")
above_8 = Over("front_1", partial(gain_above, layer=8), "task 1").named("gain on task 1 above layer 8")
above_7 = Over("front_1", partial(gain_above, layer=7), "task 2").named("gain on task 2 above layer 7")
loss_1 = Over("front_1", mean_loss, "task 1").named("mean loss on task 1 by the top of M2")
loss_2 = Over("front_2", mean_loss, "task 2").named("mean loss on task 2 by the top of M1")
share = Over("front_2", replaceable, "task 2").named("share of the layers that can be replaced")


@dataclass(frozen=True)
class Swap(Continual):
    """Two tasks, and the last layer of the extractor."""

    extractor: Count = 8


@dataclass(frozen=True)
class Held(Continual):
    """Two tasks, and factors on learning rates in task 2. Without `shared`, every run trains task 1 itself."""

    slowed: tuple[tuple[str, float], ...] = ()
    shared: bool = True


@dataclass(frozen=True)
class Matched(Continual):
    """Two tasks; task 1 is trained in rounds until its training loss is below `loss`, task 2 at the rate `second`."""

    loss: float = 0.05
    rounds: Count = 20
    second: Positive = 0.03


def learn_tasks(study: Continual, bench: Bench) -> None:
    """Train on both tasks; store the accuracy on each right after it and at the end."""
    later, shared = study.training, False
    if isinstance(study, Held):
        later = replace(later, optimizer=replace(later.optimizer, rates=study.slowed))
        shared = study.shared
    sequence = tasks(study, bench, study.tasks, later, shared)
    if bench.writes:
        sequence.store(bench.readings)


def learn_matched(study: Matched, bench: Bench) -> None:
    """Train task 1 in rounds of the study's training until its training loss is at most `loss`, then task 2 once.

    The loss is that of the whole training set in eval mode. The rank of the last hidden layer, the loss and the number
    of rounds are stored; a loss that is not reached in all rounds is stored as it is.
    """
    reached: dict[str, float] = {}

    def first(sequence: TaskSequence) -> History:
        prepared, task, tests = sequence.prepared, sequence.tasks[0], sequence.tests
        ready: Any = {"size": 1000, "preprocess": prepared.preprocess, "device": bench.device}
        for count in range(study.rounds):
            history = learn(prepared, bench, f"task-1-{count + 1}", data=task.train, tests=tests)
            found = judged(prepared.net, Batches(*task.train, **ready), CrossEntropy())
            reached.update(train_loss=found["test_loss"], rounds=count + 1)
            if found["test_loss"] <= study.loss:
                break
        if bench.writes:
            test = Batches(*task.test, **ready)
            last = scan(prepared.net, test, test, places=sequence.names[-1:], measures="rank", progress=False)
            reached["last_rank"] = float(last.curve("numerical_rank")[0])
        return history

    later = replace(study.training, optimizer=replace(study.training.optimizer, lr=study.second))
    sequence = tasks(study, bench, study.tasks, later, first=first)
    if bench.writes:
        sequence.store(bench.readings)
        for measure, value in reached.items():
            bench.readings.add(measure, value)


def exchange(study: Swap, bench: Bench) -> None:
    """Train on both tasks, evaluate every pair of extractor and tunnel, and fit new heads on task 1."""
    sequence = tasks(study, bench, study.tasks, shared=False)
    if study.extractor >= len(sequence.names):
        raise ValueError(f"the extractor ends at layer {study.extractor} of {len(sequence.names)}: no tunnel is left")
    if bench.writes:
        for front, back in ((1, 1), (1, 2), (2, 2), (2, 1)):
            sequence.store_crossed(bench.readings, f"E{front}+T{back}", (front, back, study.extractor))
        for measure, accuracy in new_heads(study, sequence).items():
            samples = len(sequence.tasks[0].test_labels)
            bench.readings.add(measure, accuracy, data="task 1", split="test", n=samples)
        note = f"the extractor ends at layer {study.extractor} ({sequence.names[study.extractor - 1]})"
        bench.readings.declare(notes=[note])


def new_heads(study: Swap, sequence: TaskSequence) -> dict[str, float]:
    """The accuracy of linear heads that are fitted on task 1 on top of E2 and of E2 + T1."""
    net, task = sequence.prepared.net, sequence.tasks[0]
    net.load_state_dict(sequence.crossed(2, 1, study.extractor))
    places = [sequence.names[study.extractor - 1], sequence.names[-1]]
    train, test = ((sequence.prepared.fed(images), labels) for images, labels in (task.train, task.test))
    how: Any = {"measures": ("probe",), "probe": study.reading.probe, "pool": "flatten", "progress": False}
    found = scan(net, train, test, places=places, **how)
    return dict(zip((PROBED, TUNED), found.curve("probe").tolist(), strict=True))


def substitute(study: Continual, bench: Bench) -> None:
    """Train on both tasks, then evaluate both networks with every number of layers from the other."""
    sequence = tasks(study, bench, study.tasks, shared=False)
    if bench.writes:
        places = ["none", *sequence.names]
        for x, front in ((x, front) for x in range(len(places)) for front in (1, 2)):
            where = Place(x, len(places), places[x])
            sequence.store_crossed(bench.readings, f"front_{front}", (front, 3 - front, x), place=where)
        bench.readings.declare(layers={"from the first": list(range(len(places)))})


def about(
    work: Callable[[Any, Bench], None],
    *departures: str,
    study: Continual = plain,
    measures: tuple[str, ...] = STORED,
    accuracy: RunNumber = learned[1],
) -> dict[str, Any]:
    """What recipes with two tasks say of themselves; runs whose `accuracy` is below twice chance failed to learn."""
    told = {"departures": (*DEPARTURES, *departures), "measures": measures, "learned": (over_chance(accuracy), 2.0)}
    return THESIS | {"study": study, "work": work} | told


swapping: Any = {"study": Swap(**parts, reading=Reading(probe="adam")), "measures": ("E*",)}
swapped = partial(about, exchange, *CROSSED, **swapping, accuracy=on(1, "E1+T1"))
