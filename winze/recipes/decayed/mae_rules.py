"""Other ways to weigh shortcuts in a masked autoencoder (Zhang et al., 2024, arXiv 2404.10947, table 3b).

    winze run decayed/mae_rules --scale cpu             # digits, 7 points x 3 seeds, minutes on one core
    winze run decayed/mae_rules --scale gpu --jobs 6    # CIFAR-10, 7 points x 3 seeds, 400 epochs on an H200

Each rule stands at the attention and MLP branches of the encoder; "attention" and "mlp" decay one kind alone, each
sub-layer with its own factor; "per block" gives both sub-layers of a block one factor.
"""

from __future__ import annotations

from math import sqrt

from winze.lab import Axis, Claim, Question, Recipe, higher
from winze.recipes.decayed._mae import (
    DEPARTURES,
    MEASURES,
    PAPER,
    URL,
    OneKind,
    PerBlock,
    probe,
    scales,
    study,
    work,
)
from winze.report.experiment import over_depth, over_setting
from winze.shape import DecayedIdentity, Scaled

HALF = sqrt(0.5)
PUBLISHED = {"plain": 76.5, "branch": 76.9, "both": 82.6, "attention": 79.3, "mlp": 80.6, "decayed": 83.6}

recipe = Recipe(
    "decayed/mae_rules",
    system="S2",
    paper=f"{PAPER}, table 3b",
    url=URL,
    shows="decaying both kinds of shortcuts beats decaying one kind, and constant weights",
    study=study,
    axes={
        "rule": Axis(
            "",
            {
                "plain": {"network.rule": Scaled()},
                "branch": {"network.rule": Scaled(1.0, HALF)},
                "both": {"network.rule": Scaled(HALF, HALF)},
                "attention": {"network.rule": OneKind(0.6, "attn")},
                "mlp": {"network.rule": OneKind(0.6, "mlp")},
                "decayed": {"network.rule": DecayedIdentity(0.6)},
                "per block": {"network.rule": PerBlock(0.6)},
            },
        )
    },
    scales=scales(),
    work=work,
    claims=(
        Claim(
            "decaying attention and MLP shortcuts gives the highest linear-probe accuracy",
            "table 3b, 83.6",
            higher(probe, {"rule": "decayed"}, than={}),
            each="rule",
            only=tuple(PUBLISHED),
            paper={name: f"{83.6 - value:+.1f} points" for name, value in PUBLISHED.items()},
        ),
        Claim(
            "weighing shortcut and branch by the root of 0.5 raises linear-probe accuracy",
            "table 3b, 76.5 to 82.6",
            higher(probe, {"rule": "both"}, than={"rule": "plain"}),
            paper="+6.1 points",
        ),
    ),
    questions=(
        Question(
            "does one factor per block do better than one per sub-layer?",
            higher(probe, {"rule": "per block"}, than={"rule": "decayed"}),
        ),
    ),
    figures=(
        over_setting(probe, x="rule"),
        over_depth("probe", colour="rule"),
        over_depth("effective_rank", colour="rule"),
    ),
    departures=DEPARTURES,
    measures=MEASURES,
    learned=(probe, 0.2),
)
