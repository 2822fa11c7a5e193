"""Class-coded squares painted into images: so easy to learn that a network forgets the rest.

The erosion of features: Masarczyk et al., 2023, arXiv 2310.19537.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from winze.data.augment import Augmentation, BatchLabels, Uniform, whole_numbers
from winze.data.constants import constant
from winze.data.data_error import DataError

PALETTE = (
    (1.0, 0.0, 0.0),
    (0.0, 1.0, 0.0),
    (0.0, 0.0, 1.0),
    (1.0, 1.0, 0.0),
    (1.0, 0.0, 1.0),
    (0.0, 1.0, 1.0),
    (1.0, 1.0, 1.0),
    (0.0, 0.0, 0.0),
    (1.0, 0.5, 0.0),
    (0.5, 0.5, 0.5),
)
"""Red, green, blue, yellow, magenta, cyan, white, black, orange, grey: the colours of classes 0 to 9."""

WORD = 0xFFFFFFFF


@dataclass(frozen=True)
class Squares(Augmentation):
    """Paint a square of `size` pixels whose colour, or whose position, tells the class.

    `kind` "correlated" codes the sample's own class, "random" a class drawn afresh each time. Only a share `ratio` of
    the samples carry it, always the same ones (chosen by `seed` and a sample's row in the data); the `others` carry
    "none", or a "random" one. With `code="colour"` it lies with its upper left corner `at` (row, column), coloured
    by `PALETTE` (grey images: by level); with `code="position"` it is white, in the class's own cell of a grid.
    Put it last among augmentations, so that no square is moved, mirrored or cut.
    """

    size: int = 3
    kind: Literal["correlated", "random"] = "correlated"
    code: Literal["colour", "position"] = "colour"
    ratio: float = 1.0
    others: Literal["none", "random"] = "none"
    at: tuple[int, int] = (0, 0)
    classes: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        choices = {"kind": ("correlated", "random"), "code": ("colour", "position"), "others": ("none", "random")}
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise DataError(f"Squares: {name} is {' or '.join(map(repr, allowed))}, not {getattr(self, name)!r}")
        if self.size < 1 or min(self.at) < 0 or self.classes < 1:
            raise DataError(
                f"Squares: size and classes are at least 1 and at is not negative, got {self.size}, {self.classes} "
                f"and {self.at}"
            )
        if not 0 <= self.ratio <= 1:
            raise DataError(f"Squares: a ratio lies in [0, 1], not {self.ratio}")

    def check(self, shape: tuple[int, ...], classes: int) -> None:
        """Raise unless squares of this kind fit images of a shape (channel, height, width) and code so many classes."""
        if len(shape) != 3:
            raise DataError(f"Squares are painted into images [channel, height, width], not into {list(shape)}")
        if self.classes < classes:
            raise DataError(f"Squares: {self.classes} codes for {classes} classes; give classes={classes}")
        images = torch.zeros((1, *shape))
        self._colours(images)
        self._squares(images, torch.zeros(1, dtype=torch.int64))

    def draws(self, shape: tuple[int, ...]) -> int:
        return 1

    def apply(
        self, images: Tensor, u: Uniform, labels: BatchLabels | None = None, rows: BatchLabels | None = None
    ) -> Tensor:
        if self.kind == "correlated" and labels is None:
            raise DataError("Squares: a square that encodes the class needs labels=")
        if self.ratio < 1 and rows is None:
            raise DataError(f"Squares: with a ratio of {self.ratio} it needs rows=, the samples' rows in the data")
        drawn = whole_numbers(u[:, 0], self.classes)
        told = labels if self.kind == "correlated" and labels is not None else drawn
        if self.ratio < 1 and rows is not None:
            chosen = self.carries(rows)
            told = torch.where(chosen, told, drawn)
            painted = chosen if self.others == "none" else torch.ones_like(chosen)
        else:
            painted = torch.ones_like(told, dtype=torch.bool)
        colours = self._colours(images).index_select(0, told)[:, :, None, None]
        return torch.where(self._squares(images, told) & painted.view(-1, 1, 1, 1), colours, images)

    def carries(self, rows: BatchLabels) -> Bool[Tensor, " n"]:
        """Which samples of the data belong to the share that carries the pattern.

        A hash of 32 bits spreads their rows evenly, and needs nothing but the row.
        """
        mixed = (rows + (self.seed * 0x9E3779B9 & WORD)) & WORD
        for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
            mixed = ((mixed ^ (mixed >> shift)) * factor) & WORD
        return (mixed ^ (mixed >> 16)) < round(self.ratio * 2**32)

    def _squares(self, images: Tensor, told: Int64[Tensor, " n"]) -> Bool[Tensor, "n 1 h w"]:
        """Where each image's square lies."""
        tall, wide = images.shape[2:]
        across = max(1, wide // self.size)
        room = (wide // self.size) * (tall // self.size)
        if self.code == "position" and self.classes > room:
            raise DataError(
                f"Squares: {self.classes} squares of {self.size} pixels do not fit {tall} x {wide}, {room} do"
            )
        if self.code == "colour" and (self.at[0] + self.size > tall or self.at[1] + self.size > wide):
            raise DataError(f"Squares: {self.size} pixels at {self.at} reach beyond images of {tall} x {wide}")
        cell = told if self.code == "position" else torch.zeros_like(told)
        first = (0, 0) if self.code == "position" else self.at
        spans = []
        for start, step, side in zip(first, (cell // across, cell % across), (tall, wide), strict=True):
            offset = torch.arange(side, device=images.device) - (start + step * self.size)[:, None]
            spans.append((offset >= 0) & (offset < self.size))
        return spans[0][:, None, :, None] & spans[1][:, None, None, :]

    def _colours(self, images: Tensor) -> Tensor:
        """The colour of each class, in the kind of number that the images have."""
        channels = images.shape[1]
        if self.code == "position":
            values = (1.0,) * (channels * self.classes)
        elif channels == 1:
            values = tuple(k / max(1, self.classes - 1) for k in range(self.classes))
        elif self.classes <= len(PALETTE):
            values = tuple(level for colour in PALETTE[: self.classes] for level in colour)
        else:
            raise DataError(f"Squares: {len(PALETTE)} colours for {self.classes} classes; use code='position'")
        colours = constant(values, images.device).view(self.classes, channels)
        return (255 * colours).round().byte() if images.dtype == torch.uint8 else colours.to(images.dtype)


def with_squares(images: Tensor, labels: BatchLabels, squares: Squares) -> Tensor:
    """Images with their squares painted once and for all, to test on; random ones are drawn from the seed.

    >>> with_squares(torch.zeros(2, 3, 4, 4), torch.tensor([0, 1]), Squares(size=2))[:, :, 0, 0].tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < squares.classes:
        raise DataError(
            f"Squares: labels run from {labels.min()} to {labels.max()}, its classes to {squares.classes - 1}"
        )
    u = torch.rand((len(images), 1), generator=torch.Generator().manual_seed(squares.seed)).to(images.device)
    return squares(images, u, labels, torch.arange(len(images), device=images.device))
