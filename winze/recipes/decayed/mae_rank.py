"""Rank and probe accuracy of masked autoencoders over training (Zhang et al., 2024, arXiv 2404.10947, fig. 5).

    winze run decayed/mae_rank --scale cpu             # digits, 3 points x 3 seeds, minutes on one core
    winze run decayed/mae_rank --scale gpu --jobs 7    # CIFAR-10, 5 points x 3 seeds, 400 epochs on an H200

The effective rank and the probe accuracy of the last block, of the class token and of the mean of all tokens, and
Pearson's r of the two over alpha_min at every reading.
"""

from dataclasses import replace
from typing import Any

from winze.lab import Axis, Recipe, rises
from winze.lab.claims.quantities import DuringTraining
from winze.recipes.decayed import _mae as use
from winze.recipes.decayed._correlation import correlates_negatively, higher_at_equal_loss
from winze.report.experiment import over_training
from winze.report.experiment.pearson import over_training_r

RANK, PROBE = "rank_while_training", "probe_while_training"
MEAN_RANK, MEAN_PROBE = f"{RANK} {use.MEAN}", f"{PROBE} {use.MEAN}"
by_alpha: Any = {"colour": "alpha", "panel": "data"}
early = DuringTraining(RANK, lambda ranks: float(ranks[: max(1, len(ranks) // 3)].mean()))

recipe = Recipe(
    "decayed/mae_rank",
    **use.about("fig. 5", study=replace(use.study, protocols=())),
    shows="the effective rank falls with alpha_min, and goes with a higher probe accuracy",
    axes={"data": use.DATA, "alpha": Axis("network.rule.alpha_min", (1.0, 0.8, 0.7, 0.6, 0.5))},
    scales=use.scales({"data": ("digits",), "alpha": (1.0, 0.8, 0.6)}, {"data": ("cifar10",)}),
    claims=(
        use.claim(
            "early in training a smaller alpha_min lowers the effective rank of the class token",
            "fig. 5a",
            rises(early.named("rank in the first third of training"), over="alpha"),
        ),
        use.claim(
            "effective rank and linear-probe accuracy correlate negatively over alpha_min",
            "fig. 5c",
            correlates_negatively(RANK, PROBE, over="alpha"),
        ),
    ),
    questions=(
        *(
            use.question(
                f"does a smaller alpha_min lower the rank of the {token} token at the end?",
                rises(DuringTraining(measure), over="alpha"),
            )
            for token, measure in {"class": RANK, "mean": MEAN_RANK}.items()
        ),
        use.question(
            "do rank and probe accuracy of the mean token correlate negatively?",
            correlates_negatively(MEAN_RANK, MEAN_PROBE, over="alpha"),
        ),
        *(
            use.question(
                f"at equal reconstruction error, is the probe of the {token} token higher at alpha_min = 0.6?",
                higher_at_equal_loss(measure, "reconstruction", use.DECAYED, than=use.PLAIN),
            )
            for token, measure in {"class": PROBE, "mean": MEAN_PROBE}.items()
        ),
    ),
    figures=(
        use.during_training("rank", **by_alpha),
        use.during_training("probe", **by_alpha),
        over_training_r(RANK, PROBE, over="alpha", panel="data"),
        use.during_training("rank", use.MEAN, **by_alpha),
        use.during_training("probe", use.MEAN, **by_alpha),
        over_training("reconstruction", title="Reconstruction error on test images during training", **by_alpha),
    ),
)
