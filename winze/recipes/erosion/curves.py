"""A network that knows its images unlearns them for a square (thesis, figures 4.1.1 and 4.1.2).

    winze run erosion/curves --scale cpu    # an MLP on digits
    winze run erosion/curves --scale gpu    # VGG-19 and ResNet-18 on CIFAR-10, 8 points x 3 seeds
    winze run erosion/curves --scale imagenet --set weights=resnet50.safetensors    # ten classes, your ImageNet folder
    winze run erosion/curves --scale imagenet --set network.name=torchvision/vgg19 --set weights=vgg19.safetensors

Task 0 is plain images (or images with a square of random colour), task 1 the same images and labels, with a square
whose colour tells the class. `--set gradcam=6` also stores GradCAM before and after (extra `gradcam`).
"""

from functools import partial

import numpy as np

from winze.data import PadCrop
from winze.lab import Axis, Data, Recipe, Scale, at_least, at_most, several
from winze.recipes.erosion import _settings as use
from winze.recipes.erosion._gradcam import sheets
from winze.recipes.erosion._settings import after
from winze.recipes.erosion._work import CLEAN, CODED, ORIGINAL
from winze.report.experiment import over_setting
from winze.train import SGD, Constant, Epochs, Training

# ten classes drawn once with seed 0, since the thesis does not name its ten
TEN = f"imagenet[{','.join(map(str, np.random.default_rng(0).permutation(1000)[:10]))}]"
tuned = Training(Epochs(20), 128, SGD(0.01, momentum=0.9, weight_decay=1e-4), Constant(), augment=(PadCrop(16),))
imagenet = {"data": Data(TEN, size=224), "training": tuned, "network.outputs": 1000, "square.size": 24, **use.UNREAD}
each = (*use.EACH, "size")
claim, question = partial(use.claim, source="figs. 4.1.1 and 4.1.2", each=each), partial(use.question, each=each)
SIZES = {"size": (3, 1, 5)}

recipe = Recipe(
    "erosion/curves",
    **use.ABOUT,
    shows="a network fine-tuned on images with a class-coded square loses its accuracy on images without one",
    axes={
        "network": Axis("", {**use.NETWORKS, "resnet50": {"network.name": "torchvision/resnet50"}}),
        "first": use.AXES["first"],
        "size": Axis("square.size", (3, 1, 5, 2, 24), default=3),
    },
    scales=use.scales(
        use.UNREAD,
        {"smoke": {"size": (2,)}, "cpu": {"size": (2, 1)}, "gpu": SIZES, "paper": SIZES},
        seeds=3,
        only=lambda point: point["size"] == 3 or point["first"] == "random",
    )
    | {"imagenet": Scale(imagenet, {"network": ("resnet50",), "first": ("none",), "size": (24,)}, seeds=3)},
    claims=(
        claim(
            "task 1 lowers the accuracy on the original test set to about chance (20 % or less)",
            check=several("test set", {name: at_most(after(1, name), 0.2) for name in (ORIGINAL, CLEAN)}),
            paper="about 10 %",
            headline=True,
        ),
        claim(
            "task 1 raises the accuracy on images with class-coded squares to about 100 % (99 % or more)",
            check=at_least(after(1, CODED), 0.99),
            paper="about 100 %",
        ),
    ),
    questions=(
        question("does the accuracy on the original test set fall by 30 points or more?", at_least(use.fall, 0.3)),
        question(
            "is the fall abrupt: 10 points or less are left of it after the first tenth of task 1?",
            at_most(use.early, 0.1),
        ),
    ),
    figures=(
        sheets,
        use.curves(each),
        over_setting(use.fall, x="size", line="first", panel="network", up="fall of the original accuracy"),
    ),
)
