"""What several recipes claim of a network: that it has a tunnel, which keeps the accuracy and loses other data.

Recipes that claim it have the quantities `share_of_layers_before_the_tunnel`, `accuracy_kept_in_tunnel` and
`other_data_lost_at_the_end`.
"""

from __future__ import annotations

from collections.abc import Mapping

from winze.lab import Claim, at_least, at_most


def has_tunnel(arm: str, name: str, paper: str, departure: str | Mapping[str, str] = "") -> Claim:
    """That probes saturate well before the last layer."""
    return Claim(
        f"{name} has a tunnel: its probes reach 95 % of its accuracy by three quarters of its layers",
        at_most("share_of_layers_before_the_tunnel", arm, 0.75),
        paper=paper,
        departure=departure,
    )


def keeps_accuracy(arm: str, name: str) -> Claim:
    """That probes do not fall in the tunnel."""
    return Claim(
        f"the tunnel of {name} keeps the accuracy that its start has reached (98 % of it or more)",
        at_least("accuracy_kept_in_tunnel", arm, 0.98),
        paper="saturates",
    )


def loses_other_data(
    arm: str,
    name: str,
    paper: str,
    departure: str | Mapping[str, str] = "",
    scales: tuple[str, ...] | None = None,
) -> Claim:
    """That the last features serve other data worse than the best do."""
    return Claim(
        f"features of {name} for other data get worse behind their best layer (by 5 points or more)",
        at_least("other_data_lost_at_the_end", arm, 0.05),
        paper=paper,
        departure=departure,
        scales=scales,
    )
