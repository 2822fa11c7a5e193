"""Tensors in trees of arguments and results: their shapes, versions, and whether one is a sum of others."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def shape_of(tensor: Tensor) -> tuple[int, ...]:
    """The shape of a tensor; a nested one has a length of -1 along axes where its parts differ."""
    if tensor.is_nested and tensor.layout is torch.strided:
        return tensor.size(0), *(-1,) * (tensor.dim() - 1)
    return tuple(tensor.shape)


def tensors_in(tree: Any) -> list[Tensor]:
    """The tensors in arguments or results, in order; objects are looked into one level deep."""
    found: list[Tensor] = []
    waiting, depth = [(tree, 0)], 0
    while waiting:
        item, depth = waiting.pop()
        if isinstance(item, Tensor):
            found.append(item)
        elif isinstance(item, dict):
            waiting.extend((v, depth) for v in reversed(list(item.values())))
        elif isinstance(item, list | tuple):
            waiting.extend((v, depth) for v in reversed(item))
        elif depth == 0 and type(item).__module__.partition(".")[0] not in ("builtins", "torch", "numpy"):
            held = getattr(item, "__dict__", None)
            if isinstance(held, dict) and not isinstance(item, nn.Module | type):
                waiting.extend((v, 1) for v in reversed(list(held.values())))
    return found


def version_of(tensor: Tensor) -> int:
    """How often a tensor was written to; an inference tensor does not tell."""
    return -1 if tensor.is_inference() else tensor._version


def is_blend(made: Tensor, given: list[Tensor]) -> bool:
    """Whether a tensor is a weighted sum of at least two others, as far as their numbers tell."""
    if len(given) < 2 or made.numel() < 4 * len(given) or not all(t.is_floating_point() for t in (made, *given)):
        return False
    columns = torch.stack([t.detach().flatten()[:4096].double().cpu() for t in given], 1)
    target = made.detach().flatten()[:4096].double().cpu()
    factors = torch.linalg.lstsq(columns, target[:, None], driver="gelsd").solution[:, 0]
    close = torch.allclose(columns @ factors, target, rtol=1e-4, atol=1e-5 * float(target.abs().max()))
    return close and int((factors.abs() > 1e-3).sum()) > 1
