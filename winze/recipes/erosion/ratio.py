"""How many images must carry the square: only a share q does (thesis, figure 4.3.1).

    winze run erosion/ratio --scale cpu    # an MLP on digits
    winze run erosion/ratio --scale gpu    # VGG-19 on CIFAR-10, 6 points x 3 seeds

In task 1 a share q of the training images carry the class-coded square, the others are as in task 0. All q of a seed
share the network after task 0.
"""

from __future__ import annotations

from winze.lab import Axis, Claim, Question, Recipe, higher, rises
from winze.lab.claims.claim import Contrast
from winze.lab.claims.verdict import Region
from winze.recipes.erosion import _settings as use
from winze.recipes.erosion._settings import after
from winze.recipes.erosion._work import CODED
from winze.report.experiment import over_setting

forgetting = use.fall()
bend = Contrast(
    forgetting,
    lambda _: Region(low=0.0, open=True),
    "rise from 0.5 to 1 minus that from 0 to 0.5",
    (({"ratio": 1.0}, 1.0), ({"ratio": 0.5}, -2.0), ({"ratio": 0.0}, 1.0)),
)
# the rest of the images looks as in task 0
rest = ({"first": "random"}, {"square.others": "random"})

recipe = Recipe(
    "erosion/ratio",
    **use.ABOUT,
    shows="forgetting grows with the share of images that carry a class-coded square",
    axes={
        "network": Axis("", use.NETWORKS),
        "first": Axis("first", ("random", "none")),
        "ratio": Axis("square.ratio", (0.0, 0.25, 0.5, 0.75, 0.9, 1.0), default=1.0),
    },
    scales=use.scales(
        use.UNREAD,
        smoke_axes=use.MLP | use.RANDOM_FIRST,
        gpu_axes={"network": ("vgg19",)} | use.RANDOM_FIRST,
        seeds=3,
        at=(rest,),
    ),
    claims=(
        Claim(
            "forgetting grows with the share of images that carry the square",
            "fig. 4.3.1",
            rises(forgetting, over="ratio"),
            each=("network", "first"),
            headline=True,
        ),
        Claim(
            "forgetting grows faster than linearly: more from q = 0.5 to 1 than from 0 to 0.5",
            "fig. 4.3.1",
            bend,
            each=("network", "first"),
            paper="non-linear",
        ),
        Claim(
            "forgetting is present where half of the images carry the square (1 point more than with none)",
            "fig. 4.3.1",
            higher(forgetting, {"ratio": 0.5}, than={"ratio": 0.0}, by=0.01),
            each=("network", "first"),
            paper="present at modest q",
        ),
    ),
    questions=(
        Question(
            "is forgetting 10 points higher at q = 1 than at q = 0.9?",
            higher(forgetting, {"ratio": 1.0}, than={"ratio": 0.9}, by=0.1),
            each=("network", "first"),
        ),
    ),
    figures=(
        over_setting(
            {"original": after(1), "class-coded squares": after(1, CODED)},
            x="ratio",
            panel=("network", "first"),
            up="accuracy",
        ),
    ),
)
