"""The small ViT: how many tokens an image becomes, and sizes that do not fit."""

import pytest
import torch

from winze.networks import NetworkError, build, options_for


@pytest.mark.parametrize(("side", "patch", "tokens"), [(32, 4, 64), (8, 1, 64), (28, 4, 49), (10, 2, 25), (7, 1, 49)])
def test_an_image_becomes_at_most_64_tokens_and_no_pixel_is_left_out(side, patch, tokens):
    net = build("winze/vit2x32", 3, side=side, channels=1)
    assert (net.patch_embed.patch_size, net.patch_embed.num_patches) == ((patch, patch), tokens)
    assert net(torch.randn(2, 1, side, side)).shape == (2, 3)


def test_width_and_depth_are_in_its_name():
    net = build("winze/vit6x128")
    assert (len(net.blocks), net.embed_dim, net.blocks[0].attn.num_heads) == (6, 128, 4)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"patch": 5}, "patches of 5 x 5 do not fill an image of 32 x 32"),
        ({"patch": 0}, "patches of 0 x 0"),
        ({"width": 48}, "multiple of 32"),
        ({"side": 0}, "side must be at least 1"),
    ],
)
def test_sizes_that_do_not_fit_are_told(options, said):
    with pytest.raises(NetworkError, match=said):
        build("winze/vit2x32", **options)


def test_only_square_images_go_in():
    with pytest.raises(NetworkError, match="square images, not 32 x 48"):
        options_for("winze/vit2x32", (3, 32, 48))
