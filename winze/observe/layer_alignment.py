"""Alignment of a network's layers with the large directions of their inputs, now and during training."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import astuple
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from winze.measure import Moments, alignment_of, sample_norm
from winze.measure.alignment import Alignment, stored_layers
from winze.modes import unchanged
from winze.observe.places.find_places import find_spots
from winze.readings import Readings, Row

Layer = nn.Conv2d | nn.Linear
AT_ONCE = 64  # samples


@torch.no_grad()
def layer_alignment(net: nn.Module, layers: Sequence[Layer], samples: Tensor, top: int = 15) -> list[Alignment]:
    """The alignment of each layer with its input, as `winze.measure.alignment` has it, in the network's present mode.

    The features of a convolution are channels: each position of its kernel adds rows to the weight, each position of
    its input is a sample.
    """
    inputs = _inputs(net, layers, samples)
    return [alignment_of(_reads(one, 4 * top), moments, top) for one, moments in zip(layers, inputs, strict=True)]


class AlignmentWatch:
    """A follower of training: the norm of the logits every `every` steps, alignment at the steps `at`, from step 0 on.

    `layers` are the convolutions and linear layers of the main stream, from the first to the output. The alignment
    matrices of four of them, from the second to the last hidden one, are stored as `alignment/<step>`, in 255ths.
    """

    def __init__(
        self,
        net: nn.Module,
        layers: Sequence[Layer],
        samples: Tensor,
        every: int,
        at: Collection[int] = (0,),
        *,
        name: str = "data",
        top: int = 15,
    ) -> None:
        self.layers, self.samples, self.every, self.at, self.name, self.top = layers, samples, every, at, name, top
        self.readings = Readings()
        self.places = [spot.place for spot in find_spots(net, samples[:2], "layers")]
        if len(self.places) != len(layers):
            kind = type(net).__name__
            raise ValueError(f"{kind} has {len(self.places)} places, not one for each of {len(layers)} layers")
        self.after_step(net, 0)

    @torch.no_grad()
    def after_step(self, net: nn.Module, step: int) -> None:
        """Measure the network if this step is due."""
        if step % self.every and step not in self.at:
            return
        with unchanged(net, training=False):
            logits = net(self.samples)
            if not torch.isfinite(logits).all():  # training itself reports that it diverged
                return
            if step in self.at:
                self._align(net, step)
        n = len(self.samples)
        self.readings.add("logits_norm", sample_norm(logits), data=self.name, split="test", step=step, n=n)

    def state_dict(self) -> dict[str, Any]:
        """The readings so far, for a checkpoint."""
        arrays = {name: torch.from_numpy(array) for name, array in self.readings.arrays.items()}
        return {"rows": [list(astuple(row)) for row in self.readings.rows], "arrays": arrays}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a checkpoint."""
        self.readings.rows[:] = [Row(*row) for row in state["rows"]]
        self.readings.arrays = {name: array.numpy() for name, array in state["arrays"].items()}

    def _align(self, net: nn.Module, step: int) -> None:
        inside = slice(1, -1)  # pixels are not features, and logits have few directions
        aligned = layer_alignment(net, self.layers[inside], self.samples, self.top)
        for place, found in zip(self.places[inside], aligned, strict=True):
            for measure, value in (("alignment", found.diagonal), ("subspace_alignment", found.subspace)):
                where: dict[str, Any] = {"place": place, "data": self.name, "split": "test", "step": step}
                self.readings.add(measure, value, note=value.note, **where)
        if step:  # initial weights are aligned with nothing
            whole = [pad(one.matrix, (0, self.top - len(one.matrix)) * 2) for one in aligned]
            matrices = torch.stack([whole[index - 1] for index in stored_layers(len(aligned))])
            self.readings.arrays[f"alignment/{step}"] = (255 * matrices).round().to(torch.uint8).numpy()


def _reads(layer: Layer, most: int) -> Tensor:
    """The `most` largest right singular vectors of a layer, times their singular values, [direction, input].

    They are the eigenvectors of WᵀW, which a GPU computes much faster than singular vectors.
    """
    weight = layer.weight.detach().double()
    rows = weight if weight.dim() == 2 else weight.permute(0, 2, 3, 1).flatten(0, 2)
    energy, directions = torch.linalg.eigh(rows.mT @ rows)
    return (directions * energy.clamp(min=0).sqrt()).flip(1).mT[: min(most, *rows.shape)]


def _inputs(net: nn.Module, layers: Sequence[Layer], samples: Tensor) -> list[Moments]:
    """The moments of each layer's input, channels as features, a few samples at a time."""
    gathered: dict[int, Moments] = {}

    def hook(number: int) -> Callable[..., None]:
        def take(module: nn.Module, args: tuple[Tensor, ...]) -> None:
            rows = args[0] if args[0].dim() == 2 else args[0].movedim(1, -1).flatten(0, -2)
            gathered.setdefault(number, Moments(rows.shape[1])).update(rows.float())

        return take

    handles = [layer.register_forward_pre_hook(hook(number)) for number, layer in enumerate(layers)]
    try:
        for part in samples.split(AT_ONCE):
            net(part)
    finally:
        for handle in handles:
            handle.remove()
    return [gathered[number] for number in range(len(layers))]
