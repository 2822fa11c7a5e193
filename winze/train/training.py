"""How a network is trained: frozen dataclasses that hold everything but the network, the data and the seed.

Training(Epochs(160), batch=128, optimizer=SGD(0.1, momentum=0.9), schedule=Milestones(at=(80, 120)))
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from winze.data import Augmentation
from winze.shape import Temperature
from winze.train.objectives import CrossEntropy, Function, Objective

PRECISIONS = ("32-true", "64-true", "bf16-mixed", "16-mixed", "bf16-true")


def is_number(value: object) -> bool:
    """Whether a value is a finite number; a bool is none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def check_number(
    config: Any, name: str, *, at_least: float = -math.inf, above: float = -math.inf, below: float = math.inf
) -> None:
    """Raise unless a field is a finite number within its bounds."""
    value = getattr(config, name)
    if is_number(value) and at_least <= value < below and value > above:
        return
    wanted = "be a positive number" if above == 0 else f"be a finite number of at least {at_least:g}"
    wanted = f"lie in [{at_least:g}, {below:g})" if below < math.inf else wanted
    raise ValueError(f"{name} must {wanted}, got {value!r}")


def check_whole(config: Any, name: str, least: int) -> None:
    """Raise unless a field is a whole number of at least `least`."""
    value = getattr(config, name)
    if not (isinstance(value, int) and is_number(value) and value >= least):
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")


def check_flag(config: Any, name: str) -> None:
    """Raise unless a field is True or False."""
    if not isinstance(getattr(config, name), bool):
        raise ValueError(f"{name} is True or False, not {getattr(config, name)!r}")


def check_choice(config: Any, name: str, choices: tuple[str, ...]) -> None:
    """Raise unless a field is one of the choices."""
    if getattr(config, name) not in choices:
        raise ValueError(f"{name} is one of {', '.join(choices)}, not {getattr(config, name)!r}")


@dataclass(frozen=True)
class Epochs:
    """A number of passes over the data."""

    count: float

    def __post_init__(self) -> None:
        check_number(self, "count", at_least=0)

    def steps(self, per_epoch: int) -> int:
        """The number of steps, where an epoch has `per_epoch` of them."""
        return round(self.count * per_epoch)


@dataclass(frozen=True)
class Steps:
    """A number of optimizer steps."""

    count: int

    def __post_init__(self) -> None:
        check_whole(self, "count", least=0)

    def steps(self, per_epoch: int) -> int:
        return self.count


Length = Epochs | Steps


@dataclass(frozen=True)
class Optimizer:
    """What every optimizer has: a learning rate, weight decay, and factors on the learning rate of some weights."""

    lr: float
    weight_decay: float = 0.0
    decay_vectors: bool = True
    """decay biases and norm parameters too (timm does not)"""
    rates: tuple[tuple[str, float], ...] = ()
    """(glob on parameter names, factor on the learning rate); the first match counts, a factor of 0 freezes"""

    capturable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_number(self, "lr", above=0)
        check_number(self, "weight_decay", at_least=0)
        check_flag(self, "decay_vectors")
        if not all(is_number(factor) and factor >= 0 for _, factor in self.rates):
            raise ValueError(f"rates multiply the learning rate by 0 or more, got {self.rates}")


@dataclass(frozen=True)
class SGD(Optimizer):
    """Stochastic gradient descent."""

    lr: float = 0.1
    momentum: float = 0.0
    nesterov: bool = False

    capturable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "momentum", at_least=0, below=1)
        check_flag(self, "nesterov")
        if self.nesterov and not self.momentum > 0:
            raise ValueError("nesterov needs a momentum above 0")


@dataclass(frozen=True)
class Lars(SGD):
    """Layer-wise adaptive rates (You et al., 2017), as timm implements them."""

    capturable: ClassVar[bool] = False


@dataclass(frozen=True)
class Adam(Optimizer):
    """Adam."""

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)

    capturable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.betas) != 2 or not all(is_number(beta) and 0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas are two numbers in [0, 1), got {self.betas!r}")


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with decoupled weight decay."""


@dataclass(frozen=True)
class NAdam(Adam):
    """Adam with Nesterov momentum and decoupled weight decay."""

    capturable: ClassVar[bool] = False


@dataclass(frozen=True)
class Constant:
    """A constant learning rate, after a linear warm-up from `warmup_lr`.

    `per` is "step" or "epoch": how often the learning rate changes.
    """

    warmup: Length = Epochs(0)
    warmup_lr: float = 0.0
    per: str = "step"

    def __post_init__(self) -> None:
        check_number(self, "warmup_lr", at_least=0)
        check_choice(self, "per", ("step", "epoch"))

    def rate(self, lr: float, done: float, total: float) -> float:
        """The learning rate after `done` of `total`, both in the unit of the training's length, without warm-up."""
        return lr


@dataclass(frozen=True)
class Cosine(Constant):
    """Half a cosine from the learning rate to `min_lr`.

    lr(p) = min_lr + (lr - min_lr) (1 + cos(π p)) / 2,   p the share of training that is done
    """

    min_lr: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "min_lr", at_least=0)

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

    at: tuple[float, ...] = ()
    gamma: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "gamma", at_least=0)
        if not all(is_number(one) and one >= 0 for one in self.at):
            raise ValueError(f"milestones are numbers from 0, got {self.at!r}")

    def rate(self, lr: float, done: float, total: float) -> float:
        return lr * self.gamma ** sum(done >= milestone for milestone in self.at)


