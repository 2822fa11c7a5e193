"""Layers as papers number them: the map from places to layer numbers, and layers of one network swapped into
another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from winze.shape import Junction

WITHOUT, WITH = "without projections", "with projections"
NamedTensors = Mapping[str, Tensor]


def countings(net: nn.Module, places: Sequence[str]) -> dict[str, list[int]]:
    """Each place's number of convolutions and linear layers so far, without projections on shortcuts and with them.

    The first place of a plain network has number 1; block k of a ResNet with one convolution as its stem has 2k + 1.
    Where no shortcut has a projection, both numberings agree.
    """
    order = list(net.named_modules())
    aside = projections(net)
    found: dict[str, list[int]] = {WITHOUT: [], WITH: []}
    for place in places:
        end = _end(order, place)
        layers = [module for _, module in order[: end + 1] if isinstance(module, _ConvNd | nn.Linear)]
        found[WITH].append(len(layers))
        found[WITHOUT].append(sum(module not in aside for module in layers))
    return found if found[WITH] != found[WITHOUT] else {WITHOUT: found[WITHOUT]}


def projections(net: nn.Module) -> set[nn.Module]:
    """All modules that lie on a shortcut; timm and torchvision call theirs `downsample`."""
    own = [one.shortcut for one in net.modules() if isinstance(one, Junction) and one.shortcut]
    others = [module for name, module in net.named_modules() if name.endswith(".downsample")]
    return {module for one in (*own, *others) for module in one.modules()}


def weight_layers(net: nn.Module) -> list[Any]:
    """Every convolution and linear layer but the projections, in the order in which they were made."""
    aside = projections(net)
    return [one for one in net.modules() if isinstance(one, _ConvNd | nn.Linear) and one not in aside]


def layer_count(net: nn.Module) -> int:
    """All convolutions and linear layers but the projections: 34 of a ResNet-34, 19 of a VGG-19."""
    return len(weight_layers(net))


def _end(order: Sequence[tuple[str, nn.Module]], place: str) -> int:
    """The last module at or inside a place; the second call of a module, `relu:2`, stands where the module does."""
    name = place.split(":")[0]
    inside = [spot for spot, (one, _) in enumerate(order) if one == name or one.startswith(f"{name}.")]
    if not inside:
        raise ValueError(f"the network has no module {name!r}")
    return inside[-1]


def weights_of(net: nn.Module) -> dict[str, Tensor]:
    """A copy of all weights of a network, and of the statistics of its norms."""
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


def crossed(front: NamedTensors, back: NamedTensors, layers: Mapping[str, int], upto: int) -> dict[str, Tensor]:
    """The weights of `front` in layers 1 to `upto` and those of `back` in all others.

        M(x) = front^{1:x} + back^{x+1:n},   M(0) = back,   M(n) = front

    Statistics of norms go with their layer.
    """
    if not front.keys() == back.keys() == layers.keys():
        raise ValueError("the two networks do not have the same weights, so their layers cannot be swapped")
    return {name: (front if layers[name] <= upto else back)[name] for name in front}
