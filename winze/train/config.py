"""How a network learns, and where: two frozen dataclasses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeGuard

from winze.data import Augmentation

CHOICES = {
    "optimizer": ("sgd", "adam", "adamw", "nadam", "lars"),
    "schedule": ("constant", "cosine", "step"),
    "per": ("epoch", "step"),
    "precision": ("32-true", "64-true", "bf16-mixed", "16-mixed", "bf16-true"),
}
LEAST = {"epochs": 0, "batch": 1, "evaluate_every": 1, "checkpoint_every": 1, "repeat": 1}
"""whole numbers, and the smallest that makes sense"""
AT_LEAST_0 = ("weight_decay", "warmup_lr", "min_lr", "gamma")
BELOW_1 = ("momentum", "smoothing", "ema")
"""numbers in [0, 1)"""
FLAGS = ("nesterov", "decay_vectors", "compensate", "drop_last", "channels_last")


@dataclass(frozen=True)
class Ramp:
    """A temperature that moves from `first` to `last`, by one factor a step, over the first `share` of training.

    T(p) = first^(1 - s) last^s,   s = min(1, p / share),   p the share of training that is done
    """

    first: float
    last: float
    share: float = 1.0

    def __post_init__(self) -> None:
        for name in ("first", "last"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"a temperature must be positive and finite, got {value!r} as the {name} of a ramp")
        if not 0 < self.share <= 1:
            raise ValueError(f"share must lie in (0, 1], got {self.share}")

    def at(self, progress: float) -> float:
        """The temperature when this share of training is done."""
        part = min(1.0, progress / self.share)
        return float(self.first ** (1 - part) * self.last**part)


@dataclass(frozen=True)
class Training:
    """All that decides what a network learns, but for the network, the data and the seed.

    The rate warms up linearly from `warmup_lr` over `warmup` epochs, then stays ("constant"), falls by `gamma` at each
    of `milestones` (epochs, "step"), or follows half a cosine to `min_lr` ("cosine"):

        lr(e) = min_lr + (lr - min_lr) (1 + cos(π e / epochs)) / 2

    `per` says whether it changes every step or every epoch. `batch` counts samples over all devices. `ema` is the decay
    of an average of the weights, which is then what is evaluated and what the network holds at the end.
    """

    epochs: int
    """passes over the data"""
    batch: int = 128
    """samples a step, over all devices"""
    optimizer: str = "sgd"
    """sgd, adam, adamw, nadam or lars"""
    lr: float = 0.1
    momentum: float = 0.0
    """of SGD and LARS"""
    nesterov: bool = False
    rates: tuple[tuple[str, float], ...] = ()
    """globs on names of weights, each with what the rate is multiplied by there; the first that fits counts"""
    betas: tuple[float, float] = (0.9, 0.999)
    """of the Adam family"""
    weight_decay: float = 0.0
    decay_vectors: bool = True
    """decay biases and norms too (timm does not)"""
    schedule: str = "constant"
    per: str = "step"
    milestones: tuple[int, ...] = ()
    gamma: float = 0.1
    warmup: float = 0.0
    """epochs"""
    warmup_lr: float = 0.0
    min_lr: float = 0.0
    clip: float | None = None
    """largest norm of the gradient"""
    ema: float | None = None
    smoothing: float = 0.0
    """label smoothing"""
    temperature: float | str | Ramp = 1.0
    """logits are divided by it in the loss: a number, "norm" (that of the logits), or a ramp"""
    compensate: bool = False
    """multiply the loss by the temperature, so that gradients do not shrink as it rises"""
    augment: tuple[Augmentation, ...] = ()
    drop_last: bool = False
    """leave out the last, smaller batch of an epoch"""
    repeat: int = 1
    """steps in a row that learn from one batch; an epoch keeps its number of steps, and so sees fewer samples"""
    precision: str = "32-true"
    """as Lightning Fabric names it: 32-true, bf16-mixed..."""
    channels_last: bool = False
    evaluate_every: int = 1
    """epochs between two looks at the test set, where there is one; the last epoch is always looked at"""
    checkpoint_every: int = 1
    """epochs between two checkpoints, where they are kept"""

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} is one of {', '.join(choices)}, not {getattr(self, name)!r}")
        for name, least in LEAST.items():
            value = getattr(self, name)
            if not (_is_whole(value) and value >= least):
                raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
        for name in FLAGS:
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} is True or False, not {getattr(self, name)!r}")
        if not _is_positive(self.lr):
            raise ValueError(f"lr must be a positive number, got {self.lr!r}")
        for name in AT_LEAST_0:
            if not (_is_number(getattr(self, name)) and getattr(self, name) >= 0):
                raise ValueError(f"{name} must be a finite number of at least 0, got {getattr(self, name)!r}")
        for name in BELOW_1:
            value = getattr(self, name)
            if not (value is None and name == "ema") and not (_is_number(value) and 0 <= value < 1):
                raise ValueError(f"{name} must lie in [0, 1), got {value!r}")
        if len(self.betas) != 2 or not all(_is_number(beta) and 0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas are two numbers in [0, 1), got {self.betas!r}")
        if not all(_is_number(share) and share >= 0 for _, share in self.rates):
            raise ValueError(f"rates multiply the learning rate by 0 or more, got {self.rates}")
        if not all(_is_whole(epoch) and epoch >= 0 for epoch in self.milestones):
            raise ValueError(f"milestones are epochs, whole numbers from 0, got {self.milestones!r}")
        if self.clip is not None and not _is_positive(self.clip):
            raise ValueError(f"clip must be positive and finite, got {self.clip!r}")
        if self.ema is not None and self.precision == "bf16-true":
            raise ValueError("an average of weights (ema) is lost in the rounding of bf16-true: use bf16-mixed")
        if not (_is_number(self.warmup) and 0 <= self.warmup <= self.epochs):
            raise ValueError(f"warmup must lie within the {self.epochs} epochs, got {self.warmup!r}")
        if self.nesterov and not self.momentum > 0:
            raise ValueError("nesterov needs a momentum above 0")
        if not (self.temperature == "norm" or isinstance(self.temperature, Ramp) or _is_positive(self.temperature)):
            raise ValueError(f'temperature is a positive number, a Ramp or "norm", got {self.temperature!r}')
        if self.compensate and self.temperature == "norm":
            raise ValueError('compensate wants a temperature that is set: the one of "norm" is learnt')


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_positive(value: object) -> bool:
    return _is_number(value) and value > 0


@dataclass(frozen=True)
class Hardware:
    """Where training runs; it changes speed and rounding, not what is learnt.

    `step="auto"` captures steps of fixed shape as CUDA graphs on one GPU and takes plain steps elsewhere; "graph"
    insists. `compile` fuses what the network does into fewer kernels, captured or not. With `deterministic` two runs on
    one GPU agree bit for bit; on a CPU they do with as many `threads`.
    """

    accelerator: str = "auto"
    """cpu, cuda, mps, or auto"""
    devices: int = 1
    """more than one: start with torchrun --nproc-per-node N"""
    strategy: str = "auto"
    """ddp, fsdp..., as Lightning Fabric names them"""
    step: str = "auto"
    compile: bool = False
    """by torch.compile, which takes its time at the start"""
    deterministic: bool = False
    threads: int | None = None
    """of torch on the CPU; None leaves them as they are"""

    def __post_init__(self) -> None:
        if self.step not in ("auto", "plain", "graph"):
            raise ValueError(f"step is auto, plain or graph, not {self.step!r}")
        if self.devices < 1 or (self.threads is not None and self.threads < 1):
            raise ValueError(f"devices and threads must be at least 1, got {self.devices} and {self.threads}")
