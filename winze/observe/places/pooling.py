"""Pool a module's output to one row of features per sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional as F

Pool = str | int
POOLS = ("mean", "flatten", "token")
UNORDERED = "unordered"
"""Flattened, with the features in memory order: nothing is copied, and CKA does not depend on the order."""
LAYOUTS = {"BC": 1, "BCL": 1, "BLC": 2, "BCHW": 1, "BHWC": 3, "BCTHW": 1, "BTHWC": 4}


@dataclass(frozen=True)
class Layout:
    """The layout of a tensor: its channel axis, and its number of rows per sample."""

    channels: int
    scale: int = 1


def check_pool(pool: Pool, shapes: Mapping[str, tuple[int, ...]] | None = None) -> None:
    """Raise unless it is a pooling; with the places' shapes, unless it changes one of them."""
    grid = isinstance(pool, int) and not isinstance(pool, bool) and pool >= 1
    if not grid and pool not in POOLS:
        raise ValueError(f"pool must be one of {', '.join(map(repr, POOLS))} or a grid size from 1, got {pool!r}")
    if grid and shapes and all(len(shape) == 2 for shape in shapes.values()):
        name, shape = next(iter(shapes.items()))
        raise ValueError(f"{name}: a grid of {pool} x {pool} needs a feature map, got {shape}")


def pooled(output: Tensor, layout: Layout, pool: Pool, name: str = "features") -> Float[Tensor, "sample feature"]:
    """One row per sample: channels averaged over positions or tokens, or over a grid, the class token, or all features.
    A single position is the same on every grid.
    """
    if output.is_complex():
        raise ValueError(f"{name}: the features are complex numbers, which no measure takes; leave it out with places=")
    if pool == UNORDERED:
        by_pixel = output.ndim == 4 and output.is_contiguous(memory_format=torch.channels_last)
        return (output.movedim(1, -1) if by_pixel else output).unflatten(0, (-1, layout.scale)).flatten(1)
    rows = output.unflatten(0, (-1, layout.scale)) if layout.scale > 1 else output[:, None]
    rows = rows.movedim(layout.channels + 1, 2)  # sample, window, channel, positions
    if pool == "flatten":
        return rows.flatten(1)
    if pool == "token":
        if rows.ndim != 4 or layout.scale > 1:
            raise ValueError(f'{name}: pool="token" needs [sample, token, channel], got {tuple(output.shape)}')
        return rows[:, 0, :, 0]
    if pool == "mean":
        flat = rows.flatten(3) if rows.ndim > 3 else rows[..., None]
        return flat.mean((1, 3), dtype=torch.promote_types(flat.dtype, torch.float32))
    if rows.ndim == 3 and layout.scale == 1:  # one position, for example after the last pool of a VGG
        return rows[:, 0]
    if rows.ndim != 5:
        raise ValueError(f"{name}: a grid of {pool} x {pool} needs a feature map, got {tuple(output.shape)}")
    size = int(pool)
    grid = F.adaptive_avg_pool2d(rows.flatten(0, 1).float(), (min(size, rows.shape[3]), min(size, rows.shape[4])))
    return grid.unflatten(0, (len(rows), -1)).flatten(1)


def sampled(features: Float[Tensor, "sample feature"], most: int, seed: int) -> Float[Tensor, "sample kept"]:
    """At most `most` features, the same random ones each time."""
    width = features.shape[1]
    if width <= most:
        return features
    return features.index_select(1, kept_features(width, most, seed, features.device))


@lru_cache(maxsize=128)
def kept_features(width: int, most: int, seed: int, device: torch.device) -> Int64[Tensor, " kept"]:
    """Which features of a wide place are kept, in order."""
    kept = torch.randperm(width, generator=torch.Generator().manual_seed(seed))[:most].sort().values
    return kept.to(device)
