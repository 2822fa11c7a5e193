"""Everything that a training must store to resume as if it had never stopped."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from winze.atomic import StoreError
from winze.train.captured import tensors_of
from winze.train.checkpoints import Checkpoint, Checkpoints
from winze.train.followers import Followers
from winze.train.update import Update

CHECK_EVERY = 50  # steps between two looks at the losses: a look waits for the device


class Log:
    """Losses since the last row of metrics.

    They stay on the device until they are fetched. Over several processes each step's losses are summed first, then
    the steps, so that a resumed run adds in the same order.
    """

    def __init__(self, fabric: Any) -> None:
        self.fabric = fabric
        self.names: tuple[str, ...] = ("loss",)
        self._waiting: list[tuple[Tensor, int]] = []  # the losses of each step, in this process, and its samples
        self._sums = torch.zeros(0, 0, dtype=torch.float64)  # [step, loss.. and samples], over all processes

    @property
    def full(self) -> bool:
        return len(self._waiting) == CHECK_EVERY

    def add(self, names: tuple[str, ...], values: Tensor, samples: int) -> None:
        """Note the losses of one step, means over so many samples."""
        self.names = names
        self._waiting.append((values.clone(), samples))  # a captured step writes the next ones into the same memory

    def fetch(self) -> Tensor:
        """The losses [step, name] of this process that have come since they were last fetched."""
        if not self._waiting:
            return torch.zeros(0, len(self.names), dtype=torch.float64)
        values, sizes = zip(*self._waiting, strict=True)
        self._waiting = []
        found = torch.stack(values).double().cpu()
        samples = torch.tensor(sizes, dtype=torch.float64)[:, None]
        own = torch.cat([found * samples, samples], 1)
        whole = own if self.fabric.world_size == 1 else self.fabric.all_reduce(own, reduce_op="sum").cpu()
        self._sums = torch.cat([self._sums.view(-1, whole.shape[1]), whole])
        return found

    def row(self) -> dict[str, float]:
        """The mean of each loss over all samples since the last row."""
        *sums, samples = self._sums.sum(0).tolist()
        self._sums = self._sums[:0]
        return {name: value / samples for name, value in zip(self.names, sums, strict=True)}

    def state_dict(self) -> dict[str, Any]:
        return {"names": list(self.names), "gathered": self._sums}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.names, self._sums = tuple(state["names"]), state["gathered"]


class State:
    """Modules, optimizers and followers by name, gradient scaler, metrics, losses since the last row.

    Random numbers need no storing (see `seeds`). Where several processes share a run, the first one writes and all
    read; weights that are sharded over devices are gathered first.
    """

    def __init__(self, update: Update, followers: Followers, log: Log, fabric: Any, about: str) -> None:
        self.update, self.followers, self.log, self.fabric = update, followers, log, fabric
        self.metrics: list[dict[str, float]] = []
        self.first_loss: float | None = None
        self._scaler: Any = getattr(fabric.strategy.precision, "scaler", None)
        self._about = about
        # an ensemble goes on without those of its networks that have diverged
        tolerant = any(getattr(module, "tolerates_divergence", False) for module in update.modules.values())
        self._sound = set() if tolerant else set(finite(tensors_of(update)))

    def save(self, checkpoints: Checkpoints, step: int) -> None:
        weights, optimizers, extra = self._gathered()
        if self.fabric.is_global_zero:
            parts: dict[str, Any] = {name: one.state_dict() for name, one in self.followers.lasting.items()}
            state = {
                "step": step,
                "metrics": self.metrics,
                "log": self.log.state_dict(),
                "first_loss": self.first_loss,
                "about": self._about,
                "optimizers": optimizers,
                "extra": extra,
                "followers": parts,
                "scaler": None if self._scaler is None else self._scaler.state_dict(),
            }
            checkpoints.save(step, weights, state)
        self.fabric.barrier()

    def resume(self, checkpoints: Checkpoints | None) -> int:
        """Put the newest checkpoint in place; the number of steps that it has seen."""
        newest = None if checkpoints is None else checkpoints.newest()
        if checkpoints is None or newest is None:
            return 0
        self._check(newest, checkpoints.folder)
        state = newest.state
        self._put(newest.weights, state["optimizers"], state["extra"])
        for name, one in self.followers.lasting.items():
            one.load_state_dict(state["followers"][name])
        if self._scaler is not None:
            self._scaler.load_state_dict(state["scaler"])
        self.log.load_state_dict(state["log"])
        self.metrics, self.first_loss = list(state["metrics"]), state["first_loss"]
        return newest.step

    def lost(self, tensors: Mapping[str, Tensor] | None = None) -> list[str]:
        """Parameters and buffers, of these or of the update's own, that were finite at the start and are not now."""
        found = tensors_of(self.update) if tensors is None else tensors
        own = {name: value for name, value in found.items() if name in self._sound}
        return sorted(own.keys() - finite(own))

    def _check(self, newest: Checkpoint, folder: Path) -> None:
        """Raise where the checkpoint is of another training, or of one that had diverged."""
        told = newest.state
        other = None
        if told["about"] != self._about:
            other = f"of another training, {told['about']}, and this is {self._about}"
        for name in sorted(told["followers"].keys() ^ self.followers.lasting.keys()):
            other = f"of a training {'with' if name in told['followers'] else 'without'} the follower {name!r}"
        if (told["scaler"] is None) != (self._scaler is None):
            other = f"of a training {'without' if told['scaler'] is None else 'with'} a gradient scaler"
        if other:
            raise StoreError(
                f"the checkpoint of step {newest.step} in {folder} is {other}: train with its settings, or remove the "
                "folder to start again"
            )
        lost = self.lost(newest.weights)
        if lost:
            raise StoreError(
                f"the checkpoint of step {newest.step} in {folder} holds NaN or infinite values in {lost[0]}: that "
                "training had diverged; remove the folder to start again"
            )

    def _gathered(self) -> tuple[dict[str, Tensor], dict[str, Any], dict[str, Any]]:
        """Tensors of all modules, states of all optimizers, and what modules store that is no tensor."""
        if self.is_sharded:
            from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict

            update: Any = self.update
            options = StateDictOptions(full_state_dict=True, cpu_offload=True)
            whole: Any
            whole, optimizer = get_state_dict(update.loss._forward_module, update.optimizers["net"], options=options)
            optimizers: dict[str, Any] = {"net": optimizer}
        else:
            named = self.update.modules.items()
            whole = {f"{of}.{name}": value for of, module in named for name, value in module.state_dict().items()}
            optimizers = {name: one.state_dict() for name, one in self.update.optimizers.items()}
        weights = {name: value for name, value in whole.items() if isinstance(value, Tensor)}
        return weights, optimizers, {name: value for name, value in whole.items() if name not in weights}

    def _put(self, weights: dict[str, Tensor], optimizers: dict[str, Any], extra: dict[str, Any]) -> None:
        if self.is_sharded:
            from torch.distributed.checkpoint.state_dict import StateDictOptions, set_state_dict

            update: Any = self.update
            set_state_dict(
                update.loss._forward_module,
                update.optimizers["net"],
                model_state_dict={**weights, **extra},
                optim_state_dict=optimizers["net"],
                options=StateDictOptions(full_state_dict=True),
            )
            return
        for of, module in self.update.modules.items():
            own = {name: value for name, value in {**weights, **extra}.items() if name.startswith(f"{of}.")}
            module.load_state_dict({name.removeprefix(f"{of}."): value for name, value in own.items()})
        for name, one in self.update.optimizers.items():
            rates = [group["lr"] for group in one.param_groups]
            one.load_state_dict(optimizers[name])
            for group, rate in zip(one.param_groups, rates, strict=True):
                group["lr"] = rate  # the same memory on the same device; each step fills it

    @property
    def is_sharded(self) -> bool:
        """Whether each process holds a part of the weights."""
        kind = type(self.fabric.strategy).__name__
        return "fsdp" in kind.lower() or "ModelParallel" in kind


def finite(tensors: Mapping[str, Tensor]) -> set[str]:
    """The names of those without NaN or infinity; a device is waited for once."""
    if not tensors:
        return set()
    each = [torch.isfinite(value.detach()).all() for value in tensors.values()]
    sound = torch.stack([one.to(each[0].device) for one in each]).tolist()
    return {name for name, one in zip(tensors, sound, strict=True) if one}
