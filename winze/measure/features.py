"""The form every measure starts from: samples x features, finite, float64, centred.

Float64 keeps small eigenvalues, within-class scatter and unbiased HSIC right, and neither autocast nor TF32 changes it
when a measure runs inside a caller's forward pass. Only products over a batch fall back to float32 (`product`), on GPUs
that have few float64 units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

import torch
from jaxtyping import Bool, Float, Float64, Int64, Integer, Num
from torch import Tensor

P = ParamSpec("P")
R = TypeVar("R")
Features = Num[Tensor, "_sample ..."]  # one sample a row, whatever shape a sample has
Labels = Integer[Tensor, " _sample"]
FAST = {(6, 0), (7, 0), (8, 0), (9, 0), (10, 0)}
"""Compute capabilities of NVIDIA's GPUs with full float64 units; others have 1/32 to 1/64 of their float32 speed."""
SMALL = 1024
"""Rows or columns of a matrix up to which one thread decomposes it."""


def detached(function: Callable[P, R]) -> Callable[P, R]:
    """Run without a graph, and with plain tensors even where the caller is in inference mode."""

    @wraps(function)
    def quiet(*args: P.args, **kwargs: P.kwargs) -> R:
        with torch.inference_mode(False), torch.no_grad():
            return function(*args, **kwargs)

    return quiet


def flat(features: Features, name: str = "features") -> Float[Tensor, "sample feature"]:
    """See features of any shape as samples x features."""
    if features.dim() < 2 or not features.is_floating_point():
        raise ValueError(
            f"{name}: expected a floating tensor of samples x features, got {tuple(features.shape)} {features.dtype}"
        )
    if features[0:1].numel() == 0 and len(features) > 0:
        raise ValueError(f"{name}: no features in {tuple(features.shape)}")
    return features.detach().flatten(1)


def check_finite(features: Float[Tensor, "sample feature"], name: str = "features") -> None:
    """Raise where a sample holds NaN or inf, and say how many do."""
    broken = int((~torch.isfinite(features)).any(1).sum())
    if broken:
        raise ValueError(f"{name}: {broken} of {len(features)} samples hold NaN or inf")


def check_labels(labels: Tensor, samples: int, classes: int, name: str = "features") -> Int64[Tensor, " sample"]:
    """Give labels as int64 after seeing that there is one a sample, from 0 to classes - 1."""
    if labels.shape != (samples,) or labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise ValueError(f"{name}: expected {samples} integer labels, got {tuple(labels.shape)} {labels.dtype}")
    if samples and not (int(labels.min()) >= 0 and int(labels.max()) < classes):
        raise ValueError(
            f"{name}: labels run from {int(labels.min())} to {int(labels.max())}, expected 0 to {classes - 1}"
        )
    return labels.detach().long()


def sent(tensor: Tensor, device: torch.device | None) -> Tensor:
    """Give a tensor on a device, or itself; a GPU gets it without anyone waiting for what the GPU is doing."""
    if device is not None and device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


@lru_cache(maxsize=8)
def is_slow_in_float64(device: torch.device) -> bool:
    """Tell whether float64 products on a device take many times as long as float32 products."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) not in FAST


def product(
    a: Float64[Tensor, "*place row inner"], b: Float64[Tensor, "*place inner column"]
) -> Float64[Tensor, "*place row column"]:
    """Give a @ b, the work of a batch: in float32 where float64 is slow, and then added up in float64 by the caller.

    Both matrices are scaled to entries of at most 1 first, so that no square leaves the range of float32. The error is
    about 1e-7 of |a| |b|: centre features before. TF32 and autocast are off meanwhile.
    """
    if not is_slow_in_float64(a.device):
        return a @ b
    sizes = [each.abs().amax((-2, -1), keepdim=True) for each in (a, b)]
    sizes = [torch.where(size > 0, size, 1.0) for size in sizes]
    rows, columns = ((each / size).float() for each, size in zip((a, b), sizes, strict=True))
    before = torch.get_float32_matmul_precision()
    try:
        if before != "highest":
            torch.set_float32_matmul_precision("highest")
        with torch.autocast(a.device.type, enabled=False):
            return (rows @ columns).double() * (sizes[0] * sizes[1])
    finally:
        if before != "highest":
            torch.set_float32_matmul_precision(before)


def rounding(dtype: torch.dtype) -> float:
    """How far apart, relative to their size, equal numbers may come out of float32 or float64 arithmetic.

    Narrow types give 0: a bfloat16 tensor may well differ in its last bit only and still mean it.
    """
    return 4 * torch.finfo(dtype).eps if dtype in (torch.float32, torch.float64) else 0.0


def is_constant(
    variance: Float64[Tensor, "*place"], square_mean: Float64[Tensor, "*place"], relative: float
) -> Bool[Tensor, "*place"]:
    """Tell whether the total variance is no more than rounding of the mean."""
    return variance <= relative**2 * square_mean


def eigen(
    matrices: Float64[Tensor, "place feature feature"], names: Sequence[str], vectors: bool = True
) -> tuple[Float64[Tensor, "place feature"], Tensor]:
    """Eigenvalues, smallest first, and eigenvectors where asked; by singular values where the routine fails."""
    finite = torch.isfinite(matrices).flatten(1).all(1).tolist()
    if not all(finite):
        raise ValueError(f"{names[finite.index(False)]}: features are too large for their squares to be numbers")
    with few_threads(matrices):
        try:
            return torch.linalg.eigh(matrices) if vectors else (torch.linalg.eigvalsh(matrices), matrices)
        except torch.linalg.LinAlgError:  # type: ignore[attr-defined,unused-ignore]  # did not converge: very low ranks
            left, sizes, _ = torch.linalg.svd(matrices)
            return sizes.flip(1), left.flip(2)


@contextmanager
def few_threads(matrices: Tensor) -> Iterator[None]:
    """While open, torch uses one thread on the CPU where matrices are small.

    On two cores that others use too, the eigenvalues of 256 x 256 took 18 s with two threads and 0.05 s with one.
    """
    threads = torch.get_num_threads()
    small = matrices.device.type == "cpu" and min(matrices.shape[-2:], default=0) <= SMALL
    if not small or threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@detached
def centred(features: Features, least: int = 2, name: str = "features") -> Float64[Tensor, "sample feature"]:
    """Subtract each feature's mean, in float64; constant features become exact zeros.

    The first sample goes off first: what is left has the size of the spread, so that its mean loses no digits,
    and equal samples leave exactly nothing.
    """
    rows = flat(features, name)
    if len(rows) < least:
        raise ValueError(f"{name}: needs at least {least} samples, got {len(rows)}")
    check_finite(rows, name)
    first = rows[0].double()
    spread = rows.double() - first
    spread -= spread.mean(0)
    still = is_constant(spread.square().sum() / len(rows), first.square().sum(), rounding(rows.dtype))
    return spread.masked_fill_(still, 0.0)
