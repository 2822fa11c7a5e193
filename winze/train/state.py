"""All that a training must remember to go on as if it had never stopped."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from winze.files import StoreError
from winze.shape import Alternation
from winze.train.average import Average
from winze.train.checkpoints import Checkpoint, Checkpoints
from winze.train.members import Members

Metrics = list[dict[str, float]]


@runtime_checkable
class Lasting(Protocol):
    """An onlooker that remembers what it has seen, as `Watch` does."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class State:
    """Weights, optimizer, gradient scaler, average, alternation, scheduled objective, metrics, watched readings so far.

    Random numbers need no remembering (see `seeds`). Where several processes share a run, the first one writes and all
    read; weights that are spread over devices are gathered first.
    """

    def __init__(
        self,
        net: nn.Module,
        optimizer: torch.optim.Optimizer,
        fabric: Any,
        average: Average | None,
        alternation: Alternation | None,
        objective: object,
    ) -> None:
        self.net, self.optimizer, self.fabric = net, optimizer, fabric
        self.average, self.alternation = average, alternation
        temperature = getattr(objective, "temperature", None)
        self.temperature = temperature if isinstance(temperature, nn.Module) else None
        self.scaler: Any = getattr(fabric.strategy.precision, "scaler", None)
        self.first_loss: float | None = None
        # of an ensemble the networks that are not lost go on
        self._sound = set() if isinstance(net, Members) else set(finite(tensors_of(net)))

    def save(self, checkpoints: Checkpoints, metrics: Metrics, watch: object, step: int) -> None:
        """Keep everything as it is now."""
        weights, optimizer = self._gathered()
        if not self.fabric.is_global_zero:
            self.fabric.barrier()
            return
        state: dict[str, Any] = {"epochs": len(metrics), "metrics": metrics, "optimizer": optimizer}
        state["first_loss"] = self.first_loss
        if self.scaler is not None:
            state["scaler"] = self.scaler.state_dict()
        if self.average is not None:
            state["average"] = self.average.weights
        if self.alternation is not None:
            state["alternation"] = self.alternation.state_dict()
        if self.temperature is not None:
            state["temperature"] = self.temperature.state_dict()
        if isinstance(watch, Lasting):
            state["watch"] = watch.state_dict()
        checkpoints.save(step, weights, state)
        self.fabric.barrier()

    def resume(self, checkpoints: Checkpoints | None, watch: object) -> tuple[int, Metrics]:
        """Put the newest checkpoint in place; the number of finished epochs and their metrics."""
        newest = None if checkpoints is None else checkpoints.newest()
        if checkpoints is None or newest is None:
            return 0, []
        state = newest.state
        self._check(newest, checkpoints.folder)
        parts = {
            "scaler": self.scaler,
            "average": self.average,
            "alternation": self.alternation,
            "temperature": self.temperature,
            "watch": watch if isinstance(watch, Lasting) else None,
        }
        for name, part in parts.items():
            if part is not None and name not in state:
                raise StoreError(
                    f"the checkpoint of step {newest.step} in {checkpoints.folder} is of a training without {name}: "
                    "train as it was begun, or remove the folder to start anew"
                )
        self._put(newest.weights, state["optimizer"])
        self.first_loss = state["first_loss"]
        for name, part in parts.items():
            if part is not None:
                part.load_state_dict(state[name])
        return int(state["epochs"]), list(state["metrics"])

    def lost(self, tensors: Mapping[str, Tensor] | None = None) -> list[str]:
        """Weights and buffers, of these or of the network's own, that were finite at the start and are not now."""
        found = tensors_of(self.net) if tensors is None else tensors
        own = {name: value for name, value in found.items() if name in self._sound}
        return sorted(own.keys() - finite(own))

    def _check(self, newest: Checkpoint, folder: Path) -> None:
        lost = self.lost(newest.weights)
        if lost:
            raise StoreError(
                f"the checkpoint of step {newest.step} in {folder} holds NaN or infinite values in {lost[0]}: that "
                "training had diverged; remove the folder to start anew"
            )

    def _gathered(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        if not self._is_spread():
            return dict(self.net.state_dict()), self.optimizer.state_dict()
        from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict

        options = StateDictOptions(full_state_dict=True, cpu_offload=True)
        weights, optimizer = get_state_dict(self.net, self.optimizer, options=options)
        whole: dict[str, Any] = weights
        return whole, optimizer

    def _put(self, weights: dict[str, Tensor], optimizer: dict[str, Any]) -> None:
        if self._is_spread():
            from torch.distributed.checkpoint.state_dict import StateDictOptions, set_state_dict

            options = StateDictOptions(full_state_dict=True)
            whole: dict[str, Any] = weights
            set_state_dict(
                self.net, self.optimizer, model_state_dict=whole, optim_state_dict=optimizer, options=options
            )
            return
        rates = [group["lr"] for group in self.optimizer.param_groups]
        self.net.load_state_dict(weights)
        self.optimizer.load_state_dict(optimizer)
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate  # the same memory on the same device; each step fills it

    def _is_spread(self) -> bool:
        return (
            "fsdp" in type(self.fabric.strategy).__name__.lower()
            or "ModelParallel" in type(self.fabric.strategy).__name__
        )


def tensors_of(net: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers of a network by name, as they lie in this process."""
    return {**dict(net.named_parameters()), **dict(net.named_buffers())}


def finite(tensors: Mapping[str, Tensor]) -> set[str]:
    """The names of those without NaN or infinity; a device is waited for once."""
    if not tensors:
        return set()
    each = [torch.isfinite(value.detach()).all() for value in tensors.values()]
    sound = torch.stack([one.to(each[0].device) for one in each]).tolist()
    return {name for name, one in zip(tensors, sound, strict=True) if one}
