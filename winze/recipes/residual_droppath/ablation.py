"""What the documents leave open: the drop rate, how long a stage lasts, whose batch, images a class, a ViT.

    winze run residual_droppath/ablation --scale cpu             # digits, minutes on 1 core
    winze run residual_droppath/ablation --scale gpu --jobs 6    # CIFAR-10: ResNet26d and a small ViT, 12 epochs

All arms but the named change follow Algorithm 1 to the letter: kept outputs are frozen, a mask a sample, rate .1 at the
last block, a new batch for each stage, which lasts one step. Arms with fewer images take as many steps.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from winze.lab import Claim, Recipe, Scale, falls, higher
from winze.lab.bench import Bench
from winze.lab.claims import Contrast
from winze.lab.quantities import LastLook
from winze.lab.study import Study, tell_curve, train
from winze.lab.verdicts import Region
from winze.recipes.residual_droppath.table1 import SMALL, SMOKE, STAND_IN, TIMM
from winze.report.doses import Panel, doses
from winze.shape import DropPath, ResidualDropPath
from winze.train import Training

RATES = {"rate_05": 0.05, "ours": 0.1, "rate_20": 0.2, "rate_30": 0.3}
STAGES = {"ours": 1, "stages_2": 2, "stages_5": 5, "stages_20": 20}
ours = partial(ResidualDropPath, compute="dense")
# LayerNorm leaves samples apart: rows are run by themselves, always as many, so that steps can be captured
rows: dict[str, Any] = {"draw": "count", "compute": "rows"}
ATTENTION = {"optimizer": "adamw", "lr": 1e-3, "nesterov": False, "momentum": 0.0, "weight_decay": 0.05}
VIT: dict[str, Any] = {"network": "vit_tiny_patch16_224"} | {f"training.{name}": to for name, to in ATTENTION.items()}
SHORT = replace(TIMM, epochs=12, warmup=2, evaluate_every=4, checkpoint_every=12)
OPEN = "left open"
PAIR = ("standard", "ours")


def work(config: Study, bench: Bench) -> None:
    """Train one network and keep its accuracy over training."""
    trained = train(config, bench)
    tell_curve(config, bench, trained)
    samples = {"train": len(trained.dataset.train_labels), "test": len(trained.dataset.test_labels)}
    told = {"network": config.network, "data": config.data, "samples": {config.data: samples}}
    bench.readings.conventions.update(told, notes=list(trained.dataset.notes))


def fewer(per_class: int, training: Training, times: int) -> dict[str, Any]:
    """The changes of an arm with fewer images, which goes over them so many times as often."""
    names = ("epochs", "warmup", "evaluate_every", "checkpoint_every")
    return {"per_class": per_class} | {f"training.{name}": times * getattr(training, name) for name in names}


def vit(side: int, patch: int, depth: int, width: int, channels: int) -> dict[str, Any]:
    """The change that brings timm's ViT to small pictures."""
    sizes = {"img_size": side, "patch_size": patch, "depth": depth, "embed_dim": width, "num_heads": 3}
    return {"options": sizes | {"in_chans": channels}}


def changes(training: Training, images: dict[str, tuple[int, int]], **sizes: int) -> dict[str, dict[str, Any]]:
    """What a scale changes in the arms with fewer images (how many a class, how much more often) and in the ViT's."""
    few = {f"{share}_{name}": fewer(few, training, n) for share, (few, n) in images.items() for name in PAIR}
    return few | {f"vit_{name}": vit(**sizes) for name in ("standard", "droppath", "ours")}


SMALL_VIT = {"side": 8, "patch": 2, "depth": 4, "width": 48, "channels": 1}
FEWER = {"tenth": (500, 10), "hundredth": (50, 130)}  # of 5000; 39 and 3 steps an epoch instead of 390
VIT_32 = {"side": 32, "patch": 4, "depth": 6, "width": 192, "channels": 3}
DIGITS = Study("winze/resnet20x0.5", "digits", SMALL)
PICTURES = Study("resnet26d", "cifar10", SHORT, size=32)
CPU_ARMS = (
    *("standard", *RATES, "stages_5", "same_batch"),
    *("tenth_standard", "tenth_ours"),
    *("vit_standard", "vit_droppath", "vit_ours"),
)
SMOKE_ARMS = ("standard", "ours", "stages_5", "same_batch", "vit_standard", "vit_ours")
SMOKE_CHANGES = changes(SMOKE, {}, **SMALL_VIT | {"depth": 2})

