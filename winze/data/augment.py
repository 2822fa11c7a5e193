"""Augmentation of whole batches where they lie, from uniform numbers that are given.

    augment = Augment((PadCrop(4), Flip()))
    x = augment(images, torch.rand(len(images), augment.draws(images.shape[1:])))

Shapes are fixed and nothing is decided on the host, so that a step can be captured as a CUDA graph. Bytes stay bytes
as long as pixels only move; what computes with them takes them on the scale 0-1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from winze.data.data_error import DataError
from winze.data.image_tensors import grey, unit

Uniform = Float[Tensor, "n draw"]
BatchLabels = Int64[Tensor, " n"]


@dataclass(frozen=True)
class Augmentation:
    """One change to a batch of images: `apply(images, u)` with `draws(shape)` uniform numbers per sample in [0, 1).

    A change that depends on the class or on the sample itself receives their `labels` and their `rows` in the data.
    """

    def draws(self, shape: tuple[int, ...]) -> int:
        """How many uniform numbers one sample of this shape (channel, height, width) wants."""
        raise NotImplementedError

    def apply(
        self, images: Tensor, u: Uniform, labels: BatchLabels | None = None, rows: BatchLabels | None = None
    ) -> Tensor:
        """The changed batch; `u` has the right shape."""
        raise NotImplementedError

    def __call__(
        self, images: Tensor, u: Uniform, labels: BatchLabels | None = None, rows: BatchLabels | None = None
    ) -> Tensor:
        """The changed batch, of the same shape."""
        name, wanted = type(self).__name__, (len(images), self.draws(tuple(images.shape[1:])))
        if images.ndim != 4:
            raise DataError(f"{name} takes images [n, c, h, w], not {list(images.shape)}")
        if tuple(u.shape) != wanted:
            raise DataError(f"{name} needs uniform numbers {list(wanted)}, got {list(u.shape)}")
        return self.apply(images, u, labels, rows)


@dataclass(frozen=True)
class Augment(Augmentation):
    """Several augmentations, one after the other; each takes its own columns of the table."""

    steps: tuple[Augmentation, ...]

    def draws(self, shape: tuple[int, ...]) -> int:
        return sum(step.draws(shape) for step in self.steps)

    def apply(
        self, images: Tensor, u: Uniform, labels: BatchLabels | None = None, rows: BatchLabels | None = None
    ) -> Tensor:
        counts = [step.draws(tuple(images.shape[1:])) for step in self.steps]
        for step, columns in zip(self.steps, u.split(counts, 1), strict=True):
            images = step(images, columns, labels, rows)
        return images


@dataclass(frozen=True)
class PadCrop(Augmentation):
    """Shift every image by whole pixels, up to `pad` each way, as if it were padded and cropped back.

    `mode` "constant" fills with black, "reflect" mirrors at the border. No pixel changes its value.
    """

    pad: int = 4
    mode: Literal["constant", "reflect"] = "constant"

    def __post_init__(self) -> None:
        if self.pad < 0 or self.mode not in ("constant", "reflect"):
            raise DataError(f"PadCrop: pad >= 0 and mode 'constant' or 'reflect', not {self.pad} and {self.mode!r}")

    def draws(self, shape: tuple[int, ...]) -> int:
        return 2

    def apply(
        self, images: Tensor, u: Uniform, labels: BatchLabels | None = None, rows: BatchLabels | None = None
    ) -> Tensor:
        n, c, *sides = images.shape
        if self.mode == "reflect" and self.pad >= min(sides):
            raise DataError(f"PadCrop: {self.pad} pixels cannot be mirrored from images of {sides[0]} x {sides[1]}")
        shift = whole_numbers(u, 2 * self.pad + 1) - self.pad
        down, across = (torch.arange(s, device=u.device) + shift[:, i, None] for i, s in enumerate(sides))
        inside = ((down >= 0) & (down < sides[0]))[:, :, None] & ((across >= 0) & (across < sides[1]))[:, None]
        down, across = (_mirrored(index, side) for index, side in zip((down, across), sides, strict=True))
        index = (down[:, :, None] * sides[1] + across[:, None]).view(n, 1, -1).expand(n, c, -1)
        moved = images.flatten(2).gather(2, index).view_as(images)
        return moved if self.mode == "reflect" else moved * inside[:, None]


@dataclass(frozen=True)
class Flip(Augmentation):
    """Mirror an image left to right with a probability."""

    probability: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.probability <= 1:
            raise DataError(f"Flip: a probability lies in [0, 1], not {self.probability}")

    def draws(self, shape: tuple[int, ...]) -> int:
        return 1

    def apply(
        self, images: Tensor, u: Uniform, labels: BatchLabels | None = None, rows: BatchLabels | None = None
    ) -> Tensor:
        return torch.where(u.view(-1, 1, 1, 1) < self.probability, images.flip(3), images)


@dataclass(frozen=True)
class RandomResizedCrop(Augmentation):
    """A random rectangle of every image, stretched to the image's own size (bilinear).

        area = H W U(scale),   log(width / height) = U(log ratio),   its corner uniform over whole pixels

    The distribution is torchvision's: of ten rectangles the first that fits is taken, and the largest central one
    where none does. All ten are drawn for every image, so that nothing is decided on the host.
    """

    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)

    def __post_init__(self) -> None:
        for name, (low, high) in (("scale", self.scale), ("ratio", self.ratio)):
            if not 0 < low <= high:
                raise DataError(f"RandomResizedCrop: {name} is a range of positive numbers, not {(low, high)}")

    def draws(self, shape: tuple[int, ...]) -> int:
        return 2 * TRIES + 2

    def apply(
        self, images: Tensor, u: Uniform, labels: BatchLabels | None = None, rows: BatchLabels | None = None
    ) -> Tensor:
        tall, wide = images.shape[2:]
        top, left, height, width = self.boxes(u, tall, wide).unbind(1)
        down = 2 * _stretched(top, height, tall) / tall - 1
        across = 2 * _stretched(left, width, wide) / wide - 1
        grid = torch.stack((across[:, None].expand(-1, tall, -1), down[:, :, None].expand(-1, -1, wide)), -1)
        x = unit(images)
        out = F.grid_sample(x.float(), grid, mode="bilinear", padding_mode="border", align_corners=False)
        return out.to(x.dtype)

    def boxes(self, u: Uniform, tall: int, wide: int) -> Float[Tensor, "n 4"]:
        """The rectangles (top, left, height, width), in whole pixels."""
        areas, shapes, corner = u.float().split((TRIES, TRIES, 2), 1)
        area = tall * wide * (self.scale[0] + (self.scale[1] - self.scale[0]) * areas)
        low, high = math.log(self.ratio[0]), math.log(self.ratio[1])
        ratio = torch.exp(low + (high - low) * shapes)
        tries = torch.stack(((area / ratio).sqrt().round(), (area * ratio).sqrt().round()))
        fits = ((tries[0] >= 1) & (tries[0] <= tall)) & ((tries[1] >= 1) & (tries[1] <= wide))
        first = fits.byte().argmax(1, keepdim=True)
        some = fits.any(1)
        box = []
        for side, full, fallback, where in zip(tries, (tall, wide), self.fallback(tall, wide), corner.T, strict=True):
            length = torch.where(some, side.gather(1, first)[:, 0], fallback)
            start = torch.where(some, whole_numbers(where, full - length + 1).float(), (full - fallback) // 2)
            box.append((start, length))
        return torch.stack((box[0][0], box[1][0], box[0][1], box[1][1]), 1)

    def fallback(self, tall: int, wide: int) -> tuple[int, int]:
        """Height and width of the largest central rectangle whose ratio is allowed."""
        if wide / tall < self.ratio[0]:
            return round(wide / self.ratio[0]), wide
        if wide / tall > self.ratio[1]:
            return tall, round(tall * self.ratio[1])
        return tall, wide


@dataclass(frozen=True)
class ColourJitter(Augmentation):
    """Brightness, then contrast, then saturation, each by a factor from [1 - a, 1 + a], cut off at 0 and 1.

        x <- b x,   x <- k x + (1 - k) mean(grey(x)),   x <- s x + (1 - s) grey(x)

    The order is fixed (torchvision draws it). Grey images have no saturation to change.
    """

    brightness: float = 0.4
    contrast: float = 0.4
    saturation: float = 0.4

    def __post_init__(self) -> None:
        if min(self.brightness, self.contrast, self.saturation) < 0:
            raise DataError("ColourJitter: brightness, contrast and saturation are at least 0")

    def draws(self, shape: tuple[int, ...]) -> int:
        return 3

    def apply(
        self, images: Tensor, u: Uniform, labels: BatchLabels | None = None, rows: BatchLabels | None = None
    ) -> Tensor:
        x = unit(images)
        ranges = [(max(0.0, 1 - a), 1 + a) for a in (self.brightness, self.contrast, self.saturation)]
        factors = [low + (high - low) * u[:, i].to(x.dtype) for i, (low, high) in enumerate(ranges)]
        b, k, s = (factor.view(-1, 1, 1, 1) for factor in factors)
        x = (b * x).clamp(0, 1)
        x = (k * x + (1 - k) * grey(x).mean((1, 2, 3), keepdim=True)).clamp(0, 1)
        return x if x.shape[1] == 1 else (s * x + (1 - s) * grey(x)).clamp(0, 1)


@dataclass(frozen=True)
class Noise(Augmentation):
    """Add Gaussian noise of a standard deviation on the scale 0-1; pixels may leave it.

    x + std Φ⁻¹(u)
    """

    std: float

    def __post_init__(self) -> None:
        if not self.std >= 0:
            raise DataError(f"Noise: a standard deviation is at least 0, not {self.std}")

    def draws(self, shape: tuple[int, ...]) -> int:
        return math.prod(shape)

    def apply(
        self, images: Tensor, u: Uniform, labels: BatchLabels | None = None, rows: BatchLabels | None = None
    ) -> Tensor:
        x = unit(images)
        centred = (2 * u.float() - 1).clamp(2**-24 - 1, 1 - 2**-24)  # both ends lie at infinity, and 0 is drawn
        return x + (self.std * math.sqrt(2) * torch.erfinv(centred)).view_as(x).to(x.dtype)


TRIES = 10


def whole_numbers(u: Tensor, count: int | Tensor) -> Int64[Tensor, "..."]:
    """Uniform whole numbers below `count`; the product may round up to it."""
    return (u.float() * count).floor().clamp(max=count - 1).long()


def _mirrored(index: Tensor, side: int) -> Tensor:
    """Positions outside a line of pixels, mirrored at its first and last one; far outside ones end on the border."""
    return (side - 1 - (side - 1 - index.abs()).abs()).clamp(0, side - 1)


def _stretched(start: Tensor, length: Tensor, side: int) -> Float[Tensor, "n side"]:
    """Where the pixels of a stretched piece lie on the line it was cut from; borders of pixels count from 0."""
    place = (torch.arange(side, device=start.device) + 0.5) * length[:, None] / side - 0.5
    return start[:, None] + torch.minimum(place.clamp(min=0), length[:, None] - 1) + 0.5
