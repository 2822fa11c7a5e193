"""One or two networks trained step by step on the same batches, exactly as `winze.train.fit` would."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from winze.data import plane
from winze.networks import SpiralMLP
from winze.play.settings import DRAWN, OPTIMIZERS, Arm, Setup
from winze.shape import Alternation, Standard, rewire
from winze.train import Classify, Steps, Training
from winze.train.objectives.base import losses
from winze.train.optimizers import make_optimizer
from winze.train.seeds import mix, seed_quickly
from winze.train.sources import InputsAndLabels, source_of
from winze.train.training import objective_of

TEST = 512  # points of the test set: as many as a depth profile reads
CPU = torch.device("cpu")
Points = tuple[Tensor, Tensor]


def mse(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The squared error of the outputs against one-hot labels, averaged over samples and outputs."""
    outputs = net(x)
    return F.mse_loss(outputs, F.one_hot(y, outputs.shape[1]).to(outputs.dtype))


def points_of(setup: Setup) -> tuple[Points, Points]:
    """The training points and the test points: another draw, or the drawn points themselves."""
    if setup.data == DRAWN:
        table = torch.tensor(setup.drawn, dtype=torch.float32)
        drawn = table[:, :2].contiguous(), table[:, 2].long()
        return drawn, drawn
    first = plane(setup.data, setup.points, setup.noise, setup.classes, setup.seed)
    return first, plane(setup.data, TEST, setup.noise, setup.classes, setup.seed + 1)


def training_of(arm: Arm, batch: int) -> Training:
    """The training that an arm asks for; its length means nothing here."""
    goal = mse if arm.objective == "mse" else Classify(temperature=arm.temperature)
    return Training(Steps(1), batch=batch, optimizer=OPTIMIZERS[arm.optimizer](arm.lr), objective=goal)


def network_of(setup: Setup, arm: Arm) -> SpiralMLP:
    """The network before its first step; the same seed starts both networks of a pair alike."""
    torch.manual_seed(setup.seed)
    net = SpiralMLP(width=arm.width, depth=arm.depth, classes=setup.classes, activation=arm.activation)
    if arm.rule != Standard():
        rewire(net, arm.rule)
    return net


class PlayNetwork:
    """A network with its objective, its optimizer and what steers its rule."""

    def __init__(self, setup: Setup, arm: Arm, rows: int) -> None:
        self.arm, self.seed = arm, setup.seed
        self.net = network_of(setup, arm).train()
        training = training_of(arm, setup.batch)
        self.objective = objective_of(training.objective, 0)
        self.optimizer = make_optimizer(self.net, training.optimizer, CPU)
        staged = arm.rule.staged
        self.alternation = Alternation(self.net, rows=rows, seed=setup.seed) if staged else None
        self.loss = float("nan")

    def step(self, number: int, x: Tensor, y: Tensor | None) -> float:
        """Take step `number`, counted from 0, and give its loss; the seeds are those of `fit`."""
        seed_quickly(mix(self.seed, "step 0", number))
        loss = losses(self.objective(self.net, x, y), "the objective")["loss"]
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.objective.advance()
        if self.alternation is not None:
            self.alternation.step()
        self.loss = float(loss.detach())
        return self.loss


class Trainer:
    """All networks of a setup, in lockstep on the same batches."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.train, self.test = points_of(setup)
        self.source: Any = source_of(self.train, training_of(setup.arms[0], setup.batch), None, setup.seed, CPU)
        rows = min(setup.batch, len(self.train[0]))
        self.learners = [PlayNetwork(setup, arm, rows) for arm in setup.arms]
        self.steps = 0
        self._batches: Iterator[InputsAndLabels] = iter(())

    def step(self) -> list[float]:
        """Take one step with each network; the losses before it."""
        if self.steps % self.source.steps == 0:
            self._batches = iter(self.source.epoch(self.steps // self.source.steps))
        x, y = self.source.make(*next(self._batches))
        found = [learner.step(self.steps, x, y) for learner in self.learners]
        self.steps += 1
        return found

    @property
    def epoch(self) -> float:
        """Passes over the data that are done."""
        return self.steps / self.source.steps
