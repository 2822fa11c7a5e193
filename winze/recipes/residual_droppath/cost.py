"""What a training step with ResidualDroppath costs: "about 2x training time" and "slightly more memory"?

    winze run residual_droppath/cost --scale cpu      # ResNet-18, 4 minutes on one core
    winze run residual_droppath/cost --scale gpu      # ResNet50d at 32 x 32 and ViT-B/16 at 224 x 224

Both sentences are from a summary of the paper; the paper has no word on cost. A step is one optimizer step on one
batch. Algorithm 1 alternates the stages from batch to batch, so two steps, one per stage, are timed against two plain
steps on as many images. If both stages instead trained on every batch, an image would cost both of them: twice that.
Runs differ by seed in weights, images and masks. The plain step is measured against itself as a control.
"""

from typing import Any

from winze.lab import Axis, Claim, Network, Question, Recipe, Scale, at_most, higher, level, several
from winze.lab.claims.quantities import Whole
from winze.readings import Point, Readings, ReadingsError
from winze.recipes.residual_droppath._cost import StepCost, work
from winze.recipes.residual_droppath._settings import ABOUT, PAPER, RULES, TIMM
from winze.report.experiment import over_setting
from winze.train import AdamW

READINGS, NETWORKS = tuple(RULES)[2:], ("resnet18", "resnet50d", "resnet50", "vit")
STAND_IN = "ResNet-18 in float32 on a CPU stands in for the paper's networks"
BATCH = ("output_batch", "weights_batch")
SOURCE = "a summary of the paper"
VIT = {"network.name": "vit_base_patch16_224", "side": 224, "classes": 1000, "training.batch": 256,
       "training.optimizer": AdamW(1e-4), "training.channels_last": False}  # fmt: skip
IMAGENET = {"side": 224, "classes": 1000, "training.batch": 256}


def runs(point: Point) -> bool:
    """With BatchNorm, winze saves work where whole branches are frozen; in a ViT also for single samples."""
    return point["compute"] == "dense" or point["algorithm"] in (BATCH if point["network"] != "vit" else READINGS)


def both_stages(readings: Readings) -> float:
    """The time of both stages on one batch, in plain steps."""
    return 2 * Whole("time_ratio")(readings)


def memory(readings: Readings) -> float:
    """The peak of memory against the plain step's; where no GPU has measured it, that of what is saved for backward."""
    try:
        return Whole("peak_ratio")(readings)
    except ReadingsError:
        return Whole("saved_ratio")(readings)


step = Whole("time_ratio").named("time per step, in plain steps")
ours: dict[str, Any] = {
    "each": ("network", "algorithm"),
    "only": [(net, name) for net in NETWORKS for name in READINGS],
}
twice = {"one stage per batch (Algorithm 1)": level(step, 2.0, within=0.25),
         "both stages per batch": level(both_stages, 2.0, within=0.25)}  # fmt: skip
plain = {"training.precision": "32-true", "training.channels_last": False}
one = {"network": ("resnet18",)}
recipe = Recipe(
    "residual_droppath/cost", **ABOUT, paper=f"{PAPER}, its cost",
    shows="how much time and memory a training step with ResidualDroppath takes, against a plain step",
    study=StepCost(Network("resnet50d"), TIMM),
    axes={
        "network": Axis("", {**{name: {"network.name": name} for name in NETWORKS[:3]}, "vit": VIT}),
        "algorithm": Axis("network.rule", RULES),
        "compute": Axis("", {"dense": {}, "auto": {"network.rule.compute": "auto"}}),
    },
    scales={
        "smoke": Scale({**plain, "training.batch": 4, "pairs": 2}, one | {"algorithm": tuple(RULES)[:3]}, 1, runs,
                       (({}, {"network.name": "winze/resnet20x0.25"}),), (STAND_IN,)),
        "cpu": Scale({**plain, "training.batch": 16, "pairs": 8}, one, 3, runs, departures=(STAND_IN,)),
        "gpu": Scale({}, {"network": ("resnet50d", "vit")}, 3, runs),
        "paper": Scale(IMAGENET, {"network": ("resnet50d", "resnet50", "vit")}, 5, runs),
    },
    work=work,
    claims=(
        Claim("training with ResidualDroppath takes about twice the time of Standard (1.75 to 2.25 times)", SOURCE,
              several("step", twice), **ours, paper="about 2x"),
        Claim("training with ResidualDroppath needs slightly more memory than Standard (1 % to 25 % more)", SOURCE,
              level(memory, 1.13, within=0.12), **ours, paper="slightly more"),
    ),
    questions=(
        Question("Does a step with ResidualDroppath take longer than one with Droppath?",
                 higher(step, than={"algorithm": "droppath"}), **ours),
        Question("Is a step with ResidualDroppath faster than a plain one where frozen branches run without a graph "
                 "(compute=auto)?",
                 at_most(step, 1.0), each=("network", "algorithm"), at={"compute": "auto"}),
        Question("Is the plain step as fast as itself, within 5 %?",
                 level(step, 1.0, within=0.05), each="network", at={"algorithm": "standard"}),
    ),
    figures=(
        over_setting("time_ratio", "algorithm", "compute", "network", up="time per step (plain: 1)",
                     title="Time of a training step"),
        over_setting({"stage 1": "saved_ratio_stage1", "stage 2": "saved_ratio_stage2"}, "algorithm", None,
                     ("network", "compute"), up="memory saved (plain: 1)",
                     title="Memory saved for the backward pass"),
    ),
    departures=(
        "one batch of random images is used again and again; loading and augmenting data are not timed",
        "on a CPU, time is that of the process, so that other processes do not count, and memory is what the forward "
        "pass saves for the backward pass; a GPU also gives the peak of allocated memory",
        "ViT-B/16 is not a network of the paper",
    ),
    measures=("*_ratio", "*_ratio_stage?", "plain_seconds", "*_megabytes"),
)  # fmt: skip
