"""A training step: plain, or captured as a CUDA graph, checked against plain steps and replayed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from winze.modes import rng_unchanged, unchanged
from winze.observe.passes.cuda_graph import EmptyGraphError, captured
from winze.train.objectives.base import losses
from winze.train.sources import BatchSource
from winze.train.update import Engine, Update, name_of

WARM = 3  # plain steps before a capture, in which libraries choose their kernels
COMPARED = 3  # first steps per graph that are taken both ways
SCATTER = 3  # a captured step may differ by so many times the difference between two plain ones
CLOSE = 1e-5, 1e-3  # and by these shares of a loss, and of the distance that a tensor moved
ROUNDED = 1e-2  # the share of a loss beyond which two plain steps differ by more than rounding


@dataclass
class PlainStep:
    """Gather, augment, learn; all losses of the step in one tensor."""

    update: Update
    source: BatchSource
    engine: Engine
    names: tuple[str, ...] = ()
    """of the losses: `loss`, then `loss.part` of each part"""

    def __call__(self, first: Tensor, second: Tensor | None) -> Tensor:
        x, y = self.source.make(first, second)
        if self.engine.training.channels_last and x.ndim == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        self.engine.share = self.source.share(first)
        precision, inside = self.engine.fabric.strategy.precision, nullcontext()
        if not hasattr(self.update, "setup"):
            x, inside = precision.convert_input(x), precision.forward_context()
        with inside:
            parts = losses(self.update(x, y), type(self.update).__name__)
        names = tuple("loss" if name == "loss" else f"loss.{name}" for name in parts)
        if names != (self.names or names):
            raise ValueError(f"a step returned the losses {names}, those before it {self.names}")
        self.names = names
        return torch.stack([part.detach().float().reshape(()) for part in parts.values()])


class CudaGraph:
    """A step captured as a CUDA graph: `replay` takes it again, on the present content of the same memory."""

    def __init__(self, step: Callable[[], Tensor], pool: Any = None) -> None:
        self.graph = torch.cuda.CUDAGraph()
        around = torch.cuda.graph(self.graph, pool=pool)
        self.values = captured(step, around.__enter__, partial(around.__exit__, None, None, None))

    @staticmethod
    def works_on(device: torch.device) -> bool:
        return device.type == "cuda"

    @staticmethod
    def warm(step: Callable[[], Tensor]) -> None:
        """Take plain steps on a stream of their own."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM):
                step()
        torch.cuda.current_stream().wait_stream(stream)

    @property
    def pool(self) -> Any:
        return self.graph.pool()

    def replay(self) -> Tensor:
        self.graph.replay()
        return self.values


