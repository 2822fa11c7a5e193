"""Whether a network was ever trained, as far as its weights show it."""

from __future__ import annotations

from torch import nn


def is_untrained(net: nn.Module) -> bool:
    """Whether all norm layers are as they were made: weights alike, biases and running means zero.

    One step of training changes them. Of a network without norm layers nothing is known, so False.
    """
    norms = [module for module in net.modules() if _is_norm(module)]
    return bool(norms) and all(map(_is_fresh, norms))


def _is_norm(module: nn.Module) -> bool:
    """Whether a module scales each feature by a number of its own, or holds running means."""
    scales = any(name == "weight" and p.ndim == 1 and len(p) > 1 for name, p in module.named_parameters(recurse=False))
    return scales or any(name == "running_mean" for name, _ in module.named_buffers(recurse=False))


def _is_fresh(module: nn.Module) -> bool:
    own = {**dict(module.named_parameters(recurse=False)), **dict(module.named_buffers(recurse=False))}
    alike = "weight" not in own or bool((own["weight"] == own["weight"].flatten()[0]).all())
    return alike and not any(bool(own[name].any()) for name in ("bias", "running_mean") if name in own)
