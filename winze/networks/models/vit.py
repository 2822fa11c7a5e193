"""A vision transformer for small images, built by timm."""

from __future__ import annotations

from torch import nn

from winze.networks.models.init import check_sizes
from winze.networks.network_error import NetworkError

HEAD = 32


def vit(
    depth: int = 6,
    width: int = 128,
    classes: int = 10,
    channels: int = 3,
    side: int = 32,
    patch: int | None = None,
) -> nn.Module:
    """timm's vision transformer of `depth` blocks, `width` wide: heads of 32, and the mean of all tokens at the end.

    `patch` is the side of a patch in pixels; left out, the smallest that leaves at most 64 tokens.
    Dosovitskiy et al., 2021, arXiv 2010.11929.
    """
    from timm.models.vision_transformer import VisionTransformer

    check_sizes(depth=depth, width=width, classes=classes, channels=channels, side=side)
    if patch is None:
        patch = next(size for size in range(1, side + 1) if side % size == 0 and side // size <= 8)
    if patch < 1 or side % patch:
        raise NetworkError(f"patches of {patch} x {patch} do not fill an image of {side} x {side}")
    if width % HEAD:
        raise NetworkError(f"the width is a multiple of {HEAD}, that of a head, not {width}")
    return VisionTransformer(
        img_size=side,
        patch_size=patch,
        in_chans=channels,
        num_classes=classes,
        embed_dim=width,
        depth=depth,
        num_heads=width // HEAD,
        class_token=False,
        global_pool="avg",
    )
