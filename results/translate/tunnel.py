"""What the settings of tunnel recipes have become."""

from __future__ import annotations

import re
from typing import Any

from rekey import epochs, steps

Told = dict[str, Any]


def held(old: Told, new: Told) -> Told:
    """Parameters and their factors are one setting; every run of before trained task 1 itself."""
    factor = new.pop("rate")
    new["slowed"], new["shared"] = [[glob, factor] for glob in new.pop("weights")], False
    return new


def development(old: Told, new: Told) -> Told:
    """What is read during training is what is watched."""
    for name in ("look_every", "look_per", "change_every", "looked_at"):
        del new[name]
    whole = old["look_per"] == "epoch"
    new["type"] = "Study"
    new["watching"] = {
        "type": "Watching",
        "measures": ["rank", "weight_change"] if whole else ["rank"],
        "every": epochs(old["look_every"]) if whole else steps(old["look_every"]),
        "places": "layers",
        "samples": old["looked_at"],
        "pool": old["pool"],
        "max_features": min(old["max_features"], 1000),
        "probe_samples": None,
        "names": {"numerical_rank": "rank_while_learning", "weight_change": "weight_change"},
        "weights_every": epochs(old["change_every"]) if whole else None,
    }
    return new


def capacity(old: Told, new: Told) -> Told:
    """The width in the name of a network is an option of it."""
    name, _, width = new["network"]["name"].partition("x")
    if re.fullmatch(r"[\d.]+", width):
        number = float(width)
        width = int(number) if number.is_integer() else number
        new["network"] |= {"name": name, "options": {**old["options"], "width": width}}
    return new


def compression(old: Told, new: Told) -> Told:
    """The layers at which samples are embedded in the plane have another name."""
    new["layers"] = new.pop("pictured")
    return new


CONFIGS = {
    "Held": held,
    "Development": development,
    "tunnel/capacity": capacity,
    "tunnel/substitution": capacity,
    "tunnel/compression": compression,
}
