"""The rules that a network was trained with, beside its weights."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from torch import nn

from winze.shape import Standard
from winze.shape.find import wired


def rules_of(net: nn.Module) -> dict[str, str]:
    """The rule at each junction of a network that has another than `Standard()`, by the junction's name."""
    return {each.place.name: repr(each.rule) for each in wired(net) if each.rule != Standard()}


def is_rules(told: Any) -> bool:
    """Whether something from a file can be what `rules_of` gave: texts that can be shown."""
    texts = [text for pair in told.items() for text in pair] if isinstance(told, dict) else [None]
    return all(isinstance(text, str) and text.isprintable() and len(text) < 1000 for text in texts)


def warn_of_rules(stored: Mapping[str, str], net: nn.Module, file: object) -> None:
    """Warn where weights were trained with other rules than the network has, since nothing else would show it."""
    own = rules_of(net)
    if stored == own:
        return
    name = next(name for name in (*stored, *own) if stored.get(name) != own.get(name))
    trained, here = stored.get(name, "Standard()"), own.get(name, "Standard()")
    warnings.warn(
        f"{file} was trained with {trained} at junction {name!r}, where this network has {here}: rewire it "
        f"(winze.rewire(net, winze.{trained})), or its outputs will differ",
        stacklevel=3,
    )
