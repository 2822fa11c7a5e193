"""What the paper leaves open: the drop rate, the length of a stage, the batch of stage 2, images per class, a ViT.

    winze run residual_droppath/ablation --scale cpu             # digits, 30 minutes on one core
    winze run residual_droppath/ablation --scale gpu --jobs 6    # CIFAR-10: ResNet26d and a small ViT, 12 epochs

One thing is varied at a time, by default of Algorithm 1 to the letter: frozen branch outputs, per-sample masks, a drop
rate of 0.1 at the last block, a new batch for each stage, stages of one step. With fewer images trainings take as many
steps.
"""

from typing import Any

from winze.lab import (
    Axis,
    Claim,
    Contrast,
    Data,
    DuringTraining,
    Network,
    Question,
    Recipe,
    Scale,
    Study,
    falls,
    higher,
)
from winze.lab.claims.verdict import Region
from winze.readings import Point
from winze.recipes.residual_droppath._freeze import train
from winze.recipes.residual_droppath._settings import ABOUT, DIGITS, PAPER, RULES, SMOKE, STAND_IN, TIMM, lasting
from winze.report.experiment import over_setting
from winze.shape import DropPath, ResidualDropPath
from winze.train import AdamW

REST: dict[str, Any] = {"network": "resnet", "rate": 0.1, "stage": 1, "batch": "new", "images": 1.0}
OURS = ("output_sample", "weights_batch")
FEW = {0.1: (500, 10), 0.01: (50, 130)}  # of 5000 per class: 39 and 3 steps per epoch instead of 390
by_rows: dict[str, Any] = {"draw": "count", "compute": "rows"}  # LayerNorm leaves samples apart


def runs(point: Point) -> bool:
    """One thing is varied at a time: of a ViT the algorithm, of Standard the images, of ResidualDroppath anything."""
    varied, algorithm = [axis for axis, label in REST.items() if point[axis] != label], point["algorithm"]
    if point["network"] == "vit":
        return varied == ["network"] and algorithm != "weights_batch"
    return varied in ([], ["images"]) if algorithm == "standard" else len(varied) < 2 and algorithm in OURS


def changed(lengths: tuple[int, ...], few: dict[float, tuple[int, int]], **vit: int) -> Any:
    """What a scale changes in a ViT, in long runs, and with few images (how many per class, how much more often)."""
    images = {share: (count, lasting(*(n * one for one in lengths))) for share, (count, n) in few.items()}
    return (
        ({"network": "vit"}, {"network.options": {**vit, "num_heads": 3}}),
        ({"network": "vit", "algorithm": "output_sample"}, {"network.rule": ResidualDropPath(**by_rows)}),
        ({"batch": "same_long"}, lasting(2 * lengths[0], *lengths[1:])),
        *(({"images": share}, {"data.per_class": count} | long) for share, (count, long) in images.items()),
    )


standard, accuracy = {"algorithm": "standard"}, DuringTraining("accuracy")
rules = {"standard": None, "droppath": DropPath(**by_rows), **{name: RULES[name] for name in OURS}}
each: dict[str, Any] = {"each": "algorithm", "only": OURS}
digits = {"data": Data("digits"), "network.name": "winze/resnet20x0.5"}
small = {"img_size": 8, "patch_size": 2, "embed_dim": 48, "in_chans": 1}
large = {"img_size": 32, "patch_size": 4, "embed_dim": 192, "in_chans": 3}
gain: Any = (({}, 1.0), (standard, -1.0), ({"images": 0.1}, -1.0), (standard | {"images": 0.1}, 1.0))
letter = {"algorithm": ("standard", "droppath", "output_sample"), "stage": (1, 5), "batch": ("new", "same")}

