"""A network that knows its images unlearns them for a square (thesis, figures 4.1.1 and 4.1.2).

    winze run erosion/curves --scale cpu    # an MLP on digits
    winze run erosion/curves --scale gpu    # VGG-19 and ResNet-18 on CIFAR-10, 8 points x 3 seeds
    winze run erosion/curves --scale imagenet --set weights=resnet50.safetensors    # ten classes, your ImageNet folder

Task 0 is plain images (or images with a square of random colour), task 1 the same images and labels, with a square
whose colour tells the class. `--set gradcam=6` also stores GradCAM before and after (extra `gradcam`).
"""

from __future__ import annotations

import numpy as np

from winze.data import PadCrop
from winze.lab import Axis, Claim, Data, Question, Recipe, Scale, at_least, at_most, several
from winze.recipes.erosion import _settings as use
from winze.recipes.erosion._gradcam import draw_saliency
from winze.recipes.erosion._settings import after
from winze.recipes.erosion._work import CLEAN, CODED, ORIGINAL
from winze.report.experiment import Drawing, over_setting
from winze.train import SGD, Constant, Epochs, Training

# ten classes drawn once with seed 0, since the thesis does not name its ten
TEN = f"imagenet[{','.join(map(str, np.random.default_rng(0).permutation(1000)[:10]))}]"
tuned = Training(Epochs(20), 128, SGD(0.01, momentum=0.9, weight_decay=1e-4), Constant(), augment=(PadCrop(16),))
imagenet = {"data": Data(TEN, size=224), "training": tuned, "network.outputs": 1000, "square.size": 24, **use.UNREAD}
each = ("network", "first", "size")

recipe = Recipe(
    "erosion/curves",
    **use.ABOUT,
    shows="a network fine-tuned on images with a class-coded square loses its accuracy on images without one",
    axes={
        "network": Axis("", {**use.NETWORKS, "resnet50": {"network.name": "torchvision/resnet50"}}),
        "first": Axis("first", ("random", "none")),
        "size": Axis("square.size", (3, 1, 5, 2, 24), default=3),
    },
    scales={
        "smoke": Scale({**use.smoke, **use.UNREAD}, {**use.MLP, "size": (2,)}, departures=(use.SMOKE,)),
        "cpu": Scale({**use.digits, **use.UNREAD}, {**use.MLP, "size": (2, 1)}, seeds=3, departures=(use.ON_DIGITS,)),
        "gpu": Scale(
            {**use.gpu, **use.UNREAD},
            {**use.LARGE, "size": (3, 1, 5)},
            seeds=3,
            only=lambda point: point["size"] == 3 or point["first"] == "random",
            at=use.AT_GPU,
            departures=(use.SHORTER,),
        ),
        "paper": Scale(use.UNREAD, {**use.LARGE, "size": (3, 1, 5)}, seeds=3),
        "imagenet": Scale(imagenet, {"network": ("resnet50",), "first": ("none",), "size": (24,)}, seeds=3),
    },
    claims=(
        Claim(
            "task 1 lowers the accuracy on the original test set to about chance (20 % or less)",
            "figs. 4.1.1 and 4.1.2",
            several("test set", {name: at_most(after(1, name), 0.2) for name in (ORIGINAL, CLEAN)}),
            each=each,
            paper="about 10 %",
            headline=True,
        ),
        Claim(
            "task 1 raises the accuracy on images with class-coded squares to about 100 % (99 % or more)",
            "figs. 4.1.1 and 4.1.2",
            at_least(after(1, CODED), 0.99),
            each=each,
            paper="about 100 %",
        ),
    ),
    questions=(
        Question(
            "does the accuracy on the original test set fall by 30 points or more?",
            at_least(use.fall(), 0.3),
            each=each,
        ),
        Question(
            "is the fall abrupt: 10 points or less are left of it after the first tenth of task 1?",
            at_most(use.early, 0.1),
            each=each,
        ),
    ),
    figures=(
        Drawing("GradCAM before and after task 1", draw_saliency),
        use.curves(panel=("network", "first", "size")),
        over_setting(use.fall(), x="size", line="first", panel="network", up="fall of the original accuracy"),
    ),
)
