"""A masked autoencoder whose encoder's shortcuts fade with depth (Zhang et al., 2024, arXiv 2404.10947, table 2).

    winze run decayed/mae_alpha --scale cpu             # digits, 3 points x 3 seeds, minutes on one core
    winze run decayed/mae_alpha --scale small           # MNIST, 3 points x 3 seeds, a quarter of an hour on one core
    winze run decayed/mae_alpha --scale gpu --jobs 7    # CIFAR-10 and Tiny-ImageNet, 400 epochs on an H200

Linear-probe accuracy of the class token against alpha_min, the weight of the last shortcut in the encoder. The paper
trains for 800 epochs; below about 100 decayed encoders are behind, since their deep blocks start almost without input.
"""

from typing import Any

from winze.lab import Axis, Recipe, higher, lower, rises
from winze.recipes.decayed import _mae as use
from winze.recipes.decayed._mae import DECAYED, PLAIN, mean_probe, mean_rank, probe, rank
from winze.report.experiment import of_scans, over_depth, over_setting, profiles
from winze.report.scan.cka_map import cka_map

by_alpha: Any = {"colour": "alpha", "panel": "data"}

recipe = Recipe(
    "decayed/mae_alpha",
    **use.about("table 2"),
    shows="decayed shortcuts in the encoder raise the linear-probe accuracy of a masked autoencoder",
    axes={"data": use.DATA, "alpha": Axis("network.rule.alpha_min", (1.0, 0.9, 0.8, 0.7, 0.6, 0.5))},
    scales=use.scales(
        {"data": ("digits",), "alpha": (1.0, 0.8, 0.6)},
        {"data": ("cifar10", "tinyimagenet100"), "alpha": (1.0, 0.8, 0.7, 0.6, 0.5)},
        protocols=use.study.protocols,
    ),
    claims=(
        use.claim(
            "alpha_min = 0.6 raises linear-probe accuracy over plain shortcuts",
            "table 2, 76.5 to 83.6",
            higher(probe, DECAYED, than=PLAIN),
            paper="+7.1 points",
            headline=True,
        ),
        use.claim(
            "a smaller alpha_min lowers the effective rank of the class token", "fig. 5a", rises(rank, over="alpha")
        ),
    ),
    questions=(
        *use.other_probes("data"),
        use.question(
            "does alpha_min = 0.6 lower the effective rank of the mean token?", lower(mean_rank, DECAYED, than=PLAIN)
        ),
        use.question(
            "does the tunnel begin earlier in an encoder with alpha_min = 0.6?",
            lower("tunnel_start", DECAYED, than=PLAIN),
        ),
        use.question(
            "does alpha_min = 0.7 raise linear-probe accuracy?",
            higher(probe, {"alpha": 0.7}, than=PLAIN),
            scales=("gpu", "paper"),
        ),
    ),
    figures=(
        over_setting(
            {"class token": probe, "mean token": mean_probe},
            x="alpha",
            panel="data",
            title="Probe accuracy at the last block by alpha",
            up="probe accuracy",
        ),
        over_setting(use.linear, x="alpha", panel="data"),
        use.during_training("probe", **by_alpha),
        use.during_training("rank", **by_alpha),
        *(over_depth(measure, **by_alpha) for measure in ("probe", "effective_rank")),
        profiles(("data", "alpha"), second="effective_rank"),
        of_scans("CKA between blocks", cka_map),
    ),
)
