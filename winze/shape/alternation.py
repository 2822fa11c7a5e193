"""The two stages of a staged rule, and the masks that both stages share."""

from __future__ import annotations

import warnings
import weakref
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from winze.shape.find import wired
from winze.shape.junction import Junction
from winze.shape.rowwise.gather import Rows, parted
from winze.shape.rules.masks import draw_keep, granule, ordered, rate_at, sent


class Alternation:
    """Steps a network with staged rules from stage to stage, like a scheduler.

        alternate = winze.Alternation(net)
        ...
        optimizer.step(); alternate.step()

    Each stage lasts `every` steps. Masks are drawn once per pair of stages as a table [junction, sample], so that a
    forward only reads them. `rows` is the batch size; by default it is that of the first batch. A smaller batch takes
    the first columns, a larger one repeats them. In a distributed run each process takes its slice.
    """

    def __init__(self, net: nn.Module, every: int = 1, rows: int | None = None, seed: int = 0) -> None:
        if every < 1:
            raise ValueError(f"every must be at least 1, got {every}")
        if rows is not None and rows < 1:
            raise ValueError(f"rows must be at least 1, got {rows}")
        self._junctions: list[Junction] = [j for j in wired(net) if j.rule.staged]
        if not self._junctions:
            raise ValueError(
                "no junction of this network has a staged rule: write "
                "`winze.rewire(net, winze.ResidualDropPath())` before `winze.Alternation(net)`"
            )
        self.every, self.rows, self.stage = every, rows, 1
        self._steps = 0
        self._device = next((p.device for p in net.parameters()), torch.device("cpu"))
        self._generator = torch.Generator().manual_seed(seed)
        self._table: Tensor | None = None
        self._order: Tensor | None = None
        self._where: Tensor | None = None
        self._kept: list[int] = []
        for row, junction in enumerate(self._junctions):
            junction.moment.alternation, junction.moment.row = self, row
        self._watch(net)
        if rows is not None:
            self._draw(rows)

    def step(self) -> None:
        """Count one step; after every `every` steps, switch to the other stage."""
        self._idle.clear()
        self._steps += 1
        if self._steps % self.every:
            return
        self.stage = 3 - self.stage
        if self.stage == 1 and self.rows is not None:
            self._draw(self.rows)

    def keep(self, row: int, samples: int) -> Tensor:
        """The mask of junction `row` for a batch of `samples`: True where the branch is kept."""
        if not _is_ready(self):
            _draw_first(self, samples)
        table: Tensor = self._table  # type: ignore[assignment]
        rows = table.shape[1]
        if samples == rows:
            return table[row]
        return table[row].repeat(-(-samples // rows))[:samples]

    def kept_whole(self, row: int, samples: int) -> bool:
        """Whether junction `row`, which has a per-batch mask, keeps its branch."""
        if not _is_ready(self):
            _draw_first(self, samples)
        return self._kept[row] > 0

    def parted(self, row: int, samples: int) -> tuple[Rows, Rows]:
        """The kept and the dropped of `samples` at junction `row`."""
        counted = getattr(self._junctions[row].rule, "draw", None) == "count"
        step = 1 if counted else granule(samples)
        if not _is_ready(self):
            _draw_first(self, samples)
        if samples == self.rows and self._order is not None and self._where is not None:
            return parted(self._order[row], self._where[row], self._kept[row], step)
        order, where, kept = ordered(self.keep(row, samples)[None].cpu())
        return parted(sent(order[0], self._device), sent(where[0], self._device), kept[0], step)

    def to(self, device: torch.device | str) -> Alternation:
        """Move the masks to where the network went."""
        self._device = torch.device(device)
        if self._table is not None:
            self._set(self._table.cpu())
        return self

    def state_dict(self) -> dict[str, Any]:
        """All state that later steps depend on."""
        return {
            "stage": self.stage,
            "steps": self._steps,
            "rows": self.rows,
            "generator": self._generator.get_state(),
            "table": None if self._table is None else self._table.to("cpu", copy=True),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        table = state["table"]
        if table is not None and len(table) != len(self._junctions):
            raise ValueError(f"this state has masks for {len(table)} junctions, the network has {len(self._junctions)}")
        self.stage, self._steps, self.rows = state["stage"], state["steps"], state["rows"]
        self._generator.set_state(state["generator"])
        if table is None:
            self._table = self._order = self._where = None
        else:
            self._set(table)

    def _draw(self, rows: int) -> None:
        self.rows = rows
        rank, world = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
        self._set(torch.stack([self._draw_row(j, rows, rank, world) for j in self._junctions]))

    def _draw_row(self, junction: Junction, rows: int, rank: int, world: int) -> Tensor:
        rule: Any = junction.rule
        rate = rate_at(rule.rate, rule.profile, junction.seat)
        if rule.mask == "batch":
            return draw_keep(rate, 1, "bernoulli", generator=self._generator).expand(rows)
        slices = [draw_keep(rate, rows, rule.draw, generator=self._generator) for _ in range(world)]
        return slices[rank]

    def _set(self, table: Tensor) -> None:
        """Install a mask table, in the old one's memory where it fits, so that captured CUDA graphs see it."""
        order, where, self._kept = ordered(table)
        new = [sent(one, self._device) for one in (table, order, where)]
        old = (self._table, self._order, self._where)
        fits = all(b is not None and a.shape == b.shape and a.device == b.device for a, b in zip(new, old, strict=True))
        if not fits:
            self._table, self._order, self._where = (one.clone() for one in new)
            return
        for a, b in zip(new, old, strict=True):
            b.copy_(a)  # type: ignore[union-attr]

    def _watch(self, net: nn.Module) -> None:
        """Warn when an optimizer steps this network and the alternation is not stepped."""
        self._idle: set[int] = set()
        self._warned = False
        own = {id(p) for p in net.parameters()}
        me, owner = weakref.ref(self), weakref.ref(net)

        def stepped(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
            alternation = me()
            if alternation is None or owner() is None:  # once the network is gone, its ids may be reused
                return
            steers = alternation._junctions[0].moment.alternation is alternation
            if not steers or not any(id(p) in own for group in optimizer.param_groups for p in group["params"]):
                return
            twice = id(optimizer) in alternation._idle
            alternation._idle.add(id(optimizer))
            if twice and not alternation._warned:
                alternation._warned = True
                warnings.warn(
                    "the optimizer has stepped twice and winze.Alternation not once: write `alternate.step()` after "
                    "`optimizer.step()`, or the network stays in one stage with one mask",
                    stacklevel=2,
                )

        handle = register_optimizer_step_post_hook(stepped)
        weakref.finalize(self, handle.remove)


def _is_ready(alternation: Alternation) -> bool:
    return alternation._table is not None


def _draw_first(alternation: Alternation, samples: int) -> bool:
    """Draw the first masks once the first batch gives the batch size."""
    alternation._draw(samples)
    return True


# as torch.compiler.assume_constant_result does, without the import of the compiler: they run while a step is compiled,
# for a draw inside of the compiled step would break its graph at every junction
_is_ready._dynamo_marked_constant = _draw_first._dynamo_marked_constant = True  # type: ignore[attr-defined]
