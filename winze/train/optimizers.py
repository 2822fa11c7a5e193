"""Optimizers by name, in the form that a captured step can hold."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from winze.train.config import Training

CAPTURABLE = ("sgd", "adam", "adamw")


def make_optimizer(net: nn.Module, training: Training, device: torch.device) -> torch.optim.Optimizer:
    """The optimizer of a training.

    On a GPU the learning rate is a tensor and the update one kernel, so that a captured graph reads each step's rate;
    not where gradients that a scaler has multiplied are clipped, since a fused update would divide them itself. LARS
    is timm's.
    """
    groups = _groups(net, training)
    scaled = training.precision == "16-mixed" and training.clip is not None
    name, fused = training.optimizer, device.type == "cuda" and not scaled
    held = fused and name in CAPTURABLE
    lr: Any = torch.tensor(training.lr, device=device) if held else training.lr
    for group in groups:  # each with a rate of its own, in memory of its own
        group["lr"] = lr.clone() if held else lr
    if name == "sgd":
        return torch.optim.SGD(groups, lr, training.momentum, nesterov=training.nesterov, fused=fused or None)
    if name == "adam":
        return torch.optim.Adam(groups, lr, training.betas, fused=fused or None, capturable=fused)
    if name == "adamw":
        return torch.optim.AdamW(groups, lr, training.betas, fused=fused or None, capturable=fused)
    if name == "nadam":
        return torch.optim.NAdam(groups, lr, training.betas, decoupled_weight_decay=True)
    import timm.optim

    lars: Any = timm.optim.Lars  # type: ignore[attr-defined]
    return lars(groups, lr, training.momentum, nesterov=training.nesterov)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Give every group this step's rate, into the same memory where the rate is a tensor."""
    for group in optimizer.param_groups:
        own = rate * group["share"]
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(own)
        else:
            group["lr"] = own


def _groups(net: nn.Module, training: Training) -> list[dict[str, Any]]:
    """Weights that share a weight decay and a share of the rate."""
    rates = shares(net, training)
    found: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, weight in net.named_parameters():
        if weight.requires_grad:
            decay = training.weight_decay if training.decay_vectors or weight.ndim > 1 else 0.0
            found.setdefault((decay, rates[name]), []).append(weight)
    if not found:
        raise ValueError(f"{type(net).__name__} has no parameter to train")
    return [{"params": own, "weight_decay": decay, "share": share} for (decay, share), own in found.items()]


def shares(net: nn.Module, training: Training) -> dict[str, float]:
    """What each weight's rate is multiplied by."""
    names = [name for name, _ in net.named_parameters()]
    for glob, _ in training.rates:
        if not any(fnmatchcase(name, glob) for name in names):
            raise ValueError(f"rates: no weight of {type(net).__name__} is called {glob!r}; there is {names[0]!r}")
    first = {name: [share for glob, share in training.rates if fnmatchcase(name, glob)][:1] for name in names}
    return {name: share[0] if share else 1.0 for name, share in first.items()}
