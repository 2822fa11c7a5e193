"""How a network is trained: frozen dataclasses that hold everything but the network, the data and the seed.

Training(Epochs(160), batch=128, optimizer=SGD(0.1, momentum=0.9), schedule=Milestones(at=(80, 120)))
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from winze.data import Augmentation
from winze.shape import Temperature
from winze.train.fields import Checked, Count, Fraction, Limits, NotNegative, Positive
from winze.train.objectives import CrossEntropy, Function, Objective

Precision = Literal["32-true", "64-true", "bf16-mixed", "16-mixed", "bf16-true"]


@dataclass(frozen=True)
class Epochs(Checked):
    """A number of passes over the data."""

    count: NotNegative

    def steps(self, per_epoch: int) -> int:
        """The number of steps, where an epoch has `per_epoch` of them."""
        return round(self.count * per_epoch)


@dataclass(frozen=True)
class Steps(Checked):
    """A number of optimizer steps."""

    count: Annotated[int, Limits("a whole number of at least 0", lambda value: value >= 0)]

    def steps(self, per_epoch: int) -> int:
        return self.count


Length = Epochs | Steps


@dataclass(frozen=True)
class Optimizer(Checked):
    """What every optimizer has: a learning rate, weight decay, and factors on the learning rate of some weights."""

    lr: Positive
    weight_decay: NotNegative = 0.0
    decay_vectors: bool = True
    """decay biases and norm parameters too (timm does not)"""
    rates: tuple[tuple[str, NotNegative], ...] = ()
    """(glob on parameter names, factor on the learning rate); the first match counts, a factor of 0 freezes"""

    capturable: ClassVar[bool] = True


@dataclass(frozen=True)
class SGD(Optimizer):
    """Stochastic gradient descent."""

    lr: Positive = 0.1
    momentum: Fraction = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nesterov and not self.momentum > 0:
            raise ValueError("nesterov needs a momentum above 0")


@dataclass(frozen=True)
class Lars(SGD):
    """Layer-wise adaptive rates (You et al., 2017), as timm implements them."""

    capturable: ClassVar[bool] = False


@dataclass(frozen=True)
class Adam(Optimizer):
    """Adam."""

    lr: Positive = 1e-3
    betas: tuple[Fraction, Fraction] = (0.9, 0.999)


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with decoupled weight decay."""


@dataclass(frozen=True)
class NAdam(Adam):
    """Adam with Nesterov momentum and decoupled weight decay."""

    capturable: ClassVar[bool] = False


@dataclass(frozen=True)
class Constant(Checked):
    """A constant learning rate, after a linear warm-up from `warmup_lr`.

    `per` is "step" or "epoch": how often the learning rate changes.
    """

    warmup: Length = Epochs(0)
    warmup_lr: NotNegative = 0.0
    per: Literal["step", "epoch"] = "step"

    def rate(self, lr: float, done: float, total: float) -> float:
        """The learning rate after `done` of `total`, both in the unit of the training's length, without warm-up."""
        return lr


@dataclass(frozen=True)
class Cosine(Constant):
    """Half a cosine from the learning rate to `min_lr`.

    lr(p) = min_lr + (lr - min_lr) (1 + cos(π p)) / 2,   p the share of training that is done
    """

    min_lr: NotNegative = 0.0

    def rate(self, lr: float, done: float, total: float) -> float:
        return self.min_lr + (lr - self.min_lr) * (1 + math.cos(math.pi * (done / total))) / 2


@dataclass(frozen=True)
class CosineAfterWarmup(Cosine):
    """Half a cosine that begins where the warm-up ends, as masked autoencoders are trained (He et al., 2022).

    lr(p) as in `Cosine`,   p = (e - e_w) / (E - e_w) after e of E epochs, e_w of them warm-up
    """

    def rate(self, lr: float, done: float, total: float) -> float:
        begun = self.warmup.count
        return super().rate(lr, done - begun, max(total - begun, 1e-9))


@dataclass(frozen=True)
class Milestones(Constant):
    """A learning rate multiplied by `gamma` at each milestone, which counts in the unit of the training's length."""

    at: tuple[NotNegative, ...] = ()
    gamma: NotNegative = 0.1

    def rate(self, lr: float, done: float, total: float) -> float:
        return lr * self.gamma ** sum(done >= milestone for milestone in self.at)


