"""One training step: taken plainly, or captured once and replayed as a CUDA graph."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from winze.shape import Alternation
from winze.train.average import Average
from winze.train.config import Training
from winze.train.objectives import Objective
from winze.train.source import Source

WARM = 3  # plain steps before a capture, in which libraries choose their kernels


@dataclass
class PlainStep:
    """Forward, backward and update, one after the other."""

    net: nn.Module
    model: nn.Module
    """the network as it is called: wrapped for precision and several devices"""
    optimizer: Any
    source: Source
    objective: Objective
    training: Training
    average: Average | None
    fabric: Any

    def __call__(self, first: Tensor, second: Tensor) -> Tensor:
        """Learn from one batch; the loss before the update."""
        x, y = self.source.make(first, second)
        if self.training.channels_last and x.ndim == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        loss = self.objective(self.model, x, y)
        self.optimizer.zero_grad(set_to_none=True)
        share = self.source.share(first)
        self.fabric.backward(loss if share == 1 else loss * share)
        if self.training.clip is not None:  # a scaler's factor is taken out first; gradients with inf skip the update
            clip = self.training.clip
            self.fabric.clip_gradients(self.model, self.optimizer, max_norm=clip, error_if_nonfinite=False)
        self.optimizer.step()
        if self.average is not None:
            self.average.update()
        return loss.detach()


class GraphStep:
    """The same step captured as CUDA graphs, with gathering and augmentation inside.

    What changes from step to step lies in memory that the graph reads: row numbers, random numbers, the rate, masks.
    Each stage of a staged rule has a graph of its own. A batch of another size is learnt from plainly.
    """

    def __init__(self, plain: PlainStep, alternation: Alternation | None = None) -> None:
        self.plain, self.alternation = plain, alternation
        self._graphs: dict[int, tuple[torch.cuda.CUDAGraph, Tensor]] = {}
        self._inputs: tuple[Tensor, Tensor] | None = None

    def __call__(self, first: Tensor, second: Tensor) -> Tensor:
        """Learn from one batch; the loss before the update."""
        if self._inputs is None:
            self._inputs = first.clone(), second.clone()
        if first.shape != self._inputs[0].shape:
            return self.plain(first, second)
        stage = 0 if self.alternation is None else self.alternation.stage
        self._inputs[0].copy_(first)
        self._inputs[1].copy_(second)
        if stage not in self._graphs:
            self._graphs[stage] = self._capture(self._inputs)
        graph, loss = self._graphs[stage]
        graph.replay()
        return loss

    def _capture(self, inputs: tuple[Tensor, Tensor]) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        """Warm up, put everything back as it was, and record one step without taking it."""
        held, drawn = _Held(self.plain), torch.cuda.get_rng_state()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        try:
            with warnings.catch_warnings(), torch.cuda.stream(stream):
                # stepping the optimizer without the alternation is right here: nothing of it stays
                warnings.filterwarnings("ignore", message="the optimizer has stepped twice")
                for _ in range(WARM):
                    self.plain(*inputs)
            torch.cuda.current_stream().wait_stream(stream)
        finally:
            held.put_back()
        graph = torch.cuda.CUDAGraph()
        pool = next((known.pool() for known, _ in self._graphs.values()), None)
        with torch.cuda.graph(graph, pool=pool):
            loss = self.plain(*inputs)
        torch.cuda.set_rng_state(drawn)  # the first replay draws what the plain step would
        return graph, loss


class _Held:
    """Weights, buffers, the optimizer's state and the average, to be put back into the same memory."""

    def __init__(self, step: PlainStep) -> None:
        self.step = step
        self.kept = {id(tensor): tensor.detach().clone() for tensor in self._tensors()}

    def _tensors(self) -> list[Tensor]:
        own = [*self.step.net.parameters(), *self.step.net.buffers()]
        states = (value for state in self.step.optimizer.state.values() for value in state.values())
        average = [] if self.step.average is None else list(self.step.average.weights.values())
        return [*own, *(value for value in states if isinstance(value, Tensor)), *average]

    @torch.no_grad()
    def put_back(self) -> None:
        """Undo all steps since; an optimizer that had no state yet starts from zeros, as a fresh one does."""
        for tensor in self._tensors():
            before = self.kept.get(id(tensor))
            tensor.zero_() if before is None else tensor.copy_(before)
