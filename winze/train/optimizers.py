"""Optimizers by name, in the form that a captured step can hold."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from winze.train.config import Training

CAPTURABLE = ("sgd", "adam", "adamw")


def make_optimizer(net: nn.Module, training: Training, device: torch.device) -> torch.optim.Optimizer:
    """The optimizer of a training.

    On a GPU the rate is a tensor and the update one kernel, so that a captured graph reads each step's rate. LARS is
    timm's.
    """
    groups = _groups(net, training)
    name, fused = training.optimizer, device.type == "cuda"
    lr: Any = torch.tensor(training.lr, device=device) if fused and name in CAPTURABLE else training.lr
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
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def _groups(net: nn.Module, training: Training) -> list[dict[str, Any]]:
    learning = [p for p in net.parameters() if p.requires_grad]
    if not learning:
        raise ValueError(f"{type(net).__name__} has no parameter to train")
    if training.decay_vectors:
        return [{"params": learning, "weight_decay": training.weight_decay}]
    groups = [
        {"params": [p for p in learning if p.ndim > 1], "weight_decay": training.weight_decay},
        {"params": [p for p in learning if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]
