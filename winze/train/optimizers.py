"""Optimizers in the form that a captured step can hold, the learning rate over training, and an average of weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from winze.train.training import SGD, Adam, AdamW, Epochs, Lars, Length, NAdam, Optimizer, Training


def make_optimizer(
    net: nn.Module, config: Optimizer, device: torch.device, *, fused: bool = True, more: nn.Module | None = None
) -> torch.optim.Optimizer:
    """The torch optimizer of a config, for a network and the parameters of its objective (`more`).

    On a GPU the learning rate is a tensor and the update one kernel, so that a captured graph reads each step's rate;
    `fused=False` where gradients that a scaler has multiplied are clipped, since a fused update would divide them
    itself. LARS is timm's.
    """
    weights = dict(net.named_parameters())
    own = set(weights.values())  # an objective may hold parts of the network
    others = {} if more is None else dict(more.named_parameters())
    weights |= {f"objective.{name}": weight for name, weight in others.items() if weight not in own}
    groups = _groups(weights, config, type(net).__name__)
    fused = fused and device.type == "cuda"
    held = fused and config.capturable
    lr: Any = torch.tensor(config.lr, device=device) if held else config.lr
    for group in groups:  # each with a learning rate of its own, in memory of its own
        group["lr"], group["initial_lr"] = (lr.clone() if held else lr), config.lr
    if isinstance(config, Lars):
        import timm.optim

        lars: Any = timm.optim.Lars  # type: ignore[attr-defined]
        return lars(groups, lr, config.momentum, nesterov=config.nesterov)
    if isinstance(config, SGD):
        return torch.optim.SGD(groups, lr, config.momentum, nesterov=config.nesterov, fused=fused or None)
    if isinstance(config, NAdam):
        return torch.optim.NAdam(groups, lr, config.betas, decoupled_weight_decay=True)
    if isinstance(config, Adam):
        kind = torch.optim.AdamW if isinstance(config, AdamW) else torch.optim.Adam
        return kind(groups, lr, config.betas, fused=fused or None, capturable=fused)
    raise ValueError(f"optimizer is SGD(), Lars(), Adam(), AdamW() or NAdam(), not {config!r}")


def shares(weights: Mapping[str, nn.Parameter], config: Optimizer, of: str) -> dict[str, float]:
    """The factor on the learning rate of each weight, by name; `of`: the network, for the error."""
    names = list(weights)
    for glob, _ in config.rates:
        if not any(fnmatchcase(name, glob) for name in names):
            raise ValueError(f"rates: no weight of {of} is called {glob!r}; there is {names[0]!r}")
    first = {name: [share for glob, share in config.rates if fnmatchcase(name, glob)][:1] for name in names}
    return {name: share[0] if share else 1.0 for name, share in first.items()}


def _groups(weights: Mapping[str, nn.Parameter], config: Optimizer, of: str) -> list[dict[str, Any]]:
    """Weights that share a weight decay and a factor on the learning rate."""
    factors = shares(weights, config, of)
    found: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, weight in weights.items():
        if weight.requires_grad:
            decay = config.weight_decay if config.decay_vectors or weight.ndim > 1 else 0.0
            found.setdefault((decay, factors[name]), []).append(weight)
    if not found:
        raise ValueError(f"{of} has no parameter to train")
    return [{"params": own, "weight_decay": decay, "share": share} for (decay, share), own in found.items()]


def learning_rate(training: Training, per_epoch: int) -> Callable[..., float]:
    """The learning rate of each step, counted from 0, where an epoch has `per_epoch` steps.

    It starts from the optimizer's learning rate, or from another: `rate(step, lr)`.
    """
    schedule, warmup = training.schedule, training.schedule.warmup

    def position(step: int, length: Length) -> float:
        return step / per_epoch if isinstance(length, Epochs) else step

    def rate(step: int, lr: float = training.optimizer.lr) -> float:
        step -= step % per_epoch if schedule.per == "epoch" else 0
        done = position(step, warmup)
        if done < warmup.count:
            return schedule.warmup_lr + (lr - schedule.warmup_lr) * done / warmup.count
        return schedule.rate(lr, position(step, training.length), training.length.count)

    return rate


def set_rates(optimizer: torch.optim.Optimizer, rate: Callable[[float], float]) -> None:
    """Give every group this step's learning rate, a function of its first one; tensors keep their memory."""
    for group in optimizer.param_groups:
        if "initial_lr" not in group:
            group["initial_lr"] = float(group["lr"])
        own = rate(group["initial_lr"]) * group.get("share", 1.0)
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(own)
        else:
            group["lr"] = own


class EMA:
    """The exponential moving average of everything in a network's `state_dict`; it follows each step.

        a ← d a + (1 - d) w,   d the decay

    Whole numbers, such as BatchNorm's count of batches, are copied.
    """

    def __init__(self, net: nn.Module, decay: float) -> None:
        self.decay = decay
        own = {name: value for name, value in net.state_dict(keep_vars=True).items() if isinstance(value, Tensor)}
        self.weights = {name: value.detach().clone() for name, value in own.items()}
        self._pairs = [(self.weights[name], value) for name, value in own.items()]

    @torch.no_grad()
    def after_step(self, net: nn.Module, step: int) -> None:
        real = [(a, w.detach()) for a, w in self._pairs if a.is_floating_point()]
        torch._foreach_lerp_([a for a, _ in real], [w for _, w in real], 1 - self.decay)
        for a, w in self._pairs:
            if not a.is_floating_point():
                a.copy_(w)

    def state_dict(self) -> dict[str, Tensor]:
        return self.weights

    @torch.no_grad()
    def load_state_dict(self, weights: dict[str, Tensor]) -> None:
        for name, value in weights.items():
            self.weights[name].copy_(value)

    def keep(self, net: nn.Module) -> None:
        net.load_state_dict(net.state_dict() | self.weights)

    @contextmanager
    def inside(self, net: nn.Module) -> Iterator[None]:
        """Put the average into the network for a while."""
        own = {name: value.clone() if isinstance(value, Tensor) else value for name, value in net.state_dict().items()}
        self.keep(net)
        try:
            yield
        finally:
            net.load_state_dict(own)
