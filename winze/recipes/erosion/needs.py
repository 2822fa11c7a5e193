"""Beyond the thesis: what erosion needs, since a network with zero loss has no reason to move.

    winze run erosion/needs --scale cpu    # an MLP on digits
    winze run erosion/needs --scale gpu    # VGG-19 on CIFAR-10, 5 points x 3 seeds

Task 1 is trained without weight decay, without augmentation, at the learning rate with which task 0 ended, or without
all three. All points of a seed share the network after task 0.
"""

from functools import partial

from winze.lab import Axis, Question, Recipe, at_least, at_most, lower, several
from winze.recipes.erosion import _settings as use
from winze.recipes.erosion._settings import after
from winze.recipes.erosion._work import CODED
from winze.report.experiment import over_setting

WITHOUT = {
    "no weight decay": {"decay": False},
    "no augmentation": {"augmented": False},
    "no restart": {"restart": False},
    "none of them": {"decay": False, "augmented": False, "restart": False},
}
FULL, NONE = {"task_1": "as task 0"}, {"task_1": "none of them"}
question = partial(Question, each="network")

recipe = Recipe(
    "erosion/needs",
    **use.ABOUT,
    shows="which of weight decay, augmentation and a restarted learning rate erode features",
    axes={"network": use.AXES["network"], "task_1": Axis("", {"as task 0": {}, **WITHOUT})},
    scales=use.scales(use.UNREAD, {"gpu": {"network": ("vgg19",)}}),
    questions=(
        question(
            "does erosion need weight decay, augmentation or restart (a fall at least 10 points smaller without it)?",
            several("without", {name: lower(use.fall, {"task_1": name}, than=FULL, by=0.1) for name in WITHOUT}),
        ),
        question(
            "is there erosion without weight decay, augmentation and restart (a fall of 5 points or more)?",
            at_least(use.fall, 0.05, at=NONE),
        ),
        question(
            "control: is the square learned in every case (class-coded accuracy of 99.5 % or more)?",
            several("training", {str(name): at_least(after(1, CODED), 0.995, at={"task_1": name}) for name in WITHOUT}),
            post_hoc="raised from 95 % after the readings on digits: the network reaches 98 % without the square",
        ),
        question(
            "does the original accuracy stay within 2 points without weight decay, augmentation and restart?",
            at_most(use.fall, 0.02, at=NONE),
        ),
    ),
    figures=(over_setting(use.left, x="task_1", panel="network", up="accuracy"),),
)
