"""What fields of the temperature recipes have become."""

from __future__ import annotations

from typing import Any

Told = dict[str, Any]


def heated(old: Told, new: Told) -> Told:
    """The settings of the readings during training under the names that they have now."""
    names = {"look_at": "align_at", "every_look": "logits_every", "look_samples": "samples"}
    return {names.get(key, key): value for key, value in new.items()}


CONFIGS = {"Heated": heated}