recipe = Recipe(
    "residual_droppath/ablation", **ABOUT, paper=f"{PAPER}, what it leaves open",
    shows="how ResidualDroppath depends on the drop rate, its stages, the batch, the number of images and the network",
    study=Study(Network("resnet26d"), Data("cifar10", size=32), TIMM),
    axes={
        "network": Axis("", {"resnet": {}, "vit": {
            "network.name": "vit_tiny_patch16_224",
            "training.optimizer": AdamW(1e-3, weight_decay=0.05, decay_vectors=False)}}),
        "algorithm": Axis("network.rule", rules, default="output_sample"),
        "rate": Axis("", {0.1: {}, **{rate: {"network.rule.rate": rate} for rate in (0.05, 0.2, 0.3)}}),
        "stage": Axis("network.every", (1, 2, 5, 20)),
        "batch": Axis("", {"new": {}, "same": {"training.repeat": 2}, "same_long": {"training.repeat": 2}}),
        "images": Axis("", {1.0: {}, 0.1: {}, 0.01: {}}),
    },
    scales={
        "smoke": Scale(SMOKE | digits | {"data.limit": 100, "network.name": "winze/resnet20x0.25"},
                       letter | {"rate": (0.1,), "images": (1.0,)}, 1,
                       lambda point: runs(point) and point["algorithm"] != "droppath",
                       changed((1, 0, 2, 1), {}, depth=2, **small), (STAND_IN,)),
        "cpu": Scale(DIGITS | digits, letter | {"images": (1.0, 0.1)}, 3, runs,
                     changed((12, 2, 2, 12), {0.1: (14, 11)}, depth=4, **small),
                     (STAND_IN, "12 epochs in batches of 64, without augmentation")),
        "gpu": Scale(lasting(12, 2, 4, 12), seeds=3, only=runs, at=changed((12, 2, 4, 12), FEW, depth=6, **large),
                     departures=("ResNet26d, which has half the blocks of ResNet50d, for 12 epochs, warm-up of 2",)),
        "paper": Scale({"network.name": "resnet50d"}, seeds=5, only=runs,
                       at=changed((300, 5, 20, 20), FEW, depth=12, **large)),
    },
    work=train,
    quantities={"accuracy": accuracy, "top5": DuringTraining("top5")},
    claims=(
        Claim("the gain of ResidualDroppath over Standard grows with the number of images per class",
              "its explanation of ImageNet", Contrast("accuracy", Region(low=0.0, open=True),
                                                      "difference of the gains", gain), **each),
    ),
    questions=(
        Question("Does a higher drop rate reduce accuracy?", falls("accuracy", over="rate"), **each),
        Question("Is a stage of one step better than one of five?", higher("accuracy", than={"stage": 5}), **each),
        Question("Is a new batch for stage 2 better than the batch of stage 1, at as many steps?",
                 higher("accuracy", than={"batch": "same"}), **each,
                 departure="with the same batch in both stages, as many steps see half the images"),
        Question("Is a new batch for stage 2 better than the batch of stage 1, at as many images?",
                 higher("accuracy", than={"batch": "same_long"}), **each,
                 departure="with the same batch in both stages, as many images take twice the steps"),
        *(Question(f"Does ResidualDroppath reach a higher accuracy than {name.capitalize()} in a small ViT?",
                   higher("accuracy", than={"algorithm": name}), at={"network": "vit"})
          for name in ("standard", "droppath")),
    ),
    figures=(
        *(over_setting(accuracy, axis, "algorithm", at={k: v for k, v in REST.items() if k != axis}, log=axis != "rate",
                       across=said)
          for axis, said in {"rate": "drop rate", "stage": "steps per stage", "images": "share of images"}.items()),
        over_setting(accuracy, "batch", "algorithm", at={**REST, "batch": ("new", "same", "same_long")}),
        over_setting(accuracy, "algorithm", at={"network": "vit"}, title="Accuracy of a small ViT"),
    ),
    departures=(
        "the paper has none of these settings: the claim is its guess, the questions are about its algorithm's choices",
        "with fewer images trainings take as many steps, up to the last batch of an epoch, which is dropped",
        "the ViT has patches of 4 x 4 (digits: 2 x 2) and is trained by AdamW at 0.001 with weight decay 0.05; a fixed "
        "number of samples is dropped per batch",
    ),
    measures=("accuracy", "top5", "epoch_steps"),
)  # fmt: skip
