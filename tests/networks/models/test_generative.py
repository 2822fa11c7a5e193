"""Laws of the masked autoencoder and of the U-ViT, and their published sizes."""

import math

import pytest
import timm
import torch
import torch.nn.functional as F

import winze
from winze.networks import NetworkError, build
from winze.networks.models.mae import Encoder, Join, MaskedAutoencoder, patched, random_order, restored, sincos
from winze.networks.models.uvit import AtTime, UViT, kept_signal

IMAGES = torch.randn(3, 3, 8, 8)


def small(**options):
    torch.manual_seed(0)
    return MaskedAutoencoder(
        **({"depth": 6, "width": 32, "side": 8, "patch": 2, "decoder_depth": 3, "decoder_width": 32} | options)
    )


def parameters(net):
    return sum(one.numel() for one in net.parameters())


def test_sizes_are_the_published_ones():
    with torch.device("meta"):  # where weights take neither memory nor time
        assert parameters(Encoder(12, 768, 3, 224, 16, None, True, True)) + 197 * 768 == 85_798_656
        assert parameters(UViT(12, 512)) == 44_255_328
        assert parameters(UViT(16, 768, channels=4)) == 130_122_404


@pytest.mark.parametrize("name", ["winze/mae_32", "winze/mae_64", "winze/uvit_tiny", "winze/mae2x64", "winze/uvit2x64"])
def test_networks_are_built_by_name(name):
    options = {"decoder_depth": 2} if name == "winze/mae2x64" else {}
    assert parameters(build(name, **options)) > 0


def test_three_of_four_patches_are_hidden_and_each_sample_has_a_mask_of_its_own():
    _, mask = small()(IMAGES)
    assert mask.sum(1).tolist() == [12, 12, 12]
    assert not torch.equal(mask[0], mask[1])


def test_patches_and_images_are_the_same_numbers():
    net = small()
    patches = net.patches(IMAGES)
    assert patches.shape == (3, 16, 12)
    assert torch.equal(net.images(patches), IMAGES)
    corner = IMAGES[0, :, 2:4, 4:6]  # row 1, column 2 of the grid
    assert torch.equal(patches[0, 1 * 4 + 2].sort().values, corner.flatten().sort().values)


def test_tokens_go_back_to_their_places():
    order = torch.rand(2, 6).argsort(1)
    back, visible = order.argsort(1), order[:, :2]
    tokens = torch.arange(6.0).expand(2, 6)[:, :, None]
    kept = torch.cat([torch.full((2, 1, 1), -1.0), tokens.gather(1, visible[:, :, None])], 1)
    whole = restored(kept, torch.full((1, 1, 1), 9.0), back)
    expected = torch.full((2, 6), 9.0).scatter(1, visible, visible.float())
    assert torch.equal(whole[:, 1:, 0], expected)
    assert (whole[:, 0] == -1).all()


def test_patches_lie_as_torch_unfolds_them():
    assert torch.equal(patched(IMAGES, 4), F.unfold(IMAGES, 4, stride=4).transpose(1, 2))


def test_an_order_and_its_inverse_undo_each_other():
    order, back = random_order(5, 9, torch.device("cpu"))
    assert torch.equal(order.gather(1, back), torch.arange(9).expand(5, 9))


def test_gradients_of_restored_tokens_are_those_of_a_plain_gather():
    order, back = random_order(3, 6, torch.device("cpu"))
    tokens, mask = torch.randn(3, 3, 4, requires_grad=True), torch.randn(1, 1, 4, requires_grad=True)
    plain = torch.cat([tokens[:, 1:], mask.expand(3, 4, -1)], 1).gather(1, back[:, :, None].expand(-1, -1, 4))
    weights = torch.randn(3, 7, 4)
    wanted = torch.autograd.grad((torch.cat([tokens[:, :1], plain], 1) * weights).sum(), (tokens, mask))
    found = torch.autograd.grad((restored(tokens, mask, back, order) * weights).sum(), (tokens, mask))
    assert all(map(torch.allclose, found, wanted))


def test_a_join_is_two_layers_on_the_skip_beside_the_stream():
    torch.manual_seed(0)
    join, mask = Join(6, 4), torch.randn(1, 1, 6)
    torch.nn.init.normal_(join.outer.weight)
    order, back = random_order(2, 8, torch.device("cpu"))
    skip, x = torch.randn(2, 3, 6), torch.randn(2, 9, 4)
    wanted = join.outer(F.silu(join.inner(torch.cat([restored(skip, mask, back, order), x], 2))))
    assert torch.allclose(join(skip, mask, x, back, order), wanted, atol=1e-6)


