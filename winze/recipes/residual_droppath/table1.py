"""Top-1 and top-5 accuracy of ResNet50 and ResNet50d: Standard, Droppath, ResidualDroppath (table 1).

    winze run residual_droppath/table1 --scale cpu       # a small ResNet on digits, 15 minutes on one core
    winze run residual_droppath/table1 --scale gpu --at network=resnet50d --at data=mnist --jobs 4    # 10 epochs
    winze run residual_droppath/table1 --scale paper --at repeat=2 --at algorithm=standard,weights_batch --jobs 4

The paper leaves open what stage 2 freezes (branch outputs or branch weights) and whether a mask is per sample or per
batch: its method is four values of `algorithm`. `profile`, `repeat` and `junctions` vary what else is open. Four
networks train on CIFAR-10 for 300 epochs in 24 minutes of an H200. Scans of the networks are our addition.
"""

from functools import partial
from typing import Any

from winze.lab import Axis, Claim, Data, Network, Question, Reading, Recipe, Scale, Study, higher, learn_and_read
from winze.lab.claims.quantities import OOD, DuringTraining, last
from winze.readings import Point
from winze.recipes.residual_droppath._settings import ABOUT, DIGITS, PAPER, RULES, SMOKE, STAND_IN, TIMM, lasting
from winze.report.experiment import over_depth, over_setting, over_training
from winze.train import Epochs

TABLE = {  # top-1 and top-5 in percent: Standard, Droppath, ResidualDroppath
    ("resnet50d", "cifar10"): ((89.55, 89.84, 90.84), (98.70, 98.86, 98.94)),
    ("resnet50d", "mnist"): ((99.25, 99.27, 99.32), (100.0, 99.99, 100.0)),
    ("resnet50d", "imagenet"): ((76.16, 76.49, 76.57), (92.40, 92.77, 92.78)),
    ("resnet50", "cifar10"): ((88.07, 88.33, 89.22), (98.42, 98.61, 98.87)),
    ("resnet50", "mnist"): ((99.26, 99.29, 99.32), (100.0, 99.99, 100.0)),
    ("resnet50", "imagenet"): ((75.52, 76.11, 75.79), (91.89, 92.49, 92.14)),
}
work = partial(learn_and_read, layers=False)  # blocks are counted, and all are hidden
READINGS, CELLS = tuple(RULES)[2:], ("network", "data", "algorithm")  # readings of the paper's method
PLAIN: dict[str, Any] = {"profile": "linear", "repeat": 1, "junctions": "all"}
TOP1 = {(name, *cell): row[0][min(i, 2)] / 100 for cell, row in TABLE.items() for i, name in enumerate(RULES)}


def runs(point: Point) -> bool:
    """The table; and for ResNet50d on CIFAR-10 one variation at a time, of algorithms that it changes."""
    varied = [axis for axis, label in PLAIN.items() if point[axis] != label]
    changed = varied == ["repeat"] or (len(varied) == 1 and point["algorithm"] != "standard")
    return not varied or (changed and point.lies_at({"network": "resnet50d", "data": "cifar10"}))


def gain(ours: int, over: int, top5: bool = False) -> dict[Any, str]:
    """By how many points a row of the table is above another; MNIST has no top-5 to speak of, digits only top-1."""
    cells = [cell for cell in TABLE if not top5 or cell[1] != "mnist"]
    told = {cell: TABLE[cell][top5][ours] - TABLE[cell][top5][over] for cell in cells}
    names = READINGS if ours == 2 else ("droppath",)
    found = {(*cell, name): f"{points:+.2f} points" for cell, points in told.items() if points > 0 for name in names}
    return found if top5 else found | {("resnet20", "digits", name): "higher" for name in names}


def above(text: str, quantity: str, baseline: str, told: dict[Any, str], headline: bool = False) -> Claim:
    """A claim of the table."""
    check = higher(quantity, than={"algorithm": baseline})
    return Claim(text, "table 1", check, each=CELLS, only=told, paper=told, headline=headline)


standard, ours = {"algorithm": "standard"}, "ResidualDroppath"
asked: dict[str, Any] = {"each": CELLS, "only": gain(2, 0), "scales": ("gpu", "paper")}
varied: dict[str, Any] = {"each": "algorithm", "only": READINGS, "scales": ("gpu", "paper")}
drawn: dict[str, Any] = {"colour": "algorithm", "panel": ("network", "data"), "at": PLAIN}
small = {name: (label,) for name, label in {**PLAIN, "network": "resnet20", "data": "digits"}.items()}
once = tuple(({"repeat": 2, "algorithm": name}, {"training.repeat": 1}) for name in ("standard", "droppath"))
grid: dict[str, Any] = {"network": ("resnet50d", "resnet50"), "data": ("cifar10", "mnist")}

