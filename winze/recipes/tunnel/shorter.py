"""Do networks without a tunnel forget less: VGG-19 with ever fewer convolutions on two tasks (thesis, figure 5.4.1).

    winze run tunnel/shorter --scale cpu                   # VGG-19 with an eighth of the channels on digits: 9 minutes
    winze run tunnel/shorter --scale gpu --at rate=0.03    # CIFAR-10: 7 points x 3 seeds, 32 minutes of an H200

Forgetting is the accuracy on a task right after it minus that at the end. A VGG-19 of 11 layers has 8 convolutions, the
extractor that the thesis finds on CIFAR-10, two linear layers and the output.
"""

from winze.lab import Axis, Recipe, Scale, higher, not_below, rises, several
from winze.recipes.tunnel import _continual as two
from winze.report.experiment import over_setting

LINEAR = 3  # layers behind the convolutions
whole, extractor, less = ({"layers": layers} for layers in (19, 11, 5))
learned = {f"task {k}": one for k, one in two.learned.items()}

recipe = Recipe(
    "tunnel/shorter",
    **two.about(two.learn_tasks, "the deepest convolutions are removed first; the thesis does not say which"),
    shows="networks without a tunnel are as accurate and forget less",
    axes={
        "layers": Axis("network.options.convs", {n + LINEAR: n for n in (2, 4, 6, 8, 10, 13, 16)}, default=19),
        "rate": two.RATE,
    },
    scales={
        "smoke": Scale(two.smoke, {"layers": (11, 19), **two.PUBLISHED}, departures=(two.SMOKE,)),
        "cpu": Scale(two.digits, {"layers": (7, 11, 19), **two.PUBLISHED}, seeds=8, departures=(two.DIGITS,)),
        "gpu": Scale(two.ten_epochs, seeds=3, at=(two.GENTLY, two.FIFTEEN), departures=(two.SHORT, two.TWO_RATES)),
        "paper": Scale({}, two.PUBLISHED, seeds=3),
    },
    claims=(
        two.claim(
            "VGG-19 without its tunnel (8 of its 16 convolutions) learns both tasks as well as the whole network (2 "
            "points less at most)",
            "fig. 5.4.1",
            several(
                "task", {name: not_below(one, extractor, than=whole, margin=0.02) for name, one in learned.items()}
            ),
            paper="as the whole",
        ),
        two.claim(
            "VGG-19 without its tunnel (8 of its 16 convolutions) forgets less of task 1 than the whole network",
            "fig. 5.4.1",
            higher(two.forgetting, whole, than=extractor),
            paper="forgets less",
        ),
    ),
    questions=(
        two.question("does forgetting grow with the number of layers?", rises(two.forgetting, over="layers")),
        two.question(
            "do networks shorter than the extractor (2 convolutions) learn worse?",
            several("on", {name: higher(one, extractor, than=less) for name, one in learned.items()}),
        ),
    ),
    figures=(
        over_setting(learned, x="layers", panel="rate", up="accuracy right after the task"),
        over_setting(two.forgetting, x="layers", line="rate", up="forgetting of task 1"),
    ),
)
