"""Find the channel axis of a feature map: from the layers that made it, and by trial where sizes are equal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from torch import Tensor, nn
from torch.nn.modules import pooling
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd

from winze.observe.places.calls import Event

NORMS = (_NormBase, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm, nn.LocalResponseNorm)
POOLS = tuple(kind for name, kind in vars(pooling).items() if "Pool" in name and isinstance(kind, type))
CHANNELS_FIRST = (_ConvNd, _NormBase, nn.GroupNorm, *POOLS)
CHANNELS_LAST = (nn.Linear, nn.Embedding, nn.RNNBase, nn.MultiheadAttention)
TRIED = 6
"""Layers before a place that are tried, where sizes alone do not decide."""

Changed = Callable[[Event, int, int], Tensor | None]
"""The change at a place, per feature, when a number is added to one channel of a layer's output along its axis."""


def channel_axis(made: Event | None, shape: tuple[int, ...], before: Sequence[Event], changed: Changed) -> int | None:
    """The axis of a place's tensor with channels, or None where that cannot be known.

    `made` is the call that returned the tensor, `before` are the calls that had finished by then. The axis of a layer's
    own output is known. Else it is the one axis whose size equals a layer's number of channels; where several axes have
    that size, a trial decides: the axis on which a change of one channel stays in place, for all layers where this is
    conclusive.
    """
    while made is not None:
        axis = _own_axis(made, len(shape))
        if axis is not None:
            return axis
        if any(True for _ in made.module.children()) or not (is_activation(made.module) or _passes(made.module)):
            break
        earlier, source = before[: before.index(made)], made.inputs[:1]
        made = next((e for e in reversed(earlier) if source == tuple(i for i, _ in e.outputs[:1])), None)
    layers: list[tuple[Event, int]] = []
    for layer in reversed(before):
        axis = _own_axis(layer)
        if axis is not None:
            layers.append((layer, axis))
            if layer.outputs[0][1][1:] == shape[1:] and shape[1:].count(shape[axis]) == 1:
                return axis
    alike = [(layer, axis) for layer, axis in layers if len(layer.outputs[0][1]) == len(shape)]
    exact = any(layer.outputs[0][1][1:] == shape[1:] for layer, _ in alike)
    for layer, axis in [] if exact else alike:
        width = layer.outputs[0][1][axis]
        if shape[axis] == width and shape[1:].count(width) == 1:
            return axis
    for layer, axis in [] if exact else alike:  # a concatenation: the same positions, more channels
        other = layer.outputs[0][1]
        rest = [i for i in range(1, len(shape)) if i != axis]
        if all(other[i] == shape[i] != shape[axis] for i in rest):
            return axis
    told = {found for layer, axis in layers[:TRIED] if (found := _tried(layer, axis, shape, changed)) is not None}
    return told.pop() if len(told) == 1 else None


def _own_axis(call: Event, ndim: int | None = None) -> int | None:
    """The channel axis of a layer's output; None for modules that are no layers, or have another output."""
    if not call.outputs or (ndim is not None and len(call.outputs[0][1]) != ndim):
        return None
    module, kind, last = call.module, type(call.module).__name__, len(call.outputs[0][1]) - 1
    if last < 1:
        return None
    first = getattr(module, "data_format", None) == "channels_first"  # ConvNeXt's norms declare it
    if first or isinstance(module, CHANNELS_FIRST) or kind.endswith("Norm2d"):
        return 1
    flat = isinstance(module, nn.LayerNorm | nn.RMSNorm) or kind.endswith("RMSNorm")
    weight = getattr(module, "weight", None)
    if flat and isinstance(weight, Tensor) and weight.ndim != 1:
        return None
    return last if flat or isinstance(module, CHANNELS_LAST) or kind == "Conv1D" else None


def _tried(layer: Event, axis: int, shape: tuple[int, ...], changed: Changed) -> int | None:
    """The one axis on which a change of one channel of a layer stays at one index, while it spreads on the others."""
    for channel in _some(layer.outputs[0][1][axis]):
        found = changed(layer, axis, channel)
        if found is None or not bool(found.any()):
            continue
        reached = [int(found.movedim(i, 0).flatten(1).any(1).sum()) for i in range(found.ndim)]
        alone = [i + 1 for i, count in enumerate(reached) if count == 1 and shape[i + 1] > 1]
        return alone[0] if len(alone) == 1 else None
    return None


def _some(width: int) -> Iterator[int]:
    yield from dict.fromkeys((width // 2, 0, width - 1))


def is_activation(module: nn.Module) -> bool:
    """Whether it is an activation, of torch or of any module named so."""
    return type(module).__module__.startswith("torch.nn.modules.activation") or "act" in type(module).__module__


def _passes(module: nn.Module) -> bool:
    return isinstance(module, nn.Identity | nn.Dropout)
