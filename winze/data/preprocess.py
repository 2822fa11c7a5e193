"""From stored images to what a network takes in: channels, size, normalisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from jaxtyping import Float32, Shaped
from torch import Tensor

from winze.data.constants import constant
from winze.data.data_error import DataError
from winze.data.dataset import Dataset
from winze.data.image_tensors import Fit, channel_statistics, fitted, grey_bytes, to_channels, unit


@dataclass(frozen=True)
class Preprocess:
    """Make a float32 batch of a uint8 batch, or of one that is on the scale 0-1 already.

        y = (fit(channels(x / 255)) - mean) / std

    Grey becomes RGB by repetition, RGB becomes grey by luma. `fit="resize"` is bilinear with antialiasing to `size`
    (height, width; None keeps it); `fit="pad"` puts black around, half on each side.
    """

    size: tuple[int, int] | None
    mean: tuple[float, ...]
    std: tuple[float, ...]
    channels: int = 3
    fit: Fit = "resize"

    def __post_init__(self) -> None:
        if self.channels not in (1, 3):
            raise DataError(f"preprocess: {self.channels} channels; images have 1 or 3")
        if not len(self.mean) == len(self.std) == self.channels:
            raise DataError(f"preprocess: {len(self.mean)} means and {len(self.std)} stds for {self.channels} channels")
        if not all(value > 0 for value in self.std):
            raise DataError(f"preprocess: standard deviations must be positive, not {self.std}")
        if self.size is not None and (len(self.size) != 2 or min(self.size) < 1):
            raise DataError(f"preprocess: size is (height, width) of at least one pixel, not {self.size}")
        if self.fit not in ("resize", "pad"):
            raise DataError(f"preprocess: fit is 'resize' or 'pad', not {self.fit!r}")

    def __call__(self, images: Shaped[Tensor, "n c h w"]) -> Float32[Tensor, "n channel height width"]:
        """Preprocess one batch, on whatever device it is."""
        if not (images.dtype == torch.uint8 or images.is_floating_point()) or images.ndim != 4:
            said = f"{images.dtype} {list(images.shape)}"
            raise DataError(f"preprocess takes uint8, or floats on the scale 0-1, as [n, c, h, w], not {said}")
        x = fitted(to_channels(unit(images), self.channels), self.size, self.fit)
        mean, std = (constant(values, x.device).view(1, -1, 1, 1) for values in (self.mean, self.std))
        y = (x.float() - mean) / std
        # a single channel may lie either way: torch would take it for channels-last, and oneDNN's convolutions on AVX2
        # corrupt memory in the backward pass of such streams (torch 2.15)
        return y.reshape(len(y), -1).view(y.shape) if y.shape[1] == 1 else y

    @classmethod
    def of(
        cls,
        dataset: Dataset,
        size: int | tuple[int, int] | None = None,
        channels: int | None = None,
        fit: Fit = "resize",
    ) -> Preprocess:
        """Normalise by the set's own train statistics, taken before resizing or padding."""
        if not dataset.holds_images:
            raise DataError(f"{dataset.name} holds points, not images: they need no preprocessing")
        mean, std = channel_statistics(dataset.train_images)
        if channels is not None and channels != len(mean):
            if channels == 1:
                mean, std = channel_statistics(grey_bytes(dataset.train_images))
            else:
                mean, std = mean * channels, std * channels
        return cls(_pair(size), mean, std, len(mean), fit)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], fit: Fit = "resize") -> Preprocess:
        """From a timm-style configuration: `input_size` (channel, height, width), `mean` and `std`."""
        absent = [key for key in ("input_size", "mean", "std") if config.get(key) is None]
        if absent:
            raise DataError(f"preprocess: the network's configuration lacks {', '.join(absent)}")
        channels, height, width = config["input_size"]
        return cls((height, width), _floats(config["mean"]), _floats(config["std"]), channels, fit)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as JSON keeps them."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Preprocess:
        """The way back from `to_dict`."""
        try:
            size, fit = values["size"], values["fit"]
            pair = None if size is None else (int(size[0]), int(size[1]))
            return cls(pair, _floats(values["mean"]), _floats(values["std"]), int(values["channels"]), fit)
        except (KeyError, TypeError, IndexError) as error:
            shown = repr(values)
            short = shown if len(shown) <= 80 else f"{shown[:77]}..."
            raise DataError(f"preprocess: not a stored preprocessing: {short}") from error


def _pair(size: int | tuple[int, int] | None) -> tuple[int, int] | None:
    return (size, size) if isinstance(size, int) else size


def _floats(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)