@dataclass(frozen=True)
class Ramp(Checked):
    """A value that moves geometrically from `first` to `last` over the first `share` of training.

    T(p) = first^(1 - s) last^s,   s = min(1, p / share),   p the share of training that is done
    """

    first: Positive
    last: Positive
    share: Annotated[float, Limits("a number in (0, 1]", lambda value: 0 < value <= 1)] = 1.0

    def at(self, progress: float) -> float:
        """The value when this share of training is done."""
        part = min(1.0, progress / self.share)
        return float(self.first ** (1 - part) * self.last**part)


@dataclass(frozen=True)
class Goal(Checked):
    """What a training minimises, as data: `build` makes the `Objective`. `Classify` and its siblings derive from it."""

    def build(self, steps: int) -> Objective:
        """The objective of a training of so many steps."""
        raise ValueError(f"{type(self).__name__} defines no build(steps), which returns its Objective")


@dataclass(frozen=True)
class Classify(Goal):
    """Softmax cross-entropy with label smoothing s and temperature T.

        loss = - Σ_c q_c log softmax(logits / T)_c,   q = (1 - s) onehot(y) + s / C

    With `compensate` the loss is multiplied by T, so that gradients do not shrink as T rises.
    """

    smoothing: Fraction = 0.0
    temperature: Positive | Literal["norm"] | Ramp = 1.0
    """a number, "norm" (the norm of the logits), or a ramp over training"""
    compensate: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.compensate and self.temperature == "norm":
            raise ValueError('compensate needs a fixed temperature or a ramp; "norm" depends on the logits')

    def build(self, steps: int) -> Objective:
        value = self.temperature
        if isinstance(value, Ramp):
            heat: Temperature | None = Temperature(lambda step: value.at(step / max(steps, 1)))
        else:
            heat = None if value == 1 else Temperature(value)
        return CrossEntropy(self.smoothing, heat, self.compensate)


def objective_of(goal: Any, steps: int) -> Objective:
    """The objective of a config, of a function, or itself."""
    if isinstance(goal, Objective):
        return goal
    if not hasattr(goal, "build"):
        return Function(goal)
    made = goal.build(steps)
    if not isinstance(made, Objective):
        raise ValueError(
            f"{type(goal).__name__}.build returns {type(made).__name__}, which is no Objective: derive it from one"
        )
    return made


@dataclass(frozen=True)
class Training(Checked):
    """Everything that decides what is learned, except the network, the data and the seed."""

    length: Length
    """Epochs(160) or Steps(500_000)"""
    batch: Count = 128
    """samples per step, over all devices"""
    optimizer: Optimizer = SGD()
    schedule: Constant = Constant()
    objective: Goal | Any = Classify()
    """a frozen config such as Classify(smoothing=0.1), or an `Objective` of your own"""
    augment: tuple[Augmentation, ...] = ()
    precision: Precision = "32-true"
    """as Lightning Fabric names it: 32-true, bf16-mixed..."""
    clip: Positive | None = None
    """largest norm of the gradient"""
    ema: Fraction | None = None
    """decay of an exponential moving average of the weights, which is then evaluated and kept"""
    drop_last: bool = False
    """leave out the last, smaller batch of an epoch"""
    repeat: Count = 1
    """steps in a row on one batch; an epoch keeps its number of steps, and so sees fewer samples"""
    channels_last: bool = False
    """run convolutions in channels-last memory format"""
    evaluate: Length = Epochs(1)
    """evaluate on the test sets this often, and always at the end"""
    checkpoint: Length = Epochs(1)
    """store a checkpoint this often, and always at the end"""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("evaluate", "checkpoint"):
            if getattr(self, name).count <= 0:
                raise ValueError(f"{name} must be at least one step, got {getattr(self, name)}")
        if not (hasattr(self.objective, "build") or callable(self.objective)):
            raise ValueError(f"objective is a config such as Classify() or an Objective, not {self.objective!r}")
        if self.ema is not None and self.precision == "bf16-true":
            raise ValueError("an average of weights (ema) is lost in the rounding of bf16-true: use bf16-mixed")
        warmup = self.schedule.warmup
        if isinstance(self.schedule, CosineAfterWarmup) and type(warmup) is not type(self.length):
            raise ValueError(f"CosineAfterWarmup counts its warm-up as the length {self.length}, not {warmup}")
        if type(warmup) is type(self.length) and warmup.count > self.length.count:
            raise ValueError(f"warmup must lie within {self.length}, got {warmup}")
