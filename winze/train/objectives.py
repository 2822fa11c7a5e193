"""What is minimised: small functions of a network, its inputs and their labels."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from winze.shape import Temperature
from winze.train.config import Ramp, Training

Objective = Callable[[nn.Module, Tensor, Tensor], Tensor]
"""objective(net, x, y) -> the mean loss of the batch; where it has a `step()`, that is called after each step."""
IGNORED = -100  # cross-entropy leaves samples with this label out


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
        if isinstance(logits, Tensor) and logits.ndim > 1 and logits.shape[1] < self.classes:
            raise ValueError(f"labels go up to {self.classes - 1}, but {_name(net)} puts out {logits.shape[1]} classes")
        if self.temperature is None:
            return F.cross_entropy(logits, y, label_smoothing=self.smoothing)
        if not isinstance(logits, Tensor) or logits.ndim != 2:
            said = f"of shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else f"a {type(logits).__name__}"
            raise ValueError(f"a temperature divides logits [sample, class]; {_name(net)} puts out {said}")
        self.temperature.to(logits.device)
        loss = F.cross_entropy(self.temperature(logits), y, label_smoothing=self.smoothing)
        return loss * self.temperature.temperature if self.compensate else loss

    def step(self) -> None:
        """Move a scheduled temperature on."""
        if self.temperature is not None:
            self.temperature.step()


def classes_of(labels: Tensor) -> int:
    """How many classes cross-entropy sees in labels, one a sample; of probabilities of every class 0, unknown."""
    if labels.ndim != 1:
        return 0
    if labels.is_floating_point() or labels.is_complex():
        raise ValueError(f"labels are whole numbers from 0, not {labels.dtype}")
    given = labels[labels != IGNORED]
    if len(given) and int(given.min()) < 0:
        raise ValueError(f"labels are whole numbers from 0, but the least is {int(given.min())}")
    return int(given.max()) + 1 if len(given) else 0


def _name(net: nn.Module) -> str:
    """What the network is called inside the wraps of Fabric, of several processes and of the compiler."""
    for inner in ("module", "module", "_orig_mod"):
        net = getattr(net, inner, net)
    return type(net).__name__


def _over(ramp: Ramp, total: int) -> Callable[[int], float]:
    return lambda step: ramp.at(step / max(total, 1))
