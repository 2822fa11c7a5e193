"""The memory format of images: as they come, or channels-last where convolutions are faster."""

from __future__ import annotations

import platform
from contextlib import suppress
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from winze.observe.places.chosen_calls import PlaceNames
from winze.observe.places.find_places import Spots, find_spots
from winze.observe.places.pooling import Pool

T = TypeVar("T")


def is_quicker_by_pixel(net: nn.Module, device: torch.device, pool: Pool) -> bool:
    """Whether this network is known to be faster in channels-last memory format.

    On NVIDIA GPUs and x86 processors most convolutions are, in any memory format of the weights (docs/scan.md). With
    `pool="flatten"` feature maps would have to be permuted back at every place, so the format is left alone. So it is
    for transformers that only cut their images into patches: nothing is gained, and a copy of the images would stay in
    memory during their forward.
    """
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    known = device.type == "cuda" or (device.type == "cpu" and x86)
    return (
        known
        and pool != "flatten"
        and any(isinstance(module, nn.Conv2d) and not _cuts_patches(module) for module in net.modules())
    )


def _cuts_patches(layer: nn.Conv2d) -> bool:
    return layer.kernel_size == layer.stride != (1, 1)


def by_pixel(arguments: T) -> T:
    """The same arguments, with batches of images in channels-last memory format."""

    def turned(leaf: Any) -> Any:
        images = isinstance(leaf, Tensor) and leaf.ndim == 4 and leaf.is_floating_point()
        return leaf.contiguous(memory_format=torch.channels_last) if images else leaf

    found: T = pytree.tree_map(turned, arguments)
    return found


def spots_and_order(
    net: nn.Module, example: Any, device: torch.device, pool: Pool, places: PlaceNames, layout: str | None = None
) -> tuple[Spots, bool]:
    """The places of a network, and whether to use channels-last memory format, which some forwards do not accept."""
    if is_quicker_by_pixel(net, device, pool):
        with suppress(ValueError, RuntimeError):
            return find_spots(net, by_pixel(example), places, layout), True
    return find_spots(net, example, places, layout), False