recipe = Recipe(
    "residual_droppath/table1", **ABOUT, paper=f"{PAPER}, table 1",
    shows="teaching dropped blocks what kept ones know makes residual networks more accurate",
    study=Study(Network("resnet50d"), Data("cifar10", size=32), TIMM,
                Reading("blocks", ("probe", "rank", "cka", "variance"))),
    axes={
        "network": Axis("network.name", {**{name: name for name in grid["network"]}, "resnet20": "winze/resnet20x0.5"}),
        "data": Axis("", {
            "cifar10": {"reading.ood": ("tinyimagenet",)},
            "mnist": {"data.name": "mnist", "reading.ood": ("fashion_mnist",), "network.options.in_chans": 1},
            "imagenet": {"data": Data("imagenet", size=224, limit=20_000, stream=8), "training.batch": 1024,
                         "training.optimizer.lr": 0.4},
            "digits": {"data.name": "digits", "data.size": None},
        }),
        "algorithm": Axis("network.rule", RULES),
        "profile": Axis("", {"linear": {}, "constant": {"network.rule.profile": "constant"}}),
        "repeat": Axis("", {1: {}, 2: {"training.repeat": 2}}),
        "junctions": Axis("network.where", {"all": None, "identity": "*.[1-9]"}),
    },
    scales={
        "smoke": Scale(SMOKE, small, at=(({}, {"network.name": "winze/resnet20x0.25"}),), departures=(STAND_IN,)),
        "cpu": Scale(DIGITS, small, 3, departures=(STAND_IN, "12 epochs in batches of 64, without augmentation")),
        "gpu": Scale(
            lasting(60, 5, 5, 15), grid, 3, runs,
            (({"data": "mnist"}, lasting(10, 1, 2, 5)), ({"repeat": 2}, {"training.length": Epochs(120)}), *once),
            ("CIFAR-10 for 60 epochs instead of 300, MNIST for 10 with a warm-up of 1; 3 seeds, not 5",),
        ),
        "paper": Scale({}, grid | {"data": ("cifar10", "mnist", "imagenet")}, 5, runs,
                       (({"repeat": 2}, {"training.length": Epochs(600)}), *once)),
    },
    work=work,
    quantities={"accuracy": DuringTraining("accuracy"), "top5": DuringTraining("top5")},
    claims=(
        above(f"{ours} reaches a higher top-1 accuracy than Standard", "accuracy", "standard", gain(2, 0), True),
        above(f"{ours} reaches a higher top-1 accuracy than Droppath", "accuracy", "droppath", gain(2, 1), True),
        above(f"{ours} reaches a higher top-5 accuracy than Standard", "top5", "standard", gain(2, 0, True)),
        above(f"{ours} reaches a higher top-5 accuracy than Droppath", "top5", "droppath", gain(2, 1, True)),
        above("Droppath reaches a higher top-1 accuracy than Standard", "accuracy", "standard", gain(1, 0), True),
    ),
    questions=(
        Question(f"Does {ours} raise the effective rank of the last block?",
                 higher(last("effective_rank"), than=standard), **asked),
        Question(f"Does {ours} raise OOD accuracy at the end?", higher(last("probe", OOD), than=standard), **asked),
        Question(f"Is {ours} more accurate than Standard with a drop rate of 0.1 at every block?",
                 higher("accuracy", {"profile": "constant"}, than=standard), **varied),
        Question(f"Is {ours} more accurate than Standard with both stages on every batch, both in twice the steps?",
                 higher("accuracy", {"repeat": 2}, than=standard | {"repeat": 2}), **varied),
        Question(f"Is {ours} more accurate than Standard with its rule at identity shortcuts only?",
                 higher("accuracy", {"junctions": "identity"}, than=standard), **varied),
    ),
    figures=(
        over_training("accuracy", **drawn, shared=False),
        over_setting(DuringTraining("accuracy"), "algorithm", None, CELLS[:2], at=PLAIN, shared=False, paper=TOP1),
        *(over_depth(measure, **drawn, across="block") for measure in ("effective_rank", "numerical_rank")),
        over_depth("probe", **drawn, across="block", ood=True),
    ),
    departures=(
        "block 0, whose drop rate is 0 in the linear profile, is not frozen in stage 2; Algorithm 1 would freeze it",
        "training and the last evaluation on the test set are in bf16",
        "images are normalised by their own statistics and scaled bilinearly (timm: ImageNet's, the interpolation is "
        "drawn); test images of 32 x 32 are not cropped; MNIST is scaled to 32 x 32 with one channel",
        "ImageNet is evaluated on all test images and probed on 20 per class",
        "with `repeat` 2 both stages share a batch: as many images, twice the steps; baselines train twice the epochs",
        "OOD data are ten classes of Tiny-ImageNet for CIFAR-10 and Fashion-MNIST for MNIST",
    ),
    measures=("accuracy", "top5", "loss", "probe", "*_rank", "*_variance", "cka", "epoch_steps"),
)  # fmt: skip
