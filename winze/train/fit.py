"""The plain loop: data on the device, its own order, and a stop where the loss is lost."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Int64
from torch import Tensor, nn

from winze.data import Preprocess
from winze.shape import Alternation

Watch = Callable[[nn.Module, int], Any]
"""Called as `watch(net, step)` before the first step and after every one; what it draws at random changes nothing."""

CHECK_EVERY = 50  # steps between looks at the loss: a look waits for the device


class DivergedError(RuntimeError):
    """Training whose loss is no longer a number."""


@dataclass(frozen=True)
class History:
    """What a training left behind: the mean loss of every epoch, the number of steps, and how long it took."""

    losses: tuple[float, ...]
    steps: int
    seconds: float


def fit(
    net: nn.Module,
    images: Tensor,
    labels: Int64[Tensor, " sample"],
    *,
    epochs: int,
    batch: int = 128,
    lr: float = 0.05,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    optimizer: Literal["sgd", "adamw"] = "sgd",
    seed: int = 0,
    device: torch.device | str | None = None,
    preprocess: Preprocess | None = None,
    schedule: Literal["constant", "cosine"] = "constant",
    alternation: Alternation | None = None,
    watch: Watch | None = None,
    progress: bool | None = None,
) -> History:
    """Train a network, in place, to tell the labels of images apart (softmax cross-entropy).

    Images stay as they are stored and are preprocessed batch by batch on the device (None: where the network is). The
    order of samples comes from a generator of its own, and dropout from one seeded for this call, so that two calls
    with the same seed and the same network agree bit for bit whatever else draws random numbers; the world's random
    state is left as it was. `alternation` is stepped after the optimizer. `progress` None: only on a terminal.
    """
    _check(images, labels, epochs, batch, lr)
    home = torch.device(device) if device is not None else _device(net)
    net.to(home)
    images, labels = images.to(home), labels.to(home)
    order = torch.Generator().manual_seed(seed)
    stepper = _optimizer(net, optimizer, lr, momentum, weight_decay)
    rows_of = [len(rows) for rows in _batches(torch.arange(len(labels)), batch)]
    total = epochs * len(rows_of)
    rate = _rate(schedule, lr, total)
    training = net.training
    losses: list[float] = []
    begun, step = time.perf_counter(), 0
    with torch.random.fork_rng(_cuda(home), device_type="cuda"), _Bar(total, progress) as bar:
        torch.manual_seed(seed)
        _look(watch, net, 0, home)
        net.train()
        try:
            for _ in range(epochs):
                seen: list[Tensor] = []
                for rows in _batches(torch.randperm(len(labels), generator=order).to(home), batch):
                    for group in stepper.param_groups:
                        group["lr"] = rate(step)
                    x = images[rows] if preprocess is None else preprocess(images[rows])
                    loss = F.cross_entropy(net(x), labels[rows])
                    stepper.zero_grad(set_to_none=True)
                    loss.backward()
                    stepper.step()
                    if alternation is not None:
                        alternation.step()
                    step += 1
                    seen.append(loss.detach())
                    if step % CHECK_EVERY == 0:
                        _check_finite(seen, step, lr)
                    if watch is not None:
                        _look(watch, net, step, home)
                        net.train()
                    bar.advance()
                _check_finite(seen, step, lr)
                weights = torch.tensor(rows_of, dtype=torch.float64) / len(labels)
                losses.append(float(torch.stack(seen).double().cpu() @ weights))
                bar.say(f"loss {losses[-1]:.4f}")
        finally:
            net.train(training)
    return History(tuple(losses), step, time.perf_counter() - begun)


@torch.no_grad()
def evaluate(net: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]) -> float:
    """The share of samples whose largest output is their label; the network's mode is left as it was."""
    home, training = _device(net), net.training
    right = torch.zeros((), dtype=torch.int64, device=home)
    samples = 0
    net.eval()
    try:
        for x, y in batches:
            right += (net(x.to(home)).argmax(1) == y.to(home)).sum()
            samples += len(y)
    finally:
        net.train(training)
    if not samples:
        raise ValueError("evaluate: not one sample")
    return int(right) / samples


def _check(images: Tensor, labels: Tensor, epochs: int, batch: int, lr: float) -> None:
    if len(images) != len(labels):
        raise ValueError(f"fit: {len(images)} images but {len(labels)} labels")
    if not len(labels):
        raise ValueError("fit: not one sample")
    if epochs < 0 or batch < 1:
        raise ValueError(f"fit: epochs must be at least 0 and batch at least 1, got {epochs} and {batch}")
    if not (math.isfinite(lr) and lr > 0):
        raise ValueError(f"fit: lr must be a positive number, got {lr}")


def _batches(rows: Tensor, batch: int) -> list[Tensor]:
    """Rows in pieces of `batch`; a last piece of one joins the one before it, since BatchNorm cannot train on one."""
    pieces = list(rows.split(batch))
    if len(pieces) > 1 and len(pieces[-1]) == 1 and batch > 1:
        pieces[-2:] = [torch.cat(pieces[-2:])]
    return pieces


def _optimizer(net: nn.Module, name: str, lr: float, momentum: float, weight_decay: float) -> torch.optim.Optimizer:
    parameters = [p for p in net.parameters() if p.requires_grad]
    if not parameters:
        raise ValueError(f"fit: {type(net).__name__} has no parameter to train")
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=lr, momentum=momentum, weight_decay=weight_decay)
    if name == "adamw":
        return torch.optim.AdamW(parameters, lr=lr, weight_decay=weight_decay)
    raise ValueError(f"fit: optimizer is 'sgd' or 'adamw', not {name!r}")


def _rate(schedule: str, lr: float, total: int) -> Callable[[int], float]:
    if schedule == "constant":
        return lambda step: lr
    if schedule == "cosine":
        return lambda step: lr * (1 + math.cos(math.pi * step / total)) / 2
    raise ValueError(f"fit: schedule is 'constant' or 'cosine', not {schedule!r}")


def _check_finite(seen: list[Tensor], step: int, lr: float) -> None:
    """Raise with the very step at which the loss was lost."""
    lost = (~torch.isfinite(torch.stack(seen))).nonzero()
    if len(lost):
        first = int(lost[0])
        at, value = step - len(seen) + first + 1, float(seen[first])
        raise DivergedError(f"training diverged: the loss is {value} at step {at}; try a lower lr than {lr:g}")


def _look(watch: Watch | None, net: nn.Module, step: int, device: torch.device) -> None:
    if watch is not None:
        with torch.random.fork_rng(_cuda(device), device_type="cuda"):
            watch(net, step)


def _cuda(device: torch.device) -> list[torch.device]:
    return [device] if device.type == "cuda" else []


def _device(net: nn.Module) -> torch.device:
    return next((p.device for p in net.parameters()), torch.device("cpu"))


class _Bar:
    """A progress bar on the terminal, or nothing at all."""

    def __init__(self, total: int, progress: bool | None) -> None:
        self.shown = sys.stderr.isatty() if progress is None else progress
        self.total = total

    def __enter__(self) -> _Bar:
        if self.shown:
            from rich.console import Console
            from rich.progress import Progress

            self.bar = Progress(console=Console(stderr=True), transient=True)
            self.bar.start()
            self.task = self.bar.add_task("training", total=self.total)
        return self

    def __exit__(self, *_: object) -> None:
        if self.shown:
            self.bar.stop()

    def advance(self) -> None:
        if self.shown:
            self.bar.advance(self.task)

    def say(self, text: str) -> None:
        if self.shown:
            self.bar.update(self.task, description=f"training, {text}")
