"""Gates that a rule learns: a pointwise layer over the channels of a junction's stream."""

from __future__ import annotations

from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd

from winze.shape.find import Discovery, branch_modules
from winze.shape.junction import Junction
from winze.shape.live.foreign_junction import ForeignJunction
from winze.shape.rule import Pointwise, Rule


def branch_of(found: Discovery, junction: Junction) -> list[nn.Module]:
    """The modules that a junction's branch calls."""
    return branch_modules(found.sites[junction]) if junction in found.sites else [junction.branch]


def gate_of(found: Discovery, junction: Junction, rule: Rule) -> nn.Module | None:
    """The gate that a rule asks for at a junction, on the device of its branch."""
    if type(rule).gate is Rule.gate:
        return None
    branch = branch_of(found, junction)
    shape = found.shapes[junction]
    axis = _channel_axis(found, junction)
    if axis is None:  # a branch without layers, such as a pool: use the axis of the junctions around it
        axes = (_channel_axis(found, j) for j in found.junctions if len(found.shapes[j]) == len(shape))
        axis = next((a for a in axes if a is not None), None)
    if axis is None:
        raise ValueError(f"junction {junction.place.name!r}: no layer tells which axis of {shape} holds channels")
    channels_first: dict[int, Pointwise] = {3: nn.Conv1d, 4: nn.Conv2d, 5: nn.Conv3d}
    pointwise = nn.Linear if axis == len(shape) - 1 else channels_first[len(shape)]
    gate = rule.gate(shape[axis], pointwise)
    like = next((p for module in branch for p in module.parameters()), next(found.net.parameters(), None))
    return gate.to(like.device, like.dtype) if gate is not None and like is not None else gate


def _channel_axis(found: Discovery, junction: Junction) -> int | None:
    """From the first layer of the branch whose width fits: convolutions and their norms lie channels first.

    A layer that gives another number of axes (a linear layer behind a pool) tells nothing about the stream's.
    """
    shape = found.shapes[junction]
    calls = found.sites[junction].call.calls() if junction in found.sites else ()
    axes = {call.module: len(call.outputs[0].shape) for call in calls if call.outputs}
    for layer in (m for module in branch_of(found, junction) for m in module.modules()):
        if axes.get(layer, len(shape)) != len(shape):
            continue
        first = isinstance(layer, _ConvNd | _NormBase | nn.GroupNorm) or type(layer).__name__.endswith(("2d", "3d"))
        last = isinstance(layer, nn.Linear | nn.LayerNorm | nn.RMSNorm | nn.MultiheadAttention)
        if not (first or last):
            continue
        widths = {size for p in layer.parameters(recurse=False) for size in p.shape[:2]}
        widths |= {getattr(layer, name, 0) for name in ("in_channels", "num_features", "num_channels", "embed_dim")}
        if first and len(shape) > 2 and shape[1] in widths:
            return 1
        if last and not first and shape[-1] in widths:
            return len(shape) - 1
        if first and len(shape) == 2 and shape[1] in widths:
            return 1
    return None


def hang(junction: Junction, gate: nn.Module | None) -> None:
    """Give a junction its gate, or take the one away that it had."""
    if not isinstance(junction, ForeignJunction):
        junction.gate = gate
    elif gate is not None:
        junction.holder.add_module(junction.gate_name, gate)
    elif isinstance(junction.holder._modules.get(junction.gate_name), nn.Module) and junction.gated:
        junction.holder._modules.pop(junction.gate_name)
    if isinstance(junction, ForeignJunction):
        junction.gated = gate is not None
