"""A diffusion transformer with long skips (U-ViT; Bao et al., 2023, arXiv 2209.12152)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from winze.networks.models.init import check_images, check_sizes
from winze.networks.models.mae import block
from winze.networks.network_error import NetworkError

PRESETS = {
    "uvit_s2": {"depth": 12, "width": 512, "side": 32, "patch": 2},
    "uvit_m2": {"depth": 16, "width": 768, "side": 32, "patch": 2, "channels": 4},
    "uvit_tiny": {"depth": 8, "width": 256, "side": 32, "patch": 2},
}
"""small for images of 32 pixels, mid for latents of 32 x 32 x 4, and a tiny one"""
LONGEST = 10_000.0


class UViT(nn.Module):
    """Predict the noise in images [sample, channel, height, width] at times t [sample] in [0, 1]; without t, at 0.

    Patches, the time and, with `labels` classes, the label are tokens. `depth` is even: half of the blocks, one in the
    middle, half again; block i of the second half takes the output of its mirror image in the first through a linear
    layer: x ← W [x, skip]. `labels` + 1 embeddings: the last stands for no label (classifier-free guidance).
    Decayed shortcuts run over all attention and MLP branches in order: `winze.rewire(net, DecayedIdentity(0.7))`.
    """

    def __init__(
        self,
        depth: int = 8,
        width: int = 256,
        classes: int | None = None,
        channels: int = 3,
        side: int = 32,
        patch: int = 2,
        heads: int | None = None,
        labels: int = 0,
        zero_init: bool = False,
    ) -> None:
        super().__init__()
        check_sizes(depth=depth, width=width, channels=channels, side=side, patch=patch)
        if side % patch:
            raise NetworkError(f"patches of {patch} x {patch} do not fill an image of {side} x {side}")
        if width % 2:
            raise NetworkError(f"the width must be even, since half of the features of the time are sines, not {width}")
        if depth % 2:
            raise NetworkError(
                f"the depth must be even, since a U-ViT has as many blocks before its middle as after it, not {depth}"
            )
        self.width, self.channels, self.side, self.patch, self.labels = width, channels, side, patch, labels
        self.extras = 2 if labels else 1
        tokens = (side // patch) ** 2
        self.embedding = nn.Conv2d(channels, width, patch, patch)
        self.label_embedding = nn.Embedding(labels + 1, width) if labels else None
        self.positions = nn.Parameter(nn.init.trunc_normal_(torch.empty(1, self.extras + tokens, width), std=0.02))
        half = depth // 2
        self.blocks = nn.ModuleList(block(width, heads, qkv_bias=False, eps=1e-5) for _ in range(depth + 1))
        self.skips = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(half))
        self.norm = nn.LayerNorm(width)
        self.pixels = nn.Linear(width, patch * patch * channels)
        self.last = nn.Conv2d(channels, channels, 3, padding=1)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        if zero_init:
            for one in self.blocks:
                nn.init.zeros_(one.get_submodule("attn.proj").weight)  # type: ignore[arg-type]
                nn.init.zeros_(one.get_submodule("mlp.fc2").weight)  # type: ignore[arg-type]

    def forward(self, images: Tensor, t: Tensor | None = None, labels: Tensor | None = None) -> Tensor:
        check_images(images, (self.channels, self.side, self.side), "U-ViT")
        if labels is not None and self.label_embedding is None:
            raise ValueError("this U-ViT was built without labels: build it with labels=, the number of classes")
        t = torch.zeros(len(images), device=images.device) if t is None else t
        x: Tensor = self.embedding(images).flatten(2).transpose(1, 2)
        extras = [time_embedding(t * 999, self.width).to(x.dtype)[:, None]]
        if self.label_embedding is not None:
            none = torch.full((len(x),), self.labels, device=x.device)
            extras.insert(0, self.label_embedding(none if labels is None else labels).to(x.dtype)[:, None])
        x = torch.cat([*extras, x], 1) + self.positions
        half = len(self.skips)
        kept: list[Tensor] = []
        for number, one in enumerate(self.blocks):
            if number > half:
                x = self.skips[number - half - 1](torch.cat([x, kept.pop()], 2))
            x = one(x)
            if number < half:
                kept.append(x)
        patches = self.pixels(self.norm(x))[:, self.extras :]
        grid, size = self.side // self.patch, self.patch
        whole = patches.reshape(-1, grid, grid, size, size, self.channels).permute(0, 5, 1, 3, 2, 4)
        noise: Tensor = self.last(whole.reshape(-1, self.channels, self.side, self.side))
        return noise


class AtTime(nn.Module):
    """A U-ViT as a network of images alone: noised to a time t, whose blocks are then read.

    x_t = √ᾱ x + √(1 - ᾱ) ε,   ᾱ(t) = exp(-(β_0 t + (β_1 - β_0) t² / 2))

    The noise depends on the position in the batch alone, so that two readings agree.
    """

    def __init__(self, net: nn.Module, t: float, beta: tuple[float, float] = (0.1, 20.0)) -> None:
        super().__init__()
        if not 0 <= t <= 1:
            raise ValueError(f"a diffusion model is evaluated at a time in [0, 1], not {t}")
        self.net, self.t, self.beta = net, t, beta

    def forward(self, images: Tensor) -> Tensor:
        generator = torch.Generator(images.device).manual_seed(0)
        noise = torch.randn(images.shape, generator=generator, device=images.device, dtype=images.dtype)
        kept = kept_signal(torch.tensor(self.t), self.beta).item()
        noised = math.sqrt(kept) * images + math.sqrt(1 - kept) * noise
        predicted: Tensor = self.net(noised, torch.full((len(images),), self.t, device=images.device))
        return predicted


def kept_signal(t: Tensor, beta: tuple[float, float] = (0.1, 20.0)) -> Tensor:
    """ᾱ(t) of the variance-preserving SDE: the share of the signal's variance that is left at time t."""
    low, high = beta
    return torch.exp(-(low * t + (high - low) * t**2 / 2))


def time_embedding(t: Tensor, width: int) -> Tensor:
    """Sinusoids of t, [sample, feature], cosines before sines, with periods up to 10,000."""
    half = width // 2
    frequencies = torch.exp(-math.log(LONGEST) * torch.arange(half, device=t.device) / half)
    angles = t[:, None].float() * frequencies
    return torch.cat([angles.cos(), angles.sin()], 1)