def test_visible_patches_are_embedded_as_whole_images_are():
    encoder, visible = small().encoder, torch.rand(3, 16).argsort(1)[:, :5]
    wanted = encoder.embed(IMAGES).gather(1, visible[:, :, None].expand(-1, -1, 32))
    assert torch.allclose(encoder.embed(IMAGES, visible), wanted, atol=1e-6)


@pytest.mark.parametrize(("half", "kind"), [(False, torch.float32), (True, torch.bfloat16)])
def test_the_stream_of_the_encoder_has_the_precision_that_was_asked_for(half, kind):
    with torch.autocast("cpu", torch.bfloat16):
        assert small(half_stream=half).encoder(IMAGES).dtype == kind


def test_a_clip_of_the_norm_bounds_every_token_after_every_block():
    net = small(norm_clip=0.5, zero_init=False)
    sizes = [one.detach().square().mean(2).sqrt() for one in net.encoder.outputs(net.encoder.embed(IMAGES))]
    assert max(float(one.max()) for one in sizes) == pytest.approx(0.5, rel=1e-4)
    assert torch.equal(small(norm_clip=1e9).encoder(IMAGES), small().encoder(IMAGES)), "a wide bound changes nothing"


def test_a_decayed_encoder_starts_as_the_product_of_its_factors():
    net = winze.rewire(small(), winze.DecayedIdentity(0.6), where="encoder.*", example=IMAGES)
    factors = torch.linspace(1, 0.6, 12, dtype=torch.float64)
    tokens = net.encoder(IMAGES)[:, 1:]
    assert torch.allclose(tokens, net.encoder.embed(IMAGES) * factors.prod().float(), rtol=1e-5)
    alphas = [one.rule for one in winze.junctions(net, IMAGES) if one.place.name.startswith("decoder")]
    assert len(alphas) == 9
    assert all(rule == winze.Standard() for rule in alphas)


@pytest.mark.parametrize(("depth", "sources"), [(12, [11, 9, 7, 5, 3, 1]), (6, [5, 3, 1]), (5, [4, 2]), (2, [1])])
def test_decoder_block_j_takes_the_jth_deepest_of_every_second_block_from_the_last_on(depth, sources):
    assert small(depth=depth, decoder_depth=8).decoder.sources == sources


def test_every_block_of_an_encoder_of_odd_depth_is_trained():
    net = small(depth=3, zero_init=False)
    torch.nn.init.normal_(net.decoder.pixels.weight)
    for join in net.decoder.joins:
        torch.nn.init.normal_(join.outer.weight)
    net(IMAGES)[0].square().sum().backward()
    assert all(one.grad is not None and one.grad.abs().sum() > 0 for one in net.encoder.blocks[-1].parameters())


def test_without_latents_the_decoder_hears_of_the_image_through_the_skips_alone():
    torch.manual_seed(1)
    net = small(zero_init=False)
    torch.nn.init.normal_(net.decoder.pixels.weight)
    outputs = net.encoder.outputs(net.encoder.embed(IMAGES, torch.arange(4).expand(3, 4)))
    back = torch.arange(16).expand(3, 16)
    silent = net.decoder([torch.zeros_like(one) for one in outputs], back)
    assert torch.equal(net.decoder(outputs, back), silent), "the joins start at zero"
    for join in net.decoder.joins:
        torch.nn.init.normal_(join.outer.weight)
    assert not torch.allclose(net.decoder(outputs, back), silent)


def test_rewiring_timms_own_vit_gives_the_same_encoder():
    ours = small(zero_init=False).encoder
    theirs = timm.models.vision_transformer.VisionTransformer(
        img_size=8, patch_size=2, embed_dim=32, depth=6, num_heads=1, num_classes=0, global_pool="", final_norm=False
    )
    state = {name: value for name, value in ours.state_dict().items() if name.startswith("blocks.")}
    positions = torch.cat([torch.zeros(1, 1, 32), ours.positions], 1)
    state |= {"cls_token": ours.class_token, "pos_embed": positions}
    state |= {f"patch_embed.proj.{name}": value for name, value in ours.embedding.state_dict().items()}
    theirs.load_state_dict(state)
    for net in (ours, theirs):
        winze.rewire(net, winze.DecayedIdentity(0.6), example=IMAGES)
    assert torch.allclose(ours(IMAGES), theirs(IMAGES), atol=1e-6)


def test_positions_are_sines_then_cosines_of_columns_then_rows():
    table = sincos(8, 4)[0]
    row, column = 2, 3
    omega = [1.0, 10000 ** (-1 / 2)]
    expected = [f(axis * w) for axis in (column, row) for f in (math.sin, math.cos) for w in omega]
    assert torch.allclose(table[row * 4 + column], torch.tensor(expected))


