"""Looks at a network while it learns: how large its logits are, and whether its layers read what they are fed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from winze.lab.counting import weight_layers
from winze.measure import Moments, alignment_of, sample_norm
from winze.observe.places import find_spots
from winze.readings import Readings, Row
from winze.recipes.temperature.maps import drawn

Layer = nn.Conv2d | nn.Linear


class Looks:
    """An onlooker of a training, for the norm of the logits each `every` steps, and alignment at the steps `at`.

    Alignment compares the leading directions that a layer reads with those that its input has most of (see
    `winze.measure.alignment`); a convolution reads channels, and every position of its input is a sample. Maps are
    kept of four layers, from the second to the last hidden one.
    """

    def __init__(
        self, net: nn.Module, samples: Tensor, data: str, every: int, at: Sequence[int], top: int = 15
    ) -> None:
        self.samples, self.data, self.every, self.at, self.top = samples, data, every, set(at), top
        self.readings = Readings()
        spots = find_spots(net, samples[:2], "layers")
        layers = weight_layers(net)
        if len(spots) != len(layers):
            raise ValueError(
                f"{type(net).__name__} has {len(layers)} layers and {len(spots)} places: one each is wanted"
            )
        self.places = [spot.place for spot in spots]
        self.drawn = drawn(len(layers) - 2)  # the output has too few directions for a map

    @torch.no_grad()
    def __call__(self, net: nn.Module, step: int) -> None:
        """Look at the network where it is time."""
        if step % self.every and step not in self.at:
            return
        training = net.training
        net.eval()
        try:
            logits = net(self.samples)
            if not torch.isfinite(logits).all():  # the training itself will say that it has diverged
                return
            if step in self.at:
                self._align(net, step)
        finally:
            net.train(training)
        norm = sample_norm(logits)
        self.readings.add("logits_norm", norm, data=self.data, split="test", step=step, n=len(self.samples))

    def state_dict(self) -> dict[str, Any]:
        """What was seen so far, as a checkpoint keeps it."""
        arrays = {name: torch.from_numpy(array) for name, array in self.readings.arrays.items()}
        return {"rows": [list(astuple(row)) for row in self.readings.rows], "arrays": arrays}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.readings.rows[:] = [Row(*row) for row in state["rows"]]
        self.readings.arrays = {name: array.numpy() for name, array in state["arrays"].items()}

    def _align(self, net: nn.Module, step: int) -> None:
        layers = weight_layers(net)
        fed = _inputs(net, layers, self.samples)
        maps = []
        for number, (place, layer) in enumerate(zip(self.places, layers, strict=True)):
            if number == 0 or number == len(layers) - 1:  # pixels are no features, and logits have few directions
                continue
            found = alignment_of(_reads(layer, 4 * self.top), fed[number], self.top)
            where: dict[str, Any] = {"place": place, "data": self.data, "split": "test", "step": step}
            self.readings.add("alignment", found.diagonal, note=found.diagonal.note, **where)
            self.readings.add("subspace_alignment", found.subspace, note=found.subspace.note, **where)
            if number in self.drawn:
                whole = torch.zeros(self.top, self.top, dtype=torch.float64)
                whole[: len(found.matrix), : len(found.matrix)] = found.matrix
                maps.append((255 * whole).round().to(torch.uint8).numpy())
        if step:  # fresh weights are aligned with nothing
            self.readings.arrays[f"alignment/{step}"] = np.stack(maps)


def _reads(layer: Layer, most: int) -> Tensor:
    """The `most` strongest directions that a layer reads, times their singular values, [direction, input].

    Of a convolution each position of its kernel reads the channels. Their singular vectors are those of all rows, and
    a GPU finds them far sooner by the eigenvectors of WᵀW.
    """
    weight = layer.weight.detach().double()
    rows = weight if weight.dim() == 2 else weight.permute(0, 2, 3, 1).flatten(0, 2)
    energy, directions = torch.linalg.eigh(rows.mT @ rows)
    strongest = (directions * energy.clamp(min=0).sqrt()).flip(1)
    return strongest.mT[: min(most, *rows.shape)]


def _inputs(net: nn.Module, layers: Sequence[Layer], samples: Tensor) -> list[Moments]:
    """The moments of what each layer is fed, channels as features, a few samples at a time."""
    gathered: dict[int, Moments] = {}

    def hook(number: int) -> Any:
        def take(module: nn.Module, args: tuple[Tensor, ...]) -> None:
            rows = args[0] if args[0].dim() == 2 else args[0].movedim(1, -1).flatten(0, -2)
            gathered.setdefault(number, Moments(rows.shape[1])).update(rows.float())

        return take

    handles = [layer.register_forward_pre_hook(hook(number)) for number, layer in enumerate(layers)]
    try:
        for part in samples.split(64):
            net(part)
    finally:
        for handle in handles:
            handle.remove()
    return [gathered[number] for number in range(len(layers))]
