import copy

import pytest
import torch
import torchvision
from torch import nn

import winze
from winze.networks import NetworkError, ResNet, describe

RULES = [
    winze.Standard(),
    winze.NoShortcut(),
    winze.DecayedIdentity(0.3),
    winze.Scaled(0.7, 0.5),
    winze.DropPath(0.2),
    winze.Highway(),
]


def parameters(net: nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


def small(depth: int = 18, **options) -> ResNet:
    torch.manual_seed(1)
    return lively(ResNet(depth, 0.1, 3, **options))


def lively(net: nn.Module) -> nn.Module:
    """Give BatchNorm statistics that are not those of a fresh network."""
    with torch.no_grad():
        for norm in (m for m in net.modules() if isinstance(m, nn.BatchNorm2d)):
            norm.running_mean.normal_(0, 0.2)
            norm.running_var.uniform_(0.5, 1.5)
            norm.weight.uniform_(0.5, 1.5)
            norm.bias.normal_(0, 0.2)
    return net.eval()


def random_images(n: int = 24, size: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(n, 3, size, size, generator=generator), torch.arange(n) % 3


@pytest.mark.parametrize(("depth", "count"), [(18, 11_173_962), (20, 272_474), (34, 21_282_122)])
def test_the_parameters_are_the_published_ones_with_the_stem_for_cifar(depth, count):
    with torch.device("meta"):
        assert parameters(ResNet(depth)) == count


@pytest.mark.parametrize("depth", [18, 34])
def test_the_parameters_but_for_the_stem_are_torchvisions(depth):
    with torch.device("meta"):
        theirs = torchvision.models.get_model(f"resnet{depth}", weights=None)
        ours = ResNet(depth, classes=1000, stem="thesis")
    assert parameters(ours) == parameters(theirs)


@pytest.mark.parametrize("depth", [18, 34])
def test_the_stages_compute_what_torchvisions_do(depth):
    theirs = torchvision.models.get_model(f"resnet{depth}", weights=None)
    layers = lively(nn.Sequential(theirs.layer1, theirs.layer2, theirs.layer3, theirs.layer4))
    stages = ResNet(depth).stages.eval()
    with torch.no_grad():
        for own, other in zip(stages.state_dict().values(), layers.state_dict().values(), strict=True):
            own.copy_(other)
        x = torch.rand(2, 64, 16, 16)
        torch.testing.assert_close(stages(x), layers(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("depth", "blocks"), [(18, 8), (20, 9), (34, 16)])
def test_every_block_is_a_junction_and_shapes_change_by_projections(depth, blocks):
    found = winze.junctions(small(depth))
    assert len(found) == blocks
    projected = [j.place.name for j in found if j.kind == "projection"]
    assert projected == [f"stages.{stage}.0" for stage in range(1, 3 if depth == 20 else 4)]


@pytest.mark.parametrize("blocks", [8, 12, 16])
def test_the_third_stage_makes_networks_of_8_to_16_blocks(blocks):
    with torch.device("meta"):
        net = ResNet(18, 0.1, blocks=blocks)
    assert [len(stage) for stage in net.stages] == [2, 2, blocks - 6, 2]
    assert sum(isinstance(module, winze.Junction) for module in net.modules()) == blocks


@pytest.mark.parametrize(("stem", "stride", "side"), [("cifar", 2, 32), ("thesis", 2, 8), ("thesis", 1, 16)])
def test_a_stem_makes_the_maps_of_its_size(stem, stride, side):
    with torch.device("meta"):
        net = ResNet(18, stem=stem, stem_stride=stride)
        assert net.stem(torch.randn(1, 3, 32, 32)).shape == (1, 64, side, side)
        assert net.stem.conv.kernel_size == ((3, 3) if stem == "cifar" else (7, 7))


@pytest.mark.parametrize("stem", ["cifar", "thesis"])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [8, 28, 32])
def test_grey_and_colour_images_of_many_sizes_are_taken(stem, channels, size):
    with torch.device("meta"):
        net = ResNet(20, 0.5, 7, channels, stem)
        assert net(torch.randn(2, channels, size, size)).shape == (2, 7)


def test_the_width_multiplies_every_channel():
    with torch.device("meta"):
        plain, wide = ResNet(18), ResNet(18, width=2)
    convs = [[m.out_channels for m in net.modules() if isinstance(m, nn.Conv2d)] for net in (plain, wide)]
    assert convs[1] == [2 * channels for channels in convs[0]]
    assert wide.output.in_features == 1024


def test_strides_are_those_of_the_stages():
    with torch.device("meta"):
        net = ResNet(18, 0.125, strides=[1, 1, 2, 2])
        assert net.stages(net.stem(torch.randn(1, 3, 8, 8))).shape == (1, 64, 2, 2)


@pytest.mark.parametrize("zero", [False, True])
def test_a_last_norm_that_starts_at_zero_lets_the_shortcut_pass_alone(zero):
    block = ResNet(18, 0.1, zero_init_last=zero).stages[0][1]
    x = torch.randn(4, 6, 8, 8)
    assert torch.equal(block(x), x.relu()) == zero


@pytest.mark.parametrize("depth", [18, 20, 34])
def test_without_shortcuts_a_network_is_plain_and_its_projections_never_run(depth):
    net = winze.rewire(small(depth), winze.NoShortcut())
    blocks = [m for m in net.modules() if isinstance(m, winze.Junction)]
    ran = []
    for block in blocks:
        if block.shortcut is not None:
            block.shortcut.register_forward_hook(lambda *_: ran.append(1))
    x, _ = random_images()
    with torch.no_grad():
        expected = net.stem(x)
        for block in blocks:
            expected = block.branch(expected).relu()
        assert torch.equal(net(x), net.output(expected.mean((2, 3))))
    assert not ran
    winze.rewire(net, winze.Standard())
    net(x)
    assert ran


def test_decayed_shortcuts_fade_over_the_blocks_projections_too():
    net = winze.rewire(small(), winze.DecayedIdentity(0.3))
    blocks = [m for m in net.modules() if isinstance(m, winze.Junction)]
    x, _ = random_images()
    with torch.no_grad():
        h = net.stem(x)
        for index, block in enumerate(blocks):
            shortcut = h if block.shortcut is None else block.shortcut(h)
            h = ((1 - 0.7 * index / 7) * shortcut + block.branch(h)).relu()
        torch.testing.assert_close(net(x), net.output(h.mean((2, 3))))


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_every_rule_fits_and_learns(rule):
    net = winze.rewire(small(20), rule).train()
    x, y = random_images()
    nn.functional.cross_entropy(net(x), y).backward()
    assert all(p.grad is not None for j in winze.junctions(net) for p in j.branch.parameters())


def test_the_standard_rule_and_junctions_leave_a_network_as_it_was():
    net, (x, _) = small(), random_images()
    before, keys = net(x), list(net.state_dict())
    winze.rewire(winze.rewire(net, winze.DecayedIdentity(0.3)), winze.Standard())
    assert torch.equal(net(x), before)
    assert list(net.state_dict()) == keys


@pytest.mark.parametrize("depth", [18, 20, 34])
def test_places_are_the_blocks_and_as_layers_every_convolution_and_the_output(depth):
    net, data = small(depth), random_images()
    blocks = [j.place.name for j in winze.junctions(net)]
    scan = winze.scan(net, data, data, measures=["probe"])
    assert [place.name for place in scan.places] == blocks
    layers = [place.name for place in winze.scan(net, data, data, places="layers", measures=["probe"]).places]
    inner = [name for block in blocks for name in (f"{block}.branch.relu", block)]
    assert layers == ["stem.relu", *inner, "output"]
    assert len(layers) == depth


@pytest.mark.parametrize("rule", [winze.Standard(), winze.NoShortcut()], ids=str)
def test_a_cut_resnet_predicts_what_the_probe_did(rule):
    net, (x, y) = winze.rewire(small(20), rule), random_images(30)
    scan = winze.scan(net, (x, y), (x, y), places="layers", measures=["probe"])
    names = [place.name for place in scan.places]
    for at in ("stages.1.0", "stages.2.0.branch.relu"):
        cut = winze.truncate(net, scan, at=at, measure=False).eval()
        with torch.no_grad():
            right = cut(x).argmax(1) == y
        assert right.tolist() == scan.readings.arrays["correct/data"][names.index(at)].tolist()


def test_a_cut_resnet_comes_back_from_its_file(tmp_path):
    net, (x, y) = small(20), random_images(30)
    scan = winze.scan(net, (x, y), (x, y), measures=["probe"])
    scan.readings.conventions = scan.readings.conventions.having(spec=describe("winze/resnet20x0.1", 3))
    cut = winze.truncate(net, scan, at="stages.1.1", measure=False).eval()
    again = winze.load(winze.save(cut, tmp_path / "cut.safetensors"))
    with torch.no_grad():
        assert torch.equal(again(x), cut(x))


def test_a_copy_of_a_network_computes_the_same():
    net, (x, _) = winze.rewire(small(), winze.DecayedIdentity(0.3)), random_images()
    assert torch.equal(copy.deepcopy(net)(x), net(x))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"depth": 50}, "depth of 18, 20, 34, not 50"),
        ({"width": -1.0}, "positive factor"),
        ({"classes": 0}, "classes must be at least 1"),
        ({"channels": 0}, "channels must be at least 1"),
        ({"blocks": 6}, "ResNet-18 has at least 7 blocks, not 6"),
        ({"strides": (1, 2)}, r"4 stages, and strides for as many, not \(1, 2\)"),
        ({"strides": (1, 2, 2, 0)}, "stride must be at least 1"),
        ({"stem": "thesis", "stem_stride": 3}, "stem_stride is 1 or 2"),
    ],
)
def test_what_is_no_resnet_is_refused(options, says):
    with pytest.raises(NetworkError, match=says):
        ResNet(**options)
