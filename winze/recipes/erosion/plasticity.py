"""Is learning slower after erosion: CIFAR-10, images with squares, CIFAR-10 again (thesis, figure 4.2.3).

    winze run erosion/plasticity --scale cpu    # an MLP on digits
    winze run erosion/plasticity --scale gpu    # VGG-19 and ResNet-18 on CIFAR-10, 4 points x 3 seeds

Task 2 is task 0 again, of the same length: its learning curve is compared with that of task 0, which starts from
scratch.
"""

from functools import partial

from winze.lab import Recipe, at_least, at_most
from winze.recipes.erosion import _settings as use
from winze.recipes.erosion._settings import after, mean_in
from winze.report.experiment import over_setting

slower = (mean_in[2] - mean_in[0]).named("mean accuracy during task 2 minus that during task 0")
lower = (after(2) - after(0)).named("accuracy after task 2 minus that after task 0")
claim = partial(use.claim, source="fig. 4.2.3")

recipe = Recipe(
    "erosion/plasticity",
    **use.ABOUT,
    shows="a network whose features have eroded learns its first task again more slowly than from scratch",
    axes=use.AXES,
    scales=use.scales({"again": True, **use.UNREAD}, {"smoke": use.FIRST}),
    claims=(
        claim(
            "relearning is slower than learning from scratch: the mean accuracy during task 2 is below that of task 0",
            check=at_most(slower, 0.0),
            paper="climbs more slowly",
            headline=True,
        ),
        claim("the accuracy after task 2 is below that after task 0", check=at_most(lower, 0.0), paper="ends lower"),
    ),
    questions=(use.question("does task 2 end within 2 points of task 0 or above it?", at_least(lower, -0.02)),),
    figures=(
        use.curves(use.EACH),
        over_setting({"task 0": mean_in[0], "task 2": mean_in[2]}, x="first", panel="network", up="mean accuracy"),
    ),
)
