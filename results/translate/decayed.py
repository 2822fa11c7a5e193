"""What the settings of decayed recipes have become."""

from __future__ import annotations

from typing import Any

from rekey import epochs

Told = dict[str, Any]


def watched(old: Told, new: Told) -> Told:
    """The number of blocks is an option of the network, and the looks at the last block are what is watched."""
    for name in ("blocks", "look_every", "looked_at"):
        del new[name]
    new["type"] = "Study"
    new["network"]["options"] = {**old["options"], "blocks": old["blocks"]}
    new["watching"] = {
        "type": "Watching",
        "measures": ["rank"],
        "every": epochs(old["look_every"]),
        "places": "last",
        "samples": old["looked_at"],
        "pool": old["pool"],
        "max_features": 8000,
        "names": {"effective_rank": "last_effective_rank"},
        "weights_every": None,
        "probe_samples": None,
    }
    return new


CONFIGS = {"Watched": watched}
