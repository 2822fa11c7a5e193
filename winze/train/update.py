"""One step of learning: `Descend` follows one loss, `Adversarial` trains two networks against each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from winze.modes import unchanged
from winze.train.hardware import Hardware, HardwareError
from winze.train.objectives.base import Loss, Objective
from winze.train.optimizers import make_optimizer
from winze.train.sources import InputsAndLabels
from winze.train.training import SGD, Adam, Optimizer, Training


@runtime_checkable
class Update(Protocol):
    """One step of learning on a batch: the modules and optimizers it changes, by name, and the losses it returns.

    `fit` moves, stores and restores what is listed here, sets the learning rates of the optimizers, and logs the
    losses. Optional: `setup(engine)` is called once, before the first step, and gives the update devices, precision,
    processes and clipping (see `Engine`); `net` is what followers are given and what `objective` judges on the test
    sets; `objective.advance()` is called after each step.
    """

    modules: Mapping[str, nn.Module]
    optimizers: Mapping[str, torch.optim.Optimizer]

    @property
    def capturable(self) -> bool: ...
    def __call__(self, x: Tensor, y: Tensor | None) -> dict[str, Tensor]: ...


class Engine:
    """What an update needs of a run: device, precision, processes and clipping, by Lightning Fabric.

    `module` places a module and gives the form that is called; `optimizer` makes an optimizer from its config;
    `descend` takes one step of it. `share` is the weight of this process's mean loss: 1, unless slices differ in size.
    """

    def __init__(
        self, fabric: Any, hardware: Hardware, training: Training, captures: bool, first: Callable[[], InputsAndLabels]
    ) -> None:
        self.fabric, self.hardware, self.training, self.captures = fabric, hardware, training, captures
        self.device: torch.device = fabric.device
        self.share = 1.0
        self._first = first
        self._steppers: dict[int, Any] = {}

    def module(self, module: nn.Module) -> nn.Module:
        """The module on its device, in its precision and shared by all processes; call what comes back."""
        placed: nn.Module = self.fabric.setup_module(module)
        return placed

    def optimizer(self, config: Optimizer, net: nn.Module, more: nn.Module | None = None) -> torch.optim.Optimizer:
        """An optimizer of a network's parameters, and of `more`, after they were placed."""
        training = self.training
        # a fused update would divide scaled gradients that were clipped; a fused SGD whose first step a scaler skips
        # goes on from momenta that were never set
        scaled = training.precision == "16-mixed"
        fused = not (scaled and (training.clip is not None or isinstance(config, SGD)))
        made = make_optimizer(net, config, self.device, fused=fused, more=more)
        self._steppers[id(made)] = made if self.captures else self.fabric.setup_optimizers(made)
        return made

    def descend(self, loss: Tensor, optimizer: torch.optim.Optimizer, module: nn.Module | None = None) -> None:
        """Backward, clipping and one step; `module`, as it is called, where its parameters are sharded."""
        stepper = self._steppers.get(id(optimizer), optimizer)
        stepper.zero_grad(set_to_none=True)
        self.fabric.backward(loss)
        clip = self.training.clip
        if clip is not None:  # a scaler's factor is taken out first; gradients with inf skip the update
            self.fabric.clip_gradients(module, stepper, max_norm=clip, error_if_nonfinite=False)
        stepper.step()

    def compiled(self, net: nn.Module, objective: Objective) -> Any:
        """The network as it is called: compiled, where the hardware asks for it.

        It runs once before, so that what winze reads of a foreign forward is read when the compiler comes; and it is
        compiled by itself, since what was compiled for others counts against a limit.
        """
        if not self.hardware.compile:
            return net
        net, objective = self.fabric.to_device(net), self.fabric.to_device(objective)
        with unchanged(net, objective, training=True), torch.no_grad(), self.fabric.autocast():
            objective(net, *self._first())
        torch.compiler.reset()
        return torch.compile(net)


class Descend:
    """One network, one objective, one optimizer: what `fit` makes of a network."""

    def __init__(self, net: nn.Module, objective: Objective, optimizer: Optimizer | None = None) -> None:
        self.net, self.objective, self.config = net, objective, SGD() if optimizer is None else optimizer
        self.modules: Mapping[str, nn.Module] = {"net": net, "objective": objective}
        self.optimizers: Mapping[str, torch.optim.Optimizer] = {}

    @property
    def capturable(self) -> bool:
        return self.objective.capturable and self.config.capturable

    def setup(self, engine: Engine) -> None:
        self.engine = engine
        self.loss = engine.module(Loss(engine.compiled(self.net, self.objective), self.objective))
        self.optimizers = {"net": engine.optimizer(self.config, self.net, self.objective)}

    def __call__(self, x: Tensor, y: Tensor | None) -> dict[str, Tensor]:
        losses: dict[str, Tensor] = self.loss(x, y, self.engine.share)
        self.engine.descend(losses["loss"], self.optimizers["net"], self.loss)
        return losses


def name_of(update: Update) -> str:
    """What decides whether an update is capturable: its objective, or its own class."""
    return type(update.objective if isinstance(update, Descend) else update).__name__


class Adversarial:
    """A generator against a discriminator (Goodfellow et al., 2014): D takes a step, then G, by non-saturating losses.

        loss of D = softplus(-D(real)) + softplus(D(fake)),   loss of G = softplus(-D(fake))

    `sample(generator, x, y)` draws as many samples as the batch has; `objective` judges the generator on the test sets.
    Set `capturable` where neither depends on Python state.
    """

    def __init__(
        self,
        generator: nn.Module,
        discriminator: nn.Module,
        sample: Callable[[nn.Module, Tensor, Tensor | None], Tensor],
        optimizers: tuple[Optimizer, Optimizer] = (Adam(2e-4, betas=(0.5, 0.999)), Adam(2e-4, betas=(0.5, 0.999))),
        objective: Objective | None = None,
        capturable: bool = False,
    ) -> None:
        self.net, self.objective = generator, Objective() if objective is None else objective
        self.modules: Mapping[str, nn.Module] = {
            "generator": generator,
            "discriminator": discriminator,
            "objective": self.objective,
        }
        self.configs = dict(zip(("generator", "discriminator"), optimizers, strict=True))
        self.optimizers: Mapping[str, torch.optim.Optimizer] = {}
        self.sample, self.capturable = sample, capturable and all(config.capturable for config in optimizers)

    def setup(self, engine: Engine) -> None:
        if engine.fabric.world_size > 1:
            raise HardwareError("Adversarial trains in one process")
        self.engine = engine
        self.placed = {name: engine.module(self.modules[name]) for name in self.configs}
        self.optimizers = {name: engine.optimizer(config, self.modules[name]) for name, config in self.configs.items()}
        self.objective.to(engine.device)

    def __call__(self, x: Tensor, y: Tensor | None) -> dict[str, Tensor]:
        generator, critic = self.placed["generator"], self.placed["discriminator"]
        fake = self.sample(generator, x, y)
        told = F.softplus(-critic(x)).mean() + F.softplus(critic(fake.detach())).mean()
        self.engine.descend(told, self.optimizers["discriminator"])
        fooled = F.softplus(-critic(fake)).mean()
        self.engine.descend(fooled, self.optimizers["generator"])
        return {"discriminator": told, "generator": fooled}