class CapturedStep:
    """The same step captured, with gathering and augmentation inside.

    Inputs that change from step to step are in memory that the graph reads: row numbers, random numbers, learning
    rates, masks. Each `stage` has a graph of its own. The first steps of every graph are taken both ways and compared.
    Batches of another size, and all batches of a stage whose graph is empty, take plain steps.
    """

    def __init__(self, plain: PlainStep, stage: Callable[[], Hashable] = lambda: 0) -> None:
        self.plain, self.stage = plain, stage
        self._graphs: dict[Hashable, CudaGraph | None] = {}
        self._compared: dict[Hashable, int] = {}
        self._inputs: tuple[Tensor, Tensor] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return self.plain.names

    def __call__(self, first: Tensor, second: Tensor | None) -> Tensor:
        assert second is not None  # only loaders give one tensor, and they are not captured
        if self._inputs is None:
            self._inputs = first.clone(), second.clone()
        if first.shape != self._inputs[0].shape:
            return self.plain(first, second)
        self._inputs[0].copy_(first)
        self._inputs[1].copy_(second)
        stage = self.stage()
        if stage not in self._graphs:
            self._graphs[stage], self._compared[stage] = self._capture(), 0
        graph = self._graphs[stage]
        if graph is None:
            return self._step()
        if self._compared[stage] < COMPARED:
            self._compared[stage] += 1
            return self._compare(graph)
        return graph.replay()

    def _step(self) -> Tensor:
        assert self._inputs is not None
        return self.plain(*self._inputs)

    def _capture(self) -> CudaGraph | None:
        """Warm up, put everything back as it was, and capture one step without taking it; None where it is empty."""
        start, pool = _Snapshot(self.plain.update), next((graph.pool for graph in self._graphs.values() if graph), None)
        with _quiet(), unchanged(*self.plain.update.modules.values()):
            try:
                CudaGraph.warm(self._step)
            finally:
                start.put_back()
            with suppress(EmptyGraphError):
                return CudaGraph(self._step, pool)
            return None

    def _compare(self, graph: CudaGraph) -> Tensor:
        """Take a step captured and plainly, and raise where they differ; what the plain one did stays.

        Kernels that add in any order scatter: the plain step is taken twice from the same start to know by how much.
        Both draw the same random numbers, whatever is drawn between them.
        """
        start = _Snapshot(self.plain.update)
        with _quiet():
            with unchanged(*self.plain.update.modules.values()):
                again = self._outcome(self._step())
            with rng_unchanged():
                start.put_back()
                captured = self._outcome(graph.replay())
                start.put_back()
            values = self._step()
        self._check(start, again, captured, self._outcome(values))
        return values

    def _outcome(self, values: Tensor) -> dict[str, Tensor]:
        """Losses, parameters and buffers after a step, by name; parts of the loss first."""
        found = dict(zip(self.names, values.clone(), strict=True))
        total = found.pop("loss")
        return {**found, "loss": total, **{name: one.clone() for name, one in tensors_of(self.plain.update).items()}}

    def _check(
        self, start: _Snapshot, again: dict[str, Tensor], captured: dict[str, Tensor], plain: dict[str, Tensor]
    ) -> None:
        of_loss = {name: name not in start.named for name in plain}
        scatter = {
            kind: max((_distance(again[name], plain[name]) for name in plain if of_loss[name] == kind), default=0.0)
            for kind in (True, False)
        }
        # a loss that scatters more was drawn from a generator of its own, which a graph would freeze
        largest = max((_size(value) for name, value in plain.items() if of_loss[name]), default=0.0)
        scatter[True] = min(scatter[True], ROUNDED * max(largest, 1e-3))
        for name, value in plain.items():
            far = _distance(captured[name], value)
            moved = _size(value) if of_loss[name] else _distance(start.named[name], value)
            rounding = 8 * torch.finfo(value.dtype).eps * _size(value) if value.is_floating_point() else 0.0
            if far > CLOSE[not of_loss[name]] * moved + SCATTER * scatter[of_loss[name]] + rounding:
                how = f"differs by {far:.3g}"
                if value.numel() == 1:
                    how = f"is {float(captured[name]):.6g} captured and {float(value):.6g} plain"
                raise ValueError(
                    f"{name_of(self.plain.update)} sets capturable = True, but a captured step differs from a plain "
                    f"one: {name} {how}. Something other than tensors on the device changes between steps: keep it in "
                    "a buffer that is filled in place, or set capturable = False"
                )


class _Snapshot:
    """Parameters, buffers and the optimizers' state, to be put back into the same memory."""

    def __init__(self, update: Update) -> None:
        self.update = update
        self.kept = {id(tensor): tensor.detach().clone() for tensor in self._tensors()}
        self.named = {name: self.kept[id(tensor)] for name, tensor in tensors_of(update).items()}

    def _tensors(self) -> list[Tensor]:
        states = (state for one in self.update.optimizers.values() for state in one.state.values())
        inside = [value for state in states for value in state.values() if isinstance(value, Tensor)]
        return [*tensors_of(self.update).values(), *inside]

    @torch.no_grad()
    def put_back(self) -> None:
        """Undo all steps since; an optimizer that had no state yet starts from zeros, as a fresh one does."""
        for tensor in self._tensors():
            before = self.kept.get(id(tensor))
            tensor.zero_() if before is None else tensor.copy_(before)


def tensors_of(update: Update) -> dict[str, Tensor]:
    """Parameters and buffers of all modules of an update by name, as they lie in this process."""
    return {
        f"{of}.{name}": tensor
        for of, module in update.modules.items()
        for name, tensor in (*module.named_parameters(), *module.named_buffers())
    }


def _distance(one: Tensor, other: Tensor) -> float:
    """The largest difference; of values that are NaN in both there is none."""
    apart = (one.detach().double() - other.detach().double()).abs()
    same = (one == other) | (one.isnan() & other.isnan())
    return float(torch.where(same, 0.0, apart).nan_to_num(nan=torch.inf).max()) if one.numel() else 0.0


def _size(value: Tensor) -> float:
    return float(value.detach().double().abs().nan_to_num().max()) if value.numel() else 0.0


@contextmanager
def _quiet() -> Iterator[None]:
    """Stepping the optimizer without the alternation is correct here: the steps are undone."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the optimizer has stepped twice")
        yield
