"""Networks, trainings, scales, numbers and figures that the erosion recipes share."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from winze.data import Flip, Noise, PadCrop
from winze.lab import Axis, Claim, Data, Network, Question, Reading, RunNumber, Scale, Whole
from winze.lab.axes import AxisValues
from winze.readings import Point, facts
from winze.recipes.erosion._work import CLEAN, CODED, ORIGINAL, RANDOM, Erosion, erode
from winze.recipes.tunnel._settings import FAST, GRID, RESNET, VGG
from winze.report import style
from winze.report.experiment import Drawing, PointRuns, over_training
from winze.train import SGD, Epochs, Milestones, Training

PAPER = "On consequences of finetuning on data with highly discriminative features; thesis, chapter 4"
Settings = dict[str, Any]

DIGITS = Training(
    Epochs(60),
    128,
    SGD(0.1, momentum=0.9, weight_decay=5e-3),
    Milestones(at=(30, 45), per="epoch"),
    augment=(Noise(0.5),),
    evaluate=Epochs(2),
    checkpoint=Epochs(60),
)
published = replace(VGG, evaluate=Epochs(1))
SHORT = replace(
    VGG,
    length=Epochs(20),
    optimizer=SGD(0.03, momentum=0.9, weight_decay=5e-4),
    schedule=Milestones(warmup=Epochs(1), at=(10, 15), per="step"),
    augment=(PadCrop(4), Flip()),
    evaluate=Epochs(1),
    checkpoint=Epochs(20),
)
reading = Reading(measures=("probe", "rank"), probe="adam", pool="flatten")
study = Erosion(Network("winze/vgg19"), Data("cifar10"), published, reading)
NETWORKS: dict[str, Settings] = {
    "vgg19": {},
    "resnet18": {
        "network.name": "winze/resnet18",
        "network.options": {"stem": "cifar"},
        "reading.places": "blocks",
        "training": replace(RESNET, evaluate=Epochs(1)),
    },
    "mlp4": {"network.name": "winze/mlp4x128", "network.options": {"inputs": 192}, "rgb": True},
}
UNREAD: Settings = {"reading.measures": ()}
digits: Settings = {"data": Data("digits"), "training": DIGITS, "square.size": 2, "reading.probe": "ridge"}
smoke: Settings = {**digits, "data": Data("digits", limit=200), "training": replace(DIGITS, length=Epochs(2))}
smoke["training"] = replace(smoke["training"], evaluate=Epochs(1), checkpoint=Epochs(2))
gpu: Settings = {**GRID, "reading.probe": "ridge", "training": SHORT}
# the networks' own trainings replace the scale's, so the short one is set again at each
AT_GPU = tuple(({"network": name}, {"training": SHORT, **FAST}) for name in ("vgg19", "resnet18"))
MLP: AxisValues = {"network": ("mlp4",)}
LARGE: AxisValues = {"network": ("vgg19", "resnet18")}
TRAINED = {"smoke": MLP, "cpu": MLP, "gpu": LARGE, "paper": LARGE}
FIRST: AxisValues = {"first": ("random",)}
RANDOM_FIRST = {"smoke": FIRST, "gpu": FIRST}
AXES = {"network": Axis("", NETWORKS), "first": Axis("first", ("random", "none"))}
EACH = tuple(AXES)
claim, question = partial(Claim, each=EACH), partial(Question, each=EACH)
ON_DIGITS = (
    "digits in three channels instead of CIFAR-10, squares of 2 x 2; MLP of 4 x 128 units, noise of 0.5 instead of "
    "crops, weight decay 0.005, 60 epochs per task"
)
SMOKE = "digits instead of CIFAR-10, an MLP, 2 epochs per task on 200 samples"
SHORTER = (
    "20 epochs per task instead of 160, in bf16, learning rate 0.03 (warm-up of one epoch, a tenth from epochs 10 and "
    "15) instead of 0.1, weight decay 0.0005 instead of 0.0001"
)
GRIDDED = "ridge probes instead of Adam, on means over a 2 x 2 grid of each feature map"


def scales(
    more: Settings | None = None,
    axes: Mapping[str, AxisValues] = RANDOM_FIRST,
    seeds: int = 5,
    at: tuple[Any, ...] = (),
    only: Callable[[Point], bool] | None = None,
) -> dict[str, Scale]:
    """The four scales of an erosion recipe: `more` settings at each, and values of `axes` besides the networks'.

    `at` comes after the settings of the networks; `only` leaves out points of the scale gpu.
    """
    own = more or {}
    probed = () if UNREAD.items() <= own.items() else (GRIDDED,)
    run = {scale: {**networks, **axes.get(scale, {})} for scale, networks in TRAINED.items()}
    return {
        "smoke": Scale({**smoke, **own}, run["smoke"], at=at, departures=(SMOKE,)),
        "cpu": Scale({**digits, **own}, run["cpu"], seeds, at=at, departures=(ON_DIGITS,)),
        "gpu": Scale({**gpu, **own}, run["gpu"], 3, only, (*AT_GPU, *at), (SHORTER, *probed)),
        "paper": Scale(own, run["paper"], seeds=3, at=at),
    }


DEPARTURES = (
    "the thesis gives neither size, position nor colours of the square: 3 x 3 pixels, upper left, ten fixed colours",
    "augmentation comes before the square, which is never cropped or mirrored",
    "optimizer and learning rate start anew with each task",
    "chapter 1 of the thesis has random squares in task 0, chapter 4 none: both are read",
)


def after(task: int, test: str = ORIGINAL) -> RunNumber:
    """The accuracy on a test set after a task; the original one has the squares of task 0."""
    said = {ORIGINAL: "original", CLEAN: "clean", RANDOM: "random-square", CODED: "class-coded"}[test]
    return Whole(f"{test} after task {task}").named(f"{said} accuracy after task {task}")


fall = (after(0) - after(1)).named("fall of the original accuracy")
early = (Whole("original early in task 1") - after(1)).named("fall after the first tenth of task 1")
mean_in = {k: Whole(f"mean accuracy in task {k}").named(f"mean accuracy during task {k}") for k in (0, 1, 2)}
COURSE: tuple[str, ...] = (CLEAN, RANDOM, CODED, "* after task *", "mean accuracy in task *", "task * begins")
COURSE += ("epoch_steps", "original early in task 1", "loss", "accuracy", "gradcam*")
DEPTH = ("probe*", "numerical_rank*", "accuracy*", "cka_to_before", "cka_before_after")
ABOUT: Any = {"system": "S7", "paper": PAPER, "url": "https://arxiv.org/abs/2310.19537", "departures": DEPARTURES}
ABOUT |= {"study": study, "work": erode, "measures": COURSE, "learned": (after(0), 0.2)}
OVER_DEPTH: Any = ABOUT | {"measures": (*COURSE, *DEPTH)}
"""what all erosion recipes say of themselves, and those that read layers"""
left = {"original": after(1), "class-coded squares": after(1, CODED)}


def curves(panel: str | tuple[str, ...]) -> Drawing:
    """Accuracy on the test sets over epochs; task 1 is shaded."""
    lines = {"clean": CLEAN, "random squares": RANDOM, "class-coded squares": CODED}
    drawing = over_training(lines, up="test accuracy", panel=panel)

    def draw(runs: PointRuns, theme: str = "light") -> Any:
        made = drawing.draw(runs, theme)
        seeds = next(seeds for seeds in runs.values() if seeds)
        ends = [facts.whole(seeds[0], f"task {k} begins") for k in (1, 2)]
        for axes in made.axes:
            last = axes.get_xlim()[1]
            axes.axvspan(ends[0], last if np.isnan(ends[1]) else ends[1], color=style.THEMES[theme].shade, zorder=0)
            axes.set_xlim(right=last)
        return made

    return Drawing(drawing.title, draw, drawing.axes)
