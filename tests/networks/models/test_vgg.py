import pytest
import torch
from torch import nn
from torchvision.models.vgg import cfgs, make_layers

import winze
from winze.networks import VGG, NetworkError
from winze.networks.models.vgg import CONVS


def parameters(net: nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


def layers_of(net: nn.Module, kind: type[nn.Module]) -> list[nn.Module]:
    return [module for module in net.modules() if isinstance(module, kind)]


def test_vgg_19_has_the_parameters_of_the_thesis():
    with torch.device("meta"):
        assert parameters(VGG(19)) == 20_565_834


@pytest.mark.parametrize("depth", [11, 13, 16, 19])
def test_the_depth_counts_convolutions_and_linear_layers(depth):
    with torch.device("meta"):
        net = VGG(depth)
    assert len(layers_of(net, nn.Conv2d)) + len(layers_of(net, nn.Linear)) == depth
    assert len(layers_of(net, nn.MaxPool2d)) == 5


@pytest.mark.parametrize(("depth", "letter", "norm"), [(11, "A", "batch"), (16, "D", "none"), (19, "E", "batch")])
def test_the_convolutions_are_torchvisions(depth, letter, norm):
    theirs = make_layers(cfgs[letter], norm == "batch").eval()
    ours = VGG(depth, norm=norm).eval()
    body = ours.layers[: list(dict(ours.layers.named_children())).index("mean")]
    weights = zip(body.state_dict().values(), theirs.state_dict().values(), strict=True)
    with torch.no_grad():
        for own, other in weights:
            own.copy_(other)
        x = torch.randn(2, 3, 32, 32)
        torch.testing.assert_close(body(x), theirs(x))


@pytest.mark.parametrize("width", [0.25, 2])
def test_the_width_multiplies_every_channel_and_every_linear_layer(width):
    with torch.device("meta"):
        plain, wide = VGG(11), VGG(11, width=width)
    for kind, attribute in ((nn.Conv2d, "out_channels"), (nn.Linear, "in_features")):
        ours = [getattr(layer, attribute) for layer in layers_of(wide, kind)]
        assert ours == [getattr(layer, attribute) * width for layer in layers_of(plain, kind)]
    assert wide.output.out_features == 10


@pytest.mark.parametrize(
    ("convs", "channels"),
    [(16, [64] * 2 + [128] * 2 + [256] * 4 + [512] * 8), (5, [64] * 2 + [128] * 2 + [256]), (1, [64])],
)
def test_a_shorter_network_loses_its_deepest_convolutions_and_keeps_its_pools(convs, channels):
    with torch.device("meta"):
        net = VGG(19, convs=convs)
        out = net(torch.randn(2, 3, 32, 32))
    assert [layer.out_channels for layer in layers_of(net, nn.Conv2d)] == channels
    assert len(layers_of(net, nn.MaxPool2d)) == 5
    assert layers_of(net, nn.Linear)[0].in_features == channels[-1]
    assert out.shape == (2, 10)


@pytest.mark.parametrize("size", [8, 28, 32, 64])
@pytest.mark.parametrize("channels", [1, 3])
def test_grey_and_colour_images_of_many_sizes_are_taken(size, channels):
    with torch.device("meta"):
        assert VGG(13, 0.1, 7, channels)(torch.randn(2, channels, size, size)).shape == (2, 7)


def test_images_of_32_pixels_end_as_one_position():
    net = VGG(11, 0.05)
    seen = {}
    net.layers.pool5.register_forward_hook(lambda module, args, output: seen.update(shape=output.shape))
    net(torch.randn(2, 3, 32, 32))
    assert seen["shape"][2:] == (1, 1)


def test_without_norm_there_is_none():
    assert not layers_of(VGG(11, 0.05, norm="none"), nn.BatchNorm2d)
    assert len(layers_of(VGG(11, 0.05), nn.BatchNorm2d)) == 8


def test_a_layers_number_is_in_the_name_of_its_place():
    net = VGG(19, 0.05, 3)
    x, y = torch.randn(24, 3, 32, 32), torch.arange(24) % 3
    scan = winze.scan(net.eval(), (x, y), (x, y), measures=["probe"])
    convs = [f"layers.conv{number}.relu" for number in range(1, 17)]
    assert [place.name for place in scan.places] == [*convs, "layers.fc17.relu", "layers.fc18.relu", "output"]


@pytest.mark.parametrize("at", ["layers.conv3.relu", "layers.fc9.relu"])
def test_a_cut_vgg_predicts_what_the_probe_did(at):
    net = VGG(11, 0.1, 3).eval()
    x, y = torch.randn(30, 3, 16, 16), torch.arange(30) % 3
    scan = winze.scan(net, (x, y), (x, y), measures=["probe"])
    small = winze.truncate(net, scan, at=at, measure=False).eval()
    index = [place.name for place in scan.places].index(at)
    with torch.no_grad():
        right = small(x).argmax(1) == y
    assert right.tolist() == scan.readings.arrays["correct/data"][index].tolist()


def test_there_are_no_junctions_to_rewire():
    net = VGG(11, 0.05)
    assert winze.junctions(net) == []
    with pytest.raises(winze.CaptureError, match="no junction"):
        winze.rewire(net, winze.NoShortcut())


def test_the_scale_of_the_stream_survives_sixteen_convolutions_without_norm():
    net, x = VGG(19, 0.5, norm="none"), torch.randn(4, 3, 12, 12)
    with torch.no_grad():
        for layer in (layer for name, layer in net.layers.named_children() if name.startswith("conv")):
            x = layer(x)  # without the pools, which take maxima
    assert 0.05 < x.pow(2).mean() < 5


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"depth": 17}, "depth of 11, 13, 16, 19, not 17"),
        ({"width": 0.0}, "positive factor"),
        ({"classes": 0}, "classes must be at least 1"),
        ({"channels": 0}, "channels must be at least 1"),
        ({"convs": 17}, "at least 1 and at most 16, not 17"),
        ({"convs": 0}, "at least 1 and at most 16, not 0"),
    ],
)
def test_what_is_no_vgg_is_refused(options, says):
    with pytest.raises(NetworkError, match=says):
        VGG(**options)


def test_the_tables_of_depths_agree_with_their_names():
    assert all(sum(stages) + 3 == depth for depth, stages in CONVS.items())
