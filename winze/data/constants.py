"""Fixed numbers as tensors, made once a device."""

from __future__ import annotations

import torch
from jaxtyping import Float32
from torch import Tensor

_kept: dict[tuple[tuple[float, ...], torch.device], Tensor] = {}


def constant(values: tuple[float, ...], device: torch.device) -> Float32[Tensor, " value"]:
    """Numbers as a vector on a device.

    A copy from the host has no place in a captured CUDA graph, so the vector is made on the device and kept. One that
    is made while a graph is captured belongs to that graph, and is not kept.
    """
    if torch.compiler.is_compiling():
        return torch.tensor(values, device=device)
    found = _kept.get((values, device))
    if found is not None:
        return found
    with torch.inference_mode(False):  # what it makes could not enter a backward pass
        made = torch.stack([torch.full((), value, dtype=torch.float32, device=device) for value in values])
    captured = device.type == "cuda" and torch.cuda.is_current_stream_capturing()
    if not captured and type(made) is Tensor:  # tensors of tracers are of other types
        _kept[values, device] = made
    return made
