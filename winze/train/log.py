"""The losses of steps, as they come, and their means over the samples of a row."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

CHECK_EVERY = 50  # steps between two looks at the losses: a look waits for the device


class Log:
    """Losses since the last row of metrics.

    They stay on the device until they are fetched. Over several processes each step's losses are summed first, then
    the steps, so that a resumed run adds in the same order.
    """

    def __init__(self, fabric: Any) -> None:
        self.fabric = fabric
        self.names: tuple[str, ...] = ("loss",)
        self._waiting: Tensor | None = None
        self._sizes: list[int] = []
        self._fetched: list[Tensor] = []  # [loss.., samples] of each step, in this process
        self._gathered = torch.zeros(0, 0, dtype=torch.float64)  # the same, over all processes

    @property
    def full(self) -> bool:
        return len(self._sizes) == CHECK_EVERY

    def add(self, names: tuple[str, ...], values: Tensor, samples: int) -> None:
        """Note the losses of one step, means over so many samples."""
        if self._waiting is None:
            self.names, self._waiting = names, torch.empty(CHECK_EVERY, len(values), device=values.device)
        self._waiting[len(self._sizes)] = values
        self._sizes.append(samples)

    def fetch(self) -> Tensor:
        """The losses [step, name] that have come since they were last fetched."""
        if self._waiting is None or not self._sizes:
            return torch.zeros(0, len(self.names), dtype=torch.float64)
        found = self._waiting[: len(self._sizes)].double().cpu()
        samples = torch.tensor(self._sizes, dtype=torch.float64)[:, None]
        self._fetched.append(torch.cat([found * samples, samples], 1))
        self._sizes = []
        return found

    def gather(self) -> None:
        """Sum each fetched step over all processes."""
        self.fetch()
        if self._fetched:
            own = torch.cat(self._fetched)
            whole = own if self.fabric.world_size == 1 else self.fabric.all_reduce(own, reduce_op="sum").cpu()
            self._gathered, self._fetched = torch.cat([self._gathered.view(-1, whole.shape[1]), whole]), []

    def row(self) -> dict[str, float]:
        """The mean of each loss over all samples since the last row."""
        self.gather()
        *sums, samples = self._gathered.sum(0).tolist()
        self._gathered = self._gathered[:0]
        return {name: value / samples for name, value in zip(self.names, sums, strict=True)}

    def state_dict(self) -> dict[str, Any]:
        return {"names": list(self.names), "gathered": self._gathered}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.names, self._gathered = tuple(state["names"]), state["gathered"]
