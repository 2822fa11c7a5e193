"""What a program's plans are made for: how a call looks, without the values in its tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn
from torch.utils import _pytree as pytree

from winze.shape.capture.trace import hooked
from winze.shape.capture.traced import PLAIN
from winze.shape.capture.watched import OF_EVERY_MODULE

Key = tuple[Any, ...]


def signature(holder: nn.Module, inlined: tuple[nn.Module, ...], args: Any, kwargs: Any) -> tuple[Key, list[Any]]:
    """What a plan is made for (mode, plain attributes and arguments, kinds of tensors), and the tensors of a call."""
    told = _told(holder) if not inlined else (*_told(holder), *((m.training, hooked(m), _told(m)) for m in inlined))
    if not kwargs and all(type(a) is Tensor for a in args):
        device = args[0].device if args else None
        return (holder.training, told, device, _doubles(args), *(a.ndim for a in args)), list(args)
    leaves, spec = pytree.tree_flatten((args, kwargs))
    tensors = [leaf for leaf in leaves if not isinstance(leaf, PLAIN)]
    device = next((t.device for t in tensors if isinstance(t, Tensor)), None)
    kinds = tuple(leaf if isinstance(leaf, PLAIN) else ("*", getattr(leaf, "ndim", type(leaf))) for leaf in leaves)
    return (holder.training, told, device, _doubles(tensors), spec, kinds), tensors


def _doubles(tensors: Sequence[Any]) -> tuple[Any, ...]:
    """Which arguments are the same tensor as an earlier one."""
    return tuple([(j, i) for i, one in enumerate(tensors) for j in range(i) if one is tensors[j]])


def _told(module: nn.Module) -> tuple[Any, ...]:
    """Plain attributes of a module, kinds of others, and how many modules its lists have, over which it may loop."""
    plainly = tuple(
        (k, v if isinstance(v, PLAIN) else type(v)) for k, v in vars(module).items() if k not in OF_EVERY_MODULE
    )
    lists = [(k, len(v._modules)) for k, v in module._modules.items() if isinstance(v, nn.ModuleList | nn.ModuleDict)]
    return (*plainly, *lists)


def with_shapes(key: Key, tensors: list[Any]) -> Key:
    """The key of a plan that holds for these shapes and types only."""
    return (*key, tuple((t.shape, t.dtype) if isinstance(t, Tensor) else type(t) for t in tensors))