def test_the_signal_of_the_sde_is_whole_at_0_and_gone_at_1():
    assert kept_signal(torch.tensor(0.0)) == 1
    assert kept_signal(torch.tensor(1.0)) == pytest.approx(4.3e-5, rel=0.01)


def test_a_uvit_pops_its_skips_last_in_first_out():
    torch.manual_seed(0)
    net = UViT(4, 32, side=8, patch=2)
    taken = []
    for number, one in enumerate(net.blocks):
        one.register_forward_hook(lambda module, x, y, number=number: taken.append((number, y)))
    fed = []
    for skip in net.skips:
        skip.register_forward_pre_hook(lambda module, x: fed.append(x[0][..., 32:]))
    net(IMAGES, torch.rand(3))
    outputs = dict(taken)
    assert torch.equal(fed[0], outputs[1])
    assert torch.equal(fed[1], outputs[0])


def test_norms_have_the_published_constants():
    for net, eps in ((small(), 1e-6), (UViT(2, 32, side=8), 1e-5)):
        assert {one.eps for one in net.modules() if isinstance(one, torch.nn.LayerNorm)} == {eps}


def test_decay_runs_over_every_branch_of_a_uvit_in_order():
    net = winze.rewire(UViT(4, 32, side=8, patch=2), winze.DecayedIdentity(0.7), example=(IMAGES, torch.rand(3)))
    found = winze.junctions(net, (IMAGES, torch.rand(3)))
    names = [one.place.name for one in found]
    assert names == [f"blocks.{number}.{part}" for number in range(5) for part in ("attn", "mlp")]


def test_labels_move_the_prediction_and_none_is_a_label_of_its_own():
    torch.manual_seed(0)
    net, t = UViT(2, 32, side=8, patch=2, labels=4), torch.rand(3)
    none, one, again = (net(IMAGES, t, label) for label in (None, torch.zeros(3, dtype=int), torch.full((3,), 4)))
    assert not torch.allclose(none, one)
    assert torch.equal(none, again)


def test_a_uvit_at_a_time_is_read_the_same_twice():
    net = AtTime(UViT(2, 32, side=8, patch=2), 0.3).eval()
    assert torch.equal(net(IMAGES), net(IMAGES))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"patch": 3}, "patches of 3 x 3 do not fill an image of 8 x 8"),
        ({"mask": 1.0}, "mask ratio lies between 0 and 1"),
        ({"decoder_depth": 2}, "3 skips of 6 encoder blocks need as many decoder blocks, not 2"),
        ({"depth": 1}, "at least 2 blocks, or skips=False"),
        ({"skips": False}, "sees nothing"),
        ({"decoder_input": "image"}, "decoder_input is 'pos' or 'latent'"),
        ({"width": 30}, "multiple of 4"),
        ({"mask": 0.0}, "mask ratio lies between 0 and 1"),
        ({"norm_clip": 0.0}, "must be positive"),
        ({"patch": 8}, "hides none of 1 patches"),
    ],
)
def test_sizes_that_do_not_fit_are_named(options, said):
    with pytest.raises(NetworkError, match=said):
        small(**options)


@pytest.mark.parametrize(
    ("sizes", "said"), [((3, 32), "depth must be even.*, not 3"), ((2, 33), "width must be even.*, not 33")]
)
def test_a_uvit_of_odd_depth_or_width_is_refused(sizes, said):
    with pytest.raises(NetworkError, match=said):
        UViT(*sizes)


def test_labels_for_a_uvit_that_was_built_without_them_are_refused():
    with pytest.raises(ValueError, match="built without labels"):
        UViT(2, 32, side=8)(IMAGES, torch.rand(3), torch.zeros(3, dtype=int))


def test_the_published_decoder_has_16_heads():
    net = build("winze/mae_s16", depth=2, decoder_depth=1, side=32)
    assert [one.attn.num_heads for one in net.decoder.blocks] == [16]
    assert [one.attn.num_heads for one in net.encoder.blocks] == [6, 6]


@pytest.mark.parametrize("shape", [(3, 16, 16), (1, 8, 8)])
def test_images_of_another_shape_are_named(shape):
    found = " x ".join(map(str, shape))
    for net, name in ((small().encoder, "encoder"), (UViT(2, 32, side=8), "U-ViT")):
        with pytest.raises(ValueError, match=f"this {name} takes images of 3 x 8 x 8, not {found}"):
            net(torch.randn(1, *shape))


def test_a_time_outside_the_diffusion_is_refused():
    with pytest.raises(ValueError, match=r"a time in \[0, 1\], not 2"):
        AtTime(UViT(2, 32, side=8), 2.0)