@dataclass(frozen=True)
class Ramp:
    """A value that moves geometrically from `first` to `last` over the first `share` of training.

    T(p) = first^(1 - s) last^s,   s = min(1, p / share),   p the share of training that is done
    """

    first: float
    last: float
    share: float = 1.0

    def __post_init__(self) -> None:
        for name in ("first", "last"):
            check_number(self, name, above=0)
        if not 0 < self.share <= 1:
            raise ValueError(f"share must lie in (0, 1], got {self.share}")

    def at(self, progress: float) -> float:
        """The value when this share of training is done."""
        part = min(1.0, progress / self.share)
        return float(self.first ** (1 - part) * self.last**part)


@dataclass(frozen=True)
class Goal:
    """What a training minimises, as data: `build` makes the `Objective`. `Classify` and its siblings derive from it."""

    def build(self, steps: int) -> Objective:
        """The objective of a training of so many steps."""
        raise NotImplementedError


@dataclass(frozen=True)
class Classify(Goal):
    """Softmax cross-entropy with label smoothing s and temperature T.

        loss = - Σ_c q_c log softmax(logits / T)_c,   q = (1 - s) onehot(y) + s / C

    With `compensate` the loss is multiplied by T, so that gradients do not shrink as T rises.
    """

    smoothing: float = 0.0
    temperature: float | str | Ramp = 1.0
    """a number, "norm" (the norm of the logits), or a ramp over training"""
    compensate: bool = False

    def __post_init__(self) -> None:
        check_number(self, "smoothing", at_least=0, below=1)
        check_flag(self, "compensate")
        value = self.temperature
        if not (value == "norm" or isinstance(value, Ramp) or (is_number(value) and float(value) > 0)):
            raise ValueError(f'temperature is a positive number, a Ramp or "norm", got {value!r}')
        if self.compensate and value == "norm":
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
    return goal.build(steps) if hasattr(goal, "build") else Function(goal)


@dataclass(frozen=True)
class Training:
    """Everything that decides what is learned, except the network, the data and the seed."""

    length: Length
    """Epochs(160) or Steps(500_000)"""
    batch: int = 128
    """samples per step, over all devices"""
    optimizer: Optimizer = SGD()
    schedule: Constant = Constant()
    objective: Goal | Any = Classify()
    """a frozen config such as Classify(smoothing=0.1), or an `Objective` of your own"""
    augment: tuple[Augmentation, ...] = ()
    precision: str = "32-true"
    """as Lightning Fabric names it: 32-true, bf16-mixed..."""
    clip: float | None = None
    """largest norm of the gradient"""
    ema: float | None = None
    """decay of an exponential moving average of the weights, which is then evaluated and kept"""
    drop_last: bool = False
    """leave out the last, smaller batch of an epoch"""
    repeat: int = 1
    """steps in a row on one batch; an epoch keeps its number of steps, and so sees fewer samples"""
    channels_last: bool = False
    """run convolutions in channels-last memory format"""
    evaluate: Length = Epochs(1)
    """evaluate on the test sets this often, and always at the end"""
    checkpoint: Length = Epochs(1)
    """store a checkpoint this often, and always at the end"""

    def __post_init__(self) -> None:
        for name, least in {"batch": 1, "repeat": 1}.items():
            check_whole(self, name, least)
        for name in ("drop_last", "channels_last"):
            check_flag(self, name)
        check_choice(self, "precision", PRECISIONS)
        if not isinstance(self.optimizer, Optimizer):
            raise ValueError(f"optimizer is an optimizer such as SGD(0.1), not {self.optimizer!r}")
        for name in ("length", "evaluate", "checkpoint"):
            if not isinstance(getattr(self, name), Epochs | Steps):
                raise ValueError(f"{name} is Epochs(...) or Steps(...), not {getattr(self, name)!r}")
        for name in ("evaluate", "checkpoint"):
            if getattr(self, name).count <= 0:
                raise ValueError(f"{name} must be at least one step, got {getattr(self, name)}")
        if not isinstance(self.schedule, Constant):
            raise ValueError(f"schedule is Constant(), Cosine() or Milestones(), not {self.schedule!r}")
        if not (hasattr(self.objective, "build") or callable(self.objective)):
            raise ValueError(f"objective is a config such as Classify() or an Objective, not {self.objective!r}")
        if self.clip is not None:
            check_number(self, "clip", above=0)
        if self.ema is not None:
            check_number(self, "ema", at_least=0, below=1)
            if self.precision == "bf16-true":
                raise ValueError("an average of weights (ema) is lost in the rounding of bf16-true: use bf16-mixed")
        warmup = self.schedule.warmup
        if isinstance(self.schedule, CosineAfterWarmup) and type(warmup) is not type(self.length):
            raise ValueError(f"CosineAfterWarmup counts its warm-up as the length {self.length}, not {warmup}")
        if type(warmup) is type(self.length) and warmup.count > self.length.count:
            raise ValueError(f"warmup must lie within {self.length}, got {warmup}")
