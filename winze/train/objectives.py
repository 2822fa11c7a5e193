"""What is minimised: small functions of a network, its inputs and their labels."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from winze.shape import Temperature
from winze.train.config import Ramp, Training

Objective = Callable[[nn.Module, Tensor, Tensor], Tensor]
"""objective(net, x, y) -> the mean loss of the batch; where it has a `step()`, that is called after each step."""


class Classify:
    """Softmax cross-entropy with label smoothing s and temperature T.

        loss = - Σ_c q_c log softmax(logits / T)_c,   q = (1 - s) onehot(y) + s / C

    With `compensate` the loss is multiplied by T. `classes`: how many the labels tell apart, where that is known; a
    network with fewer outputs is an error, which a GPU would tell by a fault.
    """

    def __init__(
        self,
        smoothing: float = 0.0,
        temperature: Temperature | None = None,
        compensate: bool = False,
        classes: int = 0,
    ) -> None:
        self.smoothing, self.temperature, self.compensate = smoothing, temperature, compensate
        self.classes = classes

    @classmethod
    def of(cls, training: Training, steps: int | None = None, classes: int = 0) -> Classify:
        """As a training asks for it; a ramp of temperatures wants the number of `steps` in an epoch."""
        value = training.temperature
        if isinstance(value, Ramp):
            if steps is None:
                raise ValueError("a ramp of temperatures wants the number of steps in an epoch")
            heat: Temperature | None = Temperature(_over(value, training.epochs * steps))
        else:
            heat = None if value == 1 else Temperature(value)
        return cls(training.smoothing, heat, training.compensate, classes)

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        logits = net(x)
        if not isinstance(logits, Tensor):
            raise ValueError(
                f"cross-entropy takes logits [sample, class]; {_name(net)} puts out a {type(logits).__name__}: "
                "give fit an objective= of your own"
            )
        if logits.ndim > 1 and logits.shape[1] < self.classes:
            raise ValueError(f"labels go up to {self.classes - 1}, but {_name(net)} puts out {logits.shape[1]} classes")
        if self.temperature is not None and logits.ndim != 2:
            raise ValueError(
                f"a temperature divides logits [sample, class]; {_name(net)} puts out a tensor of shape "
                f"{tuple(logits.shape)}"
            )
        wanted = logits.shape if y.is_floating_point() else (*logits.shape[:1], *logits.shape[2:])
        if tuple(y.shape) != tuple(wanted):
            raise ValueError(
                f"labels of shape {tuple(y.shape)} do not fit the outputs {tuple(logits.shape)} of {_name(net)}: give "
                f"one whole number per sample, shape {tuple(wanted)}, or the probabilities of all classes as floats"
            )
        if self.temperature is None:
            return F.cross_entropy(logits, y, label_smoothing=self.smoothing)
        self.temperature.to(logits.device)
        loss = F.cross_entropy(self.temperature(logits), y, label_smoothing=self.smoothing)
        return loss * self.temperature.temperature if self.compensate else loss

    def step(self) -> None:
        """Move a scheduled temperature on."""
        if self.temperature is not None:
            self.temperature.step()


def class_labels(labels: Tensor) -> Tensor:
    """Labels as cross-entropy takes them: whole numbers of any type as int64; probabilities of all classes stay."""
    if labels.is_floating_point() and labels.ndim > 1:
        return labels
    if labels.is_floating_point() or labels.is_complex():
        raise ValueError(f"labels are whole numbers from 0, not {labels.dtype}")
    whole = labels.long()
    if whole.ndim == 1 and len(whole) and int(whole.min()) < 0:
        raise ValueError(
            f"labels are whole numbers from 0, but the least is {int(whole.min())}: leave samples without a label out"
        )
    return whole


def classes_of(labels: Tensor) -> int:
    """How many classes the labels tell apart, one label per sample; 0, unknown, of any other labels."""
    return int(labels.max()) + 1 if labels.ndim == 1 and len(labels) else 0


def _name(net: nn.Module) -> str:
    """What the network is called inside the wraps of Fabric, of several processes and of the compiler."""
    for inner in ("module", "module", "_orig_mod"):
        net = getattr(net, inner, net)
    return type(net).__name__


def _over(ramp: Ramp, total: int) -> Callable[[int], float]:
    return lambda step: ramp.at(step / max(total, 1))
