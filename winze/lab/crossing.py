"""Layers of one network in the place of another's: what swapping, substituting and resetting layers have in common."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from winze.lab.counting import projections

Weights = Mapping[str, Tensor]


def weights_of(net: nn.Module) -> dict[str, Tensor]:
    """A copy of all that a network has learnt, statistics of norms too."""
    return {name: value.detach().clone() for name, value in net.state_dict().items()}


def layer_of_each(net: nn.Module) -> dict[str, int]:
    """The number, from 1, of the layer that each weight belongs to: a convolution or linear layer and what follows it.

    A norm belongs to the layer before it, a projection to the last layer of the branch beside it.
    """
    aside, found, number = projections(net), {}, 0
    for name, module in net.named_modules():
        number += isinstance(module, _ConvNd | nn.Linear) and module not in aside
        for own, _ in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)):
            found[f"{name}.{own}" if name else own] = max(number, 1)
    return {name: found[name] for name in net.state_dict()}


def crossed(front: Weights, back: Weights, layers: Mapping[str, int], upto: int) -> dict[str, Tensor]:
    """The weights of `front` in layers 1 to `upto` and those of `back` in all others.

        M(x) = front^{1:x} + back^{x+1:n},   M(0) = back,   M(n) = front

    Statistics of norms go with their layer.
    """
    if not front.keys() == back.keys() == layers.keys():
        raise ValueError(
            "the two networks do not have the same weights, so their layers cannot stand in for each other"
        )
    return {name: (front if layers[name] <= upto else back)[name] for name in front}
