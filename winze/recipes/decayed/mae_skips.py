"""Decayed shortcuts need long skips from encoder to decoder (Zhang et al., 2024, arXiv 2404.10947, table 3a).

    winze run decayed/mae_skips --scale cpu             # digits, 4 points x 3 seeds, minutes on one core
    winze run decayed/mae_skips --scale gpu --jobs 4    # CIFAR-10, 4 points x 3 seeds, 400 epochs on an H200

With skips the decoder starts from positions alone and gets all content through them; without, from the encoder's last
tokens, as in the original masked autoencoder.
"""

from typing import Any

from winze.lab import Axis, Recipe, higher
from winze.recipes.decayed import _mae as use
from winze.report.experiment import over_depth

WITH, WITHOUT = {"skips": "with"}, {"skips": "without"}
from_latent = {"network.options.skips": False, "network.options.decoder_input": "latent"}
by_alpha: Any = {"colour": "alpha", "panel": ("data", "skips")}

recipe = Recipe(
    "decayed/mae_skips",
    **use.about("table 3a"),
    shows="long skips from encoder to decoder are what lets decayed shortcuts help",
    axes={
        "data": use.DATA,
        "skips": Axis("", {"with": {}, "without": from_latent}),
        "alpha": Axis("network.rule.alpha_min", (1.0, 0.6)),
    },
    scales=use.scales({"data": ("digits",)}, {"data": ("cifar10", "tinyimagenet100")}),
    claims=(
        use.claim(
            "with alpha_min = 0.6, long skips raise linear-probe accuracy",
            "table 3a, 61.5 to 83.6",
            higher(use.probe, WITH, than=WITHOUT),
            at={"alpha": 0.6},
            paper="+22.1 points",
            headline=True,
        ),
    ),
    questions=(
        use.question(
            "do long skips raise the probe accuracy of a plain encoder?",
            higher(use.probe, WITH, than=WITHOUT),
            at={"alpha": 1.0},
        ),
        use.question(
            "do long skips raise the probe accuracy of the mean token?",
            higher(use.mean_probe, WITH, than=WITHOUT),
            each=("data", "alpha"),
        ),
    ),
    figures=(over_depth("probe", **by_alpha), use.during_training("probe", **by_alpha)),
)
