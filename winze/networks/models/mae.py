"""A masked autoencoder of vision transformers, with long skips from encoder to decoder."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from winze.networks.models.init import check_images, check_sizes
from winze.networks.network_error import NetworkError

HEAD = 64
LARGE = {"depth": 12, "side": 224, "patch": 16, "decoder_depth": 8, "decoder_width": 512, "decoder_heads": 16}
PRESETS = {
    "mae_b16": {**LARGE, "width": 768},
    "mae_s16": {**LARGE, "width": 384},
    "mae_32": {"depth": 12, "width": 192, "side": 32, "patch": 4, "decoder_depth": 6, "decoder_width": 128},
    "mae_64": {"depth": 12, "width": 192, "side": 64, "patch": 8, "decoder_depth": 6, "decoder_width": 128},
}
"""ViT-B/16 and ViT-S/16 as published, and small ones for images of 32 and 64 pixels"""


class MaskedAutoencoder(nn.Module):
    """Encode the visible patches of an image, and predict the others (He et al., 2022, arXiv 2111.06377).

    With `skips` the outputs of every second encoder block, the last one among them (of 12: 1, 3, 5, ..., 11), enter the
    decoder, the deepest first: decoder block j takes [skip, x] through two linear layers, and adds the result (Zhang et
    al., 2024, arXiv 2404.10947).
    `decoder_input="pos"`: the decoder starts from positions alone, so that all content comes through the skips;
    "latent": from the encoder's last tokens, as in the original. The encoder's last linear layers start at zero with
    `zero_init`, which decayed shortcuts need: `winze.rewire(net, DecayedIdentity(0.6), where="encoder.*")`.
    `norm_clip` bounds the root mean square of every token after each encoder block. Under autocast the encoder's
    residual stream stays in 32 bits, or with `half_stream` in the 16 bits of its branches, which moves fewer bytes.

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
        norm_clip: float | None = None,
        half_stream: bool = False,
    ) -> None:
        super().__init__()
        check_sizes(depth=depth, width=width, channels=channels, side=side, patch=patch)
        check_sizes(decoder_depth=decoder_depth, decoder_width=decoder_width)
        if side % patch:
            raise NetworkError(f"patches of {patch} x {patch} do not fill an image of {side} x {side}")
        if not 0 < mask < 1:
            raise NetworkError(f"the mask ratio lies between 0 and 1, not {mask}")
        if skips and depth < 2:
            raise NetworkError("long skips start at every second encoder block: use at least 2 blocks, or skips=False")
        if skips and decoder_depth < depth // 2:
            raise NetworkError(
                f"{depth // 2} skips of {depth} encoder blocks need as many decoder blocks, not {decoder_depth}"
            )
        if decoder_input not in ("pos", "latent"):
            raise NetworkError(f"decoder_input is 'pos' or 'latent', not {decoder_input!r}")
        if decoder_input == "pos" and not skips:
            raise NetworkError(
                "without skips a decoder that starts from positions alone sees nothing: use decoder_input='latent'"
            )
        if norm_clip is not None and not norm_clip > 0:
            raise NetworkError(f"norm_clip, the bound of a root mean square, must be positive, not {norm_clip}")
        tokens = (side // patch) ** 2
        self.hidden = tokens - max(1, int(tokens * (1 - mask)))
        if not self.hidden:
            raise NetworkError(f"a mask ratio of {mask} hides none of {tokens} patches")
        self.patch, self.tokens, self.channels = patch, tokens, channels
        self.encoder = Encoder(depth, width, channels, side, patch, heads, zero_init, final_norm)
        self.encoder.norm_clip, self.encoder.half_stream = norm_clip, half_stream
        sources = list(range(depth - 1, 0, -2)) if skips else []
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
        order, back = random_order(len(images), self.tokens, images.device)
        visible = order[:, : self.tokens - self.hidden]
        outputs = self.encoder.outputs(self.encoder.embed(images, visible))
        return self.decoder(outputs, back, order), (back >= visible.shape[1]).to(images.dtype)

    def patches(self, images: Tensor) -> Tensor:
        """Images [sample, channel, height, width] as patches [sample, patch, value]."""
        return patched(images, self.patch)

    def images(self, patches: Tensor) -> Tensor:
        """Patches [sample, patch, value] as images."""
        grid, size = int(self.tokens**0.5), self.patch
        tiles = patches.reshape(-1, grid, grid, self.channels, size, size).permute(0, 3, 1, 4, 2, 5)
        return tiles.reshape(-1, self.channels, grid * size, grid * size)


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
        self.side, self.patch = side, patch
        self.norm_clip: float | None = None
        self.half_stream = False
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

    def embed(self, images: Tensor, visible: Tensor | None = None) -> Tensor:
        """The patches of images as tokens [sample, token, feature] with their positions, or the visible ones alone.

        Visible patches [sample, number] are picked before they are embedded: pixels need no gradient, and so none has
        to be spread over hidden patches.
        """
        check_images(images, (self.embedding.in_channels, self.side, self.side), "encoder")
        positions = self.positions
        if visible is None:
            tokens: Tensor = self.embedding(images).flatten(2).transpose(1, 2)
        else:
            picked = patched(images, self.patch).gather(1, _along(visible, images.shape[1] * self.patch**2))
            tokens = F.linear(picked, self.embedding.weight.flatten(1), self.embedding.bias)
            positions = positions[0][visible]
        return tokens + (positions.to(tokens.dtype) if self.half_stream else positions)

    def outputs(self, tokens: Tensor) -> list[Tensor]:
        """The output of every block; the last is normed."""
        x = torch.cat([self.class_token.to(tokens.dtype).expand(len(tokens), -1, -1), tokens], 1)
        found = []
        for one in self.blocks:
            x = one(x) if self.norm_clip is None else clipped(one(x), self.norm_clip)
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

    def forward(self, outputs: list[Tensor], back: Tensor, order: Tensor | None = None) -> Tensor:
        """`back` [sample, patch] says where each patch lies among the shuffled ones; `order` is its inverse."""
        order = back.argsort(1) if order is None else order
        if self.start == "latent":
            x = restored(self.first(outputs[-1]), self.mask_token, back, order) + self.positions
        else:
            tokens = torch.cat([self.class_token, self.positions[:, 1:]], 1)
            x = self.first(tokens).expand(len(back), -1, -1)  # the same for every image
        for number, one in enumerate(self.blocks):
            if number < len(self.sources):
                x = x + self.joins[number](outputs[self.sources[number]], self.mask_tokens[number], x, back, order)
            x = one(x)
        pixels: Tensor = self.pixels(self.norm(x[:, 1:]))
        return pixels


class Join(nn.Module):
    """What a decoder block takes from a long skip: W_2 silu(W_1 [skip, x]), with W_2 = 0 at the start.

    The part of W_1 that meets the skip runs on the visible tokens and on the mask token before they go back to their
    places, which gives the same numbers with a quarter of the work.
    """

    def __init__(self, encoder_width: int, width: int) -> None:
        super().__init__()
        self.inner, self.outer = linear(encoder_width + width, width), linear(width, width)
        nn.init.zeros_(self.outer.weight)

    def forward(self, skip: Tensor, mask_token: Tensor, x: Tensor, back: Tensor, order: Tensor) -> Tensor:
        of_skip, of_x = self.inner.weight.split((skip.shape[2], x.shape[2]), 1)
        there = restored(F.linear(skip, of_skip), F.linear(mask_token, of_skip), back, order)
        joined: Tensor = self.outer(F.silu(there + F.linear(x, of_x, self.inner.bias)))
        return joined


def restored(tokens: Tensor, mask_token: Tensor, back: Tensor, order: Tensor | None = None) -> Tensor:
    """Visible tokens, the class token first, in image order with mask tokens for the hidden patches."""
    order = back.argsort(1) if order is None else order
    hidden = back.shape[1] - (tokens.shape[1] - 1)
    filler = mask_token.to(tokens.dtype).expand(len(tokens), hidden, -1)
    whole: Tensor = Rearranged.apply(torch.cat([tokens[:, 1:], filler], 1), back, order)
    return torch.cat([tokens[:, :1], whole], 1)


class Rearranged(torch.autograd.Function):
    """Tokens [sample, token, feature] in another order, whose gradient returns by the inverse order.

    The gradient of a plain gather is a sum by atomic additions: slower, and on a GPU not the same twice.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(tokens: Tensor, order: Tensor, inverse: Tensor) -> Tensor:
        """Token `order[i]` at place i."""
        return tokens.gather(1, _along(order, tokens.shape[2]))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        """What the gradient needs."""
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        """The gradients in the old order."""
        order, inverse = ctx.saved_tensors
        return Rearranged.apply(gradients[0], inverse, order), None, None


def random_order(samples: int, tokens: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """A random order of the tokens of each sample [sample, token], and its inverse."""
    order = torch.rand(samples, tokens, device=device).argsort(1)
    places = torch.arange(tokens, device=device).expand(samples, -1)
    return order, torch.empty_like(order).scatter(1, order, places)


def patched(images: Tensor, size: int) -> Tensor:
    """Images as patches [sample, patch, value], as `F.unfold` orders them, which starts one kernel per image."""
    n, channels, tall, wide = images.shape
    tiles = images.reshape(n, channels, tall // size, size, wide // size, size).permute(0, 2, 4, 1, 3, 5)
    return tiles.reshape(n, -1, channels * size * size)


def clipped(tokens: Tensor, most: float) -> Tensor:
    """Tokens whose root mean square is at most this: x min(1, c / rms(x))."""
    size = tokens.float().square().mean(2, keepdim=True).clamp_min(1e-12).sqrt()
    return tokens * (most / size).clamp(max=1).to(tokens.dtype)


def _along(index: Tensor, width: int) -> Tensor:
    """An index of tokens for all of their features."""
    return index[:, :, None].expand(-1, -1, width)


def block(width: int, heads: int | None = None, qkv_bias: bool = True, eps: float = 1e-6) -> nn.Module:
    """timm's pre-norm transformer block, with Xavier's weights; heads of 64 features where none are asked for."""
    from timm.models.vision_transformer import Block

    heads = max(1, width // HEAD) if heads is None else heads
    if width % heads:
        raise NetworkError(f"a width of {width} cannot be shared by {heads} heads")
    norm: Any = partial(nn.LayerNorm, eps=eps)
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
