"""Other ways to weigh shortcuts in a masked autoencoder (Zhang et al., 2024, arXiv 2404.10947, table 3b).

    winze run decayed/mae_rules --scale cpu             # digits, 7 points x 3 seeds, minutes on one core
    winze run decayed/mae_rules --scale gpu --jobs 6    # CIFAR-10, 7 points x 3 seeds, 400 epochs on an H200

Each rule stands at the attention and MLP branches of the encoder; "attention" and "mlp" decay one kind alone, each
sub-layer with its own factor; "per block" gives both sub-layers of a block one factor.
"""

from dataclasses import dataclass, replace
from math import sqrt

from winze.lab import Axis, Claim, Question, Recipe, higher
from winze.place import Place
from winze.recipes.decayed import _mae as use
from winze.recipes.decayed._mae import probe
from winze.report.experiment import over_depth, over_setting
from winze.shape import DecayedIdentity, Scaled

HALF = sqrt(0.5)
PUBLISHED = {"plain": 76.5, "branch": 76.9, "both": 82.6, "attention": 79.3, "mlp": 80.6, "decayed": 83.6}


@dataclass(frozen=True)
class OneKind(DecayedIdentity):
    """Decay the shortcuts of one kind of branch, each with the factor that its place among all has."""

    kind: str = "attn"

    def weight(self, place: Place) -> float:
        return super().weight(place) if place.name.endswith(f".{self.kind}") else 1.0


@dataclass(frozen=True)
class PerBlock(DecayedIdentity):
    """One factor for both branches of a block: 1 - (1 - alpha_min) i / (depth - 1)."""

    def weight(self, place: Place) -> float:
        return super().weight(replace(place, index=place.index // 2, total=place.total // 2))


RULES = {
    "plain": DecayedIdentity(1.0),  # as in mae_alpha, so that its training is shared
    "branch": Scaled(1.0, HALF),
    "both": Scaled(HALF, HALF),
    "attention": OneKind(0.6, "attn"),
    "mlp": OneKind(0.6, "mlp"),
    "decayed": DecayedIdentity(0.6),
    "per block": PerBlock(0.6),
}
recipe = Recipe(
    "decayed/mae_rules",
    **use.about("table 3b"),
    shows="decaying both kinds of shortcuts beats decaying one kind, and constant weights",
    axes={"rule": Axis("network.rule", RULES)},
    scales=use.scales(),
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
        *(over_depth(measure, colour="rule") for measure in ("probe", "effective_rank")),
    ),
)
