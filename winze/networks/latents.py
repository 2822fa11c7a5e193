"""Latents: diffusion in the space of an autoencoder that was trained before."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from winze.networks.inception import MissingWeightsError
from winze.networks.network_error import NetworkError, one_line

FACTOR = 0.18215  # by which Stable Diffusion scales latents to a variance of about 1


class Latents(nn.Module):
    """Images in [-1, 1] to latents and back, by any autoencoder that has `encode` and `decode`.

        z = factor E(x),   x = D(z / factor)

    `encode` may give a tensor, or what diffusers gives: a distribution, of which the mean is taken, or with `sample` a
    sample.
    """

    def __init__(self, autoencoder: nn.Module, factor: float = FACTOR, batch: int = 32) -> None:
        super().__init__()
        for name in ("encode", "decode"):
            if not callable(getattr(autoencoder, name, None)):
                raise NetworkError(f"an autoencoder has encode and decode; {type(autoencoder).__name__} has no {name}")
        if not factor > 0:
            raise NetworkError(f"factor, which scales latents, must be positive, not {factor}")
        self.autoencoder, self.factor, self.batch = autoencoder.eval(), factor, batch

    @torch.no_grad()
    def encode(self, images: Tensor, sample: bool = False) -> Tensor:
        """Latents [sample, channel, height, width] of images in [-1, 1]."""
        parts = [self._encoded(one, sample) for one in images.split(self.batch)]
        return self.factor * torch.cat(parts)

    @torch.no_grad()
    def decode(self, latents: Tensor) -> Tensor:
        """Images of latents."""
        coder: Any = self.autoencoder
        found = [coder.decode(one / self.factor) for one in latents.split(self.batch)]
        return torch.cat([one if isinstance(one, Tensor) else one.sample for one in found])

    def _encoded(self, images: Tensor, sample: bool) -> Tensor:
        coder: Any = self.autoencoder
        found = coder.encode(images)
        if isinstance(found, Tensor):
            return found
        drawn: Tensor = found.latent_dist.sample() if sample else found.latent_dist.mean
        return drawn


def kl_autoencoder(folder: str | os.PathLike[str], factor: float | None = None) -> Latents:
    """diffusers' KL autoencoder from a folder on this machine (config.json and a safetensors file).

    `factor` None: the one in its config. Nothing is downloaded.
    """
    path = Path(folder).expanduser()
    try:
        from diffusers import AutoencoderKL  # type: ignore[import-not-found,unused-ignore]
    except ImportError as error:
        raise NetworkError("a KL autoencoder needs another package: pip install diffusers") from error
    files = [path / "config.json", path / "diffusion_pytorch_model.safetensors"]
    absent = [str(one) for one in files if not one.is_file()]
    if absent:
        raise MissingWeightsError(f"no autoencoder in {path}: looked for {', '.join(absent)}")
    try:
        made = AutoencoderKL.from_pretrained(str(path), local_files_only=True, use_safetensors=True)
    except Exception as error:
        raise NetworkError(f"{path} does not hold a KL autoencoder: {one_line(error)}") from error
    return Latents(made, float(made.config.scaling_factor) if factor is None else factor)
