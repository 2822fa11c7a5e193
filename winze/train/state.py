"""All that a training must remember to go on as if it had never stopped."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from winze.shape import Alternation
from winze.train.average import Average
from winze.train.checkpoints import Checkpoints

Metrics = list[dict[str, float]]


@runtime_checkable
class Lasting(Protocol):
    """An onlooker that remembers what it has seen, as `Watch` does."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class State:
    """Weights, optimizer, average, alternation, a scheduled objective, metrics and watched readings so far.

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

    def save(self, checkpoints: Checkpoints, metrics: Metrics, watch: object, step: int) -> None:
        """Keep everything as it is now."""
        weights, optimizer = self._gathered()
        if not self.fabric.is_global_zero:
            self.fabric.barrier()
            return
        state: dict[str, Any] = {"epochs": len(metrics), "metrics": metrics, "optimizer": optimizer}
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
        if newest is None:
            return 0, []
        state = newest.state
        self._put(newest.weights, state["optimizer"])
        if self.average is not None:
            self.average.load(state["average"])
        if self.alternation is not None:
            self.alternation.load_state_dict(state["alternation"])
        if self.temperature is not None:
            self.temperature.load_state_dict(state["temperature"])
        if isinstance(watch, Lasting):
            watch.load_state_dict(state["watch"])
        return int(state["epochs"]), list(state["metrics"])

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
