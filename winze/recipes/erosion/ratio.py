"""How many images must carry the square: only a share q does (thesis, figure 4.3.1).

    winze run erosion/ratio --scale cpu    # an MLP on digits
    winze run erosion/ratio --scale gpu    # VGG-19 on CIFAR-10, 6 points x 3 seeds

In task 1 a share q of the training images carry the class-coded square, the others are as in task 0. All q of a seed
share the network after task 0.
"""

from functools import partial

from winze.lab import Axis, Recipe, higher, rises
from winze.lab.claims.claim import Contrast
from winze.lab.claims.verdict import Region
from winze.recipes.erosion import _settings as use
from winze.report.experiment import over_setting

claim = partial(use.claim, source="fig. 4.3.1")
forgetting = use.fall
bend = Contrast(
    forgetting,
    Region(low=0.0, open=True),
    "rise from 0.5 to 1 minus that from 0 to 0.5",
    (({"ratio": 1.0}, 1.0), ({"ratio": 0.5}, -2.0), ({"ratio": 0.0}, 1.0)),
)
# the rest of the images looks as in task 0
rest = ({"first": "random"}, {"square.others": "random"})

recipe = Recipe(
    "erosion/ratio",
    **use.ABOUT,
    shows="forgetting grows with the share of images that carry a class-coded square",
    axes={**use.AXES, "ratio": Axis("square.ratio", (0.0, 0.25, 0.5, 0.75, 0.9, 1.0), default=1.0)},
    scales=use.scales(
        use.UNREAD, {"smoke": use.FIRST, "gpu": {"network": ("vgg19",), **use.FIRST}}, seeds=3, at=(rest,)
    ),
    claims=(
        claim(
            "forgetting grows with the share of images that carry the square",
            check=rises(forgetting, over="ratio"),
            headline=True,
        ),
        claim(
            "forgetting grows faster than linearly: more from q = 0.5 to 1 than from 0 to 0.5",
            check=bend,
            paper="non-linear",
        ),
        claim(
            "forgetting is present where half of the images carry the square (1 point more than with none)",
            check=higher(forgetting, {"ratio": 0.5}, than={"ratio": 0.0}, by=0.01),
            paper="present at modest q",
        ),
    ),
    questions=(
        use.question(
            "is forgetting 10 points higher at q = 1 than at q = 0.9?",
            higher(forgetting, {"ratio": 1.0}, than={"ratio": 0.9}, by=0.1),
        ),
    ),
    figures=(over_setting(use.left, x="ratio", panel=use.EACH, up="accuracy"),),
)
