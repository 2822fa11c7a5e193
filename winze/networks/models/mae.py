"""A masked autoencoder of vision transformers, with long skips from encoder to decoder."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from winze.networks.errors import NetworkError
from winze.networks.start import check_sizes

HEAD = 64
PRESETS = {
    "mae_b16": {"depth": 12, "width": 768, "side": 224, "patch": 16, "decoder_depth": 8, "decoder_width": 512},
    "mae_s16": {"depth": 12, "width": 384, "side": 224, "patch": 16, "decoder_depth": 8, "decoder_width": 512},
    "mae_32": {"depth": 12, "width": 192, "side": 32, "patch": 4, "decoder_depth": 6, "decoder_width": 128},
    "mae_64": {"depth": 12, "width": 192, "side": 64, "patch": 8, "decoder_depth": 6, "decoder_width": 128},
}
"""ViT-B/16 and ViT-S/16 as published, and small ones for images of 32 and 64 pixels"""


class MaskedAutoencoder(nn.Module):
    """Encode the visible patches of an image, and predict the others (He et al., 2022, arXiv 2111.06377).

    With `skips` the outputs of every second encoder block (1, 3, 5, ...) enter the decoder, the deepest first: decoder
    block j takes [skip, x] through two linear layers, and adds the result (Zhang et al., 2024, arXiv 2404.10947).
    `decoder_input="pos"`: the decoder starts from positions alone, so that all content comes through the skips;
    "latent": from the encoder's last tokens, as in the original. The encoder's last linear layers start at zero with
    `zero_init`, which decayed shortcuts need: `winze.rewire(net, DecayedIdentity(0.6), where="encoder.*")`.

    `forward(images)` gives predicted patches [sample, patch, value] and the mask [sample, patch], which is 1 where a
    patch was hidden; `net.encoder(images)` gives the tokens of the last block, the class token first, of whole images.
    """

    def __init__(
        self,
        depth: int = 12,
        width: int = 192,
        classes: int | None = None,
        channels: int = 3,
        side: int = 32,
        patch: int = 4,
        heads: int | None = None,
        decoder_depth: int = 6,
        decoder_width: int = 128,
        decoder_heads: int | None = None,
        mask: float = 0.75,
        skips: bool = True,
        decoder_input: str = "pos",
        zero_init: bool = True,
        final_norm: bool = False,
    ) -> None:
        super().__init__()
        check_sizes(depth=depth, width=width, channels=channels, side=side, patch=patch)
        check_sizes(decoder_depth=decoder_depth, decoder_width=decoder_width)
        if side % patch:
            raise NetworkError(f"patches of {patch} x {patch} do not fill an image of {side} x {side}")
        if not 0 < mask < 1:
            raise NetworkError(f"the mask ratio lies between 0 and 1, not {mask}")
        if skips and decoder_depth < depth // 2:
            raise NetworkError(
                f"{depth // 2} skips of {depth} encoder blocks need as many decoder blocks, not {decoder_depth}"
            )
        if decoder_input not in ("pos", "latent"):
            raise NetworkError(f"decoder_input is 'pos' or 'latent', not {decoder_input!r}")
        if decoder_input == "pos" and not skips:
            raise NetworkError(
                "without skips a decoder that starts from positions alone sees nothing: decoder_input='latent'"
            )
        tokens = (side // patch) ** 2
        self.hidden = tokens - max(1, int(tokens * (1 - mask)))
        self.patch, self.tokens, self.channels = patch, tokens, channels
        self.encoder = Encoder(depth, width, channels, side, patch, heads, zero_init, final_norm)
        sources = list(range(1, depth, 2))[::-1] if skips else []
        self.decoder = Decoder(
            decoder_depth,
            decoder_width,
            decoder_heads,
            width,
            side // patch,
            patch * patch * channels,
            sources,
            decoder_input,
        )

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        order = torch.rand(len(images), self.tokens, device=images.device).argsort(1)
        back = order.argsort(1)
        visible = order[:, : self.tokens - self.hidden]
        outputs = self.encoder.outputs(self.encoder.embed(images), visible)
        return self.decoder(outputs, back), (back >= visible.shape[1]).to(images.dtype)

    def patches(self, images: Tensor) -> Tensor:
        """Images [sample, channel, height, width] as patches [sample, patch, value]."""
        size = self.patch
        return F.unfold(images, size, stride=size).transpose(1, 2)

    def images(self, patches: Tensor) -> Tensor:
        """Patches [sample, patch, value] as images."""
        side = int(self.tokens**0.5) * self.patch
        return F.fold(patches.transpose(1, 2), (side, side), self.patch, stride=self.patch)


class Encoder(nn.Module):
    """A vision transformer without a head: tokens of its last block, the class token first."""

    def __init__(
        self,
        depth: int,
        width: int,
        channels: int,
        side: int,
        patch: int,
        heads: int | None,
        zero_init: bool,
        final_norm: bool,
    ) -> None:
        super().__init__()
        self.side = side
        self.embedding = nn.Conv2d(channels, width, patch, patch)
        nn.init.xavier_uniform_(self.embedding.weight.data.view(width, -1))
        nn.init.zeros_(self.embedding.bias)  # type: ignore[arg-type]
        self.class_token = nn.Parameter(0.02 * torch.randn(1, 1, width))
        self.positions: Tensor
        self.register_buffer("positions", sincos(width, side // patch), persistent=False)
        self.blocks = nn.ModuleList(block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width, eps=1e-6) if final_norm else nn.Identity()
        if zero_init:
            for one in self.blocks:
                nn.init.zeros_(one.get_submodule("attn.proj").weight)  # type: ignore[arg-type]
                nn.init.zeros_(one.get_submodule("mlp.fc2").weight)  # type: ignore[arg-type]

    def forward(self, images: Tensor) -> Tensor:
        return self.outputs(self.embed(images))[-1]

    def embed(self, images: Tensor) -> Tensor:
        """The patches of images as tokens [sample, token, feature], with their positions."""
        if images.shape[-2:] != (self.side, self.side):
            size = " x ".join(map(str, images.shape[-2:]))
            raise ValueError(f"this encoder takes images of {self.side} x {self.side}, not {size}")
        tokens: Tensor = self.embedding(images).flatten(2).transpose(1, 2)
        return tokens + self.positions

    def outputs(self, tokens: Tensor, visible: Tensor | None = None) -> list[Tensor]:
        """The output of every block, for all tokens or for the visible ones [sample, number]; the last is normed."""
        if visible is not None:
            tokens = tokens.gather(1, visible[:, :, None].expand(-1, -1, tokens.shape[2]))
        x = torch.cat([self.class_token.to(tokens.dtype).expand(len(tokens), -1, -1), tokens], 1)
        found = []
        for one in self.blocks:
            x = one(x)
            found.append(x)
        found[-1] = self.norm(x)
        return found


class Decoder(nn.Module):
    """From the outputs of encoder blocks to the pixels of every patch; `sources` are the blocks of the long skips."""

    def __init__(
        self,
        depth: int,
        width: int,
        heads: int | None,
        encoder_width: int,
        grid: int,
        values: int,
        sources: list[int],
        start: str,
    ) -> None:
        super().__init__()
        self.sources, self.start = sources, start
        positions = torch.cat([torch.zeros(1, 1, width), sincos(width, grid)], 1)
        self.positions: Tensor
        self.register_buffer("positions", positions, persistent=False)
        self.class_token = nn.Parameter(0.02 * torch.randn(1, 1, width))
        self.mask_token = nn.Parameter(0.02 * torch.randn(1, 1, width if start == "latent" else 0))
        self.first = linear(encoder_width if start == "latent" else width, width)
        self.mask_tokens = nn.Parameter(0.02 * torch.randn(len(sources), 1, 1, encoder_width))
        self.joins = nn.ModuleList(Join(encoder_width, width) for _ in sources)
        self.blocks = nn.ModuleList(block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.pixels = linear(width, values)
        nn.init.zeros_(self.pixels.weight)

    def forward(self, outputs: list[Tensor], back: Tensor) -> Tensor:
        if self.start == "latent":
            x = restored(self.first(outputs[-1]), self.mask_token, back) + self.positions
        else:
            tokens = torch.cat([self.class_token, self.positions[:, 1:]], 1)
            x = self.first(tokens.expand(len(back), -1, -1))
        for number, one in enumerate(self.blocks):
            if number < len(self.sources):
                skip = restored(outputs[self.sources[number]], self.mask_tokens[number], back)
                x = x + self.joins[number](skip, x)
            x = one(x)
        pixels: Tensor = self.pixels(self.norm(x[:, 1:]))
        return pixels


class Join(nn.Module):
    """What a decoder block takes from a long skip: W_2 silu(W_1 [skip, x]), with W_2 = 0 at the start."""

    def __init__(self, encoder_width: int, width: int) -> None:
        super().__init__()
        self.inner, self.outer = linear(encoder_width + width, width), linear(width, width)
        nn.init.zeros_(self.outer.weight)

    def forward(self, skip: Tensor, x: Tensor) -> Tensor:
        joined: Tensor = self.outer(F.silu(self.inner(torch.cat([skip.to(x.dtype), x], 2))))
        return joined


def restored(tokens: Tensor, mask_token: Tensor, back: Tensor) -> Tensor:
    """Visible tokens, the class token first, in image order with mask tokens for the hidden patches."""
    hidden = back.shape[1] - (tokens.shape[1] - 1)
    filler = mask_token.to(tokens.dtype).expand(len(tokens), hidden, -1)
    whole = torch.cat([tokens[:, 1:], filler], 1).gather(1, back[:, :, None].expand(-1, -1, tokens.shape[2]))
    return torch.cat([tokens[:, :1], whole], 1)


def block(width: int, heads: int | None = None, qkv_bias: bool = True) -> nn.Module:
    """timm's pre-norm transformer block, with Xavier's weights; heads of 64 features where none are asked for."""
    from timm.models.vision_transformer import Block

    heads = max(1, width // HEAD) if heads is None else heads
    if width % heads:
        raise NetworkError(f"a width of {width} cannot be shared by {heads} heads")
    norm: Any = partial(nn.LayerNorm, eps=1e-6)
    made = Block(width, heads, qkv_bias=qkv_bias, norm_layer=norm)
    for module in made.modules():
        if isinstance(module, nn.Linear):
            xavier(module)
    return made


def linear(inputs: int, outputs: int) -> nn.Linear:
    """A linear layer with Xavier's weights and no bias yet."""
    return xavier(nn.Linear(inputs, outputs))


def xavier(layer: nn.Linear) -> nn.Linear:
    """Xavier's uniform weights and a bias of zero."""
    nn.init.xavier_uniform_(layer.weight)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


def sincos(width: int, grid: int) -> Tensor:
    """Fixed positions on a square grid, [1, position, feature]: half of the features per axis, sines before cosines.

    ω_k = 10000^(-k / (D/4)),   k = 0 ... D/4 - 1
    """
    if width % 4:
        raise NetworkError(f"positions on a grid need a width that is a multiple of 4, not {width}")
    omega = 10000.0 ** (-torch.arange(width // 4) / (width / 4))
    rows, columns = torch.meshgrid(torch.arange(grid), torch.arange(grid), indexing="ij")
    parts = [axis.reshape(-1, 1) * omega for axis in (columns, rows)]
    return torch.cat([wave for part in parts for wave in (part.sin(), part.cos())], 1)[None]
