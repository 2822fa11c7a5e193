"""What the settings of residual_droppath recipes have become."""

from __future__ import annotations

from typing import Any

Told = dict[str, Any]


def spirals(old: Told, new: Told) -> Told:
    """Networks side by side are an ensemble, and the data set has its name."""
    new["data"]["name"] = "spiral"
    new["networks"] = new.pop("side_by_side")
    return new


CONFIGS = {"Spirals": spirals}