PANELS = (
    Panel(
        "Drop rate (0: plain)", "rate at the last block", {"": {0.0: "standard"} | {v: arm for arm, v in RATES.items()}}
    ),
    Panel("Steps that a stage lasts", "steps", {"": {steps: arm for arm, steps in STAGES.items()}}, log=True),
    Panel(
        "Images to learn from, as many steps",
        "share of the images of each class, %",
        {name: {1: f"hundredth_{name}", 10: f"tenth_{name}", 100: name} for name in PAIR},
        log=True,
    ),
    Panel(
        "The batch of stage 2; a ViT",
        "",
        {
            "ResNet": {"plain": "standard", "new batch": "ours", "same batch": "same_batch"},
            "ViT": {"plain ": "vit_standard", "drop path": "vit_droppath", "ours": "vit_ours"},
        },
    ),
)

recipe = Recipe(
    name="residual_droppath/ablation",
    system="S1",
    shows="how ResidualDroppath depends on the drop rate, its stages, the batch, the number of images and the network",
    paper="ResidualDroppath: Enhancing Feature Reuse over Residual Connections (2024), what it leaves open",
    url="https://arxiv.org/abs/2411.09475",
    arms={
        "standard": {},
        **{arm: {"rule": ours(rate=rate)} for arm, rate in RATES.items()},
        **{arm: {"rule": ours(), "every": steps} for arm, steps in STAGES.items() if steps > 1},
        "same_batch": {"rule": ours(), "training.repeat": 2},
        "tenth_standard": {},
        "tenth_ours": {"rule": ours()},
        "hundredth_standard": {},
        "hundredth_ours": {"rule": ours()},
        "vit_standard": VIT,
        "vit_droppath": VIT | {"rule": DropPath(**rows)},
        "vit_ours": VIT | {"rule": ResidualDropPath(**rows)},
    },
    scales={
        "smoke": Scale(
            replace(DIGITS, network="winze/resnet20x0.25", training=SMOKE, limit=100),
            seeds=(0,),
            arms=SMOKE_ARMS,
            changes={arm: change for arm, change in SMOKE_CHANGES.items() if arm in SMOKE_ARMS},
            departures=(STAND_IN, "1 epoch on 100 samples in batches of 32"),
        ),
        "cpu": Scale(
            DIGITS,
            seeds=(0, 1, 2),
            arms=CPU_ARMS,
            changes=changes(SMALL, {"tenth": (14, 11)}, **SMALL_VIT),
            departures=(STAND_IN, "12 epochs in batches of 64, without augmentation"),
        ),
        "gpu": Scale(
            PICTURES,
            seeds=(0, 1, 2),
            changes=changes(SHORT, FEWER, **VIT_32),
            departures=("ResNet26d, which has half the blocks of ResNet50d, for 12 epochs with a warm-up of 2",),
        ),
        "paper": Scale(
            replace(PICTURES, network="resnet50d", training=TIMM),
            seeds=(0, 1, 2, 3, 4),
            changes=changes(TIMM, FEWER, **VIT_32 | {"depth": 12}),
        ),
    },
    work=work,
    quantities={"accuracy": LastLook("accuracy"), "top5": LastLook("top5")},
    claims=(
        Claim(
            "the gain over the plain network is larger with ten times the images of each class",
            Contrast(
                "accuracy",
                ("ours", "standard", "tenth_ours", "tenth_standard"),
                (1.0, -1.0, -1.0, 1.0),
                Region(low=0.0, open=True),
                "difference of the gains",
            ),
            paper="its guess for ImageNet",
        ),
        Claim("a higher drop rate costs accuracy", falls("accuracy", tuple(RATES), tuple(RATES.values())), paper=OPEN),
        Claim(
            "a stage of one step serves better than one of five",
            higher("accuracy", "ours", than="stages_5"),
            paper="Algorithm 1 takes one",
        ),
        Claim(
            "a new batch for stage 2 serves better than the batch of stage 1",
            higher("accuracy", "ours", than="same_batch"),
            paper="Algorithm 1 draws anew",
        ),
        Claim(
            "ResidualDroppath makes a small ViT more accurate",
            higher("accuracy", "vit_ours", than="vit_standard"),
            paper=OPEN,
        ),
        Claim(
            "ResidualDroppath serves a small ViT better than drop path",
            higher("accuracy", "vit_ours", than="vit_droppath"),
            paper=OPEN,
        ),
    ),
    departures=(
        "the paper has none of these arms: what is claimed is its algorithm's choice, its guess, or our question",
        "with the same batch in both stages an epoch sees half the images, so that all arms take as many steps",
        "arms with fewer images take as many steps as the others, up to the batch that does not fill",
        "the ViT has patches of 4 x 4 (digits: 2 x 2) and learns by AdamW with rate .001 and decay .05; a fixed number "
        "of samples is dropped a batch",
    ),
    measures=("accuracy", "top5"),
    figures={"Accuracy by setting": partial(doses, panels=PANELS)},
)
