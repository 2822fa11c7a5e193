import pytest
import timm
import torch
import torchvision
from nets import ResidualMLP, ResNet, mlp, vgg
from samples import hooks_of, images, lively, loader, outputs_of, rows
from torch import Tensor, nn

import winze
from winze.observe.places.find_places import Spot, find_spots
from winze.observe.places.pooling import Layout, pooled


def names(spots: list[Spot]) -> list[str]:
    return [spot.place.name for spot in spots]


def test_the_places_of_a_foreign_network_are_the_blocks_that_hold_junctions():
    assert names(find_spots(ResNet(), images(2)[0])) == ["blocks.0", "blocks.1", "blocks.2"]


def test_the_places_of_a_native_network_are_its_junctions():
    assert names(find_spots(ResidualMLP(depth=3), rows(2)[0])) == ["blocks.0", "blocks.1", "blocks.2"]


@pytest.mark.parametrize(("name", "kinds"), [("test_vit", {"Block"}), ("test_resnet", {"BasicBlock", "Bottleneck"})])
def test_the_places_of_a_timm_network_are_its_blocks(name, kinds):
    net = timm.create_model(name)
    blocks = [own for own, module in net.named_modules() if type(module).__name__ in kinds]
    assert names(find_spots(net, torch.randn(2, 3, 160, 160))) == blocks


def test_places_are_numbered_in_the_order_in_which_they_are_computed():
    class Backwards(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = winze.Junction(nn.Linear(4, 4))
            self.first = winze.Junction(nn.Linear(4, 4))

        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.first(x))

    spots = find_spots(Backwards(), torch.randn(2, 4))
    assert [(s.place.index, s.place.total, s.place.name) for s in spots] == [(0, 2, "first"), (1, 2, "last")]


def test_a_network_without_junctions_falls_back_to_layers():
    net, x = mlp(depth=2), rows(2)[0]
    assert names(find_spots(net, x)) == names(find_spots(net, x, "layers")) == ["1", "3", "4"]


class Recurrent(nn.Module):
    """A recurrent layer over six steps of two features, and a linear one on its last step."""

    def __init__(self, kind: type[nn.RNNBase], batch_first: bool) -> None:
        super().__init__()
        self.stream, self.head = kind(2, 5, batch_first=batch_first), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = x.view(-1, 6, 2)
        out, _ = self.stream(x if self.stream.batch_first else x.transpose(0, 1))
        return self.head(out[:, -1] if self.stream.batch_first else out[-1])


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_are_layers_and_those_that_begin_with_time_are_named(kind):
    first, last = (winze.scan(Recurrent(kind, first), rows(40), rows(40), measures="rank") for first in (True, False))
    assert [place.name for place in first.places] == ["stream", "head"]
    assert first.curve("features").tolist() == [5, 3]
    assert first.readings.conventions["notes"] == []
    assert [place.name for place in last.places] == ["head"]
    assert "stream (the first axis is time, not samples: make it" in last.readings.conventions["notes"][0]


def test_layers_that_begin_with_time_have_a_note_of_their_own():
    net = Recurrent(nn.LSTM, False)
    net.head = nn.Linear(5, 5)
    net.head.register_forward_hook(lambda module, args, output: output + args[0])
    notes = winze.scan(net, rows(40), rows(40), measures="rank").readings.conventions["notes"]
    ends = [note.partition(": ")[2] for note in notes if note.startswith("could not be read")]
    assert [end.partition(" (")[0] for end in ends] == ["head", "stream"]
    assert ["places=" in end for end in ends] == [True, False]


def test_layers_of_a_vgg_end_after_their_activation_and_the_logits_come_last():
    assert names(find_spots(vgg(), images(2)[0], "layers")) == ["2", "6", "10", "12"]


def test_layers_of_a_resnet18_are_eighteen():
    net = torchvision.models.resnet18(num_classes=4)
    blocks = [f"layer{i}.{j}" for i in range(1, 5) for j in range(2)]
    inner = [place for block in blocks for place in (f"{block}.relu", block)]
    assert names(find_spots(net, torch.randn(2, 3, 32, 32), "layers")) == ["relu", *inner, "fc"]


def test_a_relu_that_is_called_twice_is_read_at_the_call_that_ends_its_layer():
    net, x = lively(ResNet()), images(2)[0]
    spots = find_spots(net, x, "blocks.0.relu")
    assert names(spots) == ["blocks.0.relu", "blocks.0.relu:2"]
    assert [spot.call for spot in spots] == [0, 1]


def test_both_calls_of_a_module_give_their_own_features():
    net, (x, y) = lively(ResNet()), images(40)
    scan = winze.scan(net, None, (x, y), places="blocks.0.relu", measures=["norm"])
    expected = [outputs_of(net, "blocks.0.relu", x, call).double().mean((2, 3)).norm(dim=1).mean() for call in (0, 1)]
    assert scan.curve("sample_norm").tolist() == pytest.approx([float(e) for e in expected], rel=1e-5)


def test_a_module_called_twice_is_two_places():
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(torch.tanh(self.layer(x)))

    assert names(find_spots(Twice(), torch.randn(2, 4), "layers")) == ["layer", "layer:2"]


def test_globs_and_names_are_found_in_the_order_in_which_they_are_computed():
    assert names(find_spots(ResNet(), images(2)[0], ["head", "blocks.?.conv1", "stem"])) == [
        "stem",
        "blocks.0.conv1",
        "blocks.1.conv1",
        "blocks.2.conv1",
        "head",
    ]


def test_names_of_nested_modules_keep_their_own_features():
    net, (x, y) = lively(ResNet()), images(40)
    scan = winze.scan(net, None, (x, y), places=["blocks", "blocks.2", "blocks.2.bn2", "stem"], measures=["norm"])
    assert [place.name for place in scan.places] == ["stem", "blocks.2.bn2", "blocks.2", "blocks"]
    for place, value in zip(scan.places, scan.curve("sample_norm"), strict=True):
        expected = outputs_of(net, place.name, x).double().mean((2, 3)).norm(dim=1).mean()
        assert value == pytest.approx(float(expected), rel=1e-5)


def test_an_unknown_place_raises_with_the_nearest_names():
    with pytest.raises(ValueError, match=r"blocks\.9.*nearest.*blocks\.2"):
        find_spots(ResNet(), images(2)[0], ["stem", "blocks.9"])


def test_a_module_that_is_never_called_is_no_place():
    net = ResNet()
    net.spare = nn.Linear(2, 2)
    with pytest.raises(ValueError, match="'spare'"):
        find_spots(net, images(2)[0], "spare")


def test_finding_places_leaves_no_hooks():
    net = ResNet()
    find_spots(net, images(2)[0], "layers")
    assert hooks_of(net) == 0


class ChannelsLast(nn.Module):
    """As Swin keeps its stream: [sample, height, width, channel], as high and wide as it has channels."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 8, 1)
        self.block = winze.Junction(nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8)))
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.block(self.embed(x).permute(0, 2, 3, 1)).mean((1, 2)))


def test_channels_last_maps_are_known_by_the_linear_layer_that_made_them():
    net, (x, y) = ChannelsLast(), images(40)
    scan = winze.scan(net, None, (x, y), measures=["norm"])
    expected = outputs_of(net, "block", x).double().mean((1, 2)).norm(dim=1).mean()
    assert scan.curve("sample_norm").tolist() == pytest.approx([float(expected)], rel=1e-5)


def test_tokens_hold_channels_last():
    net = timm.create_model("test_vit")
    spots = find_spots(net, torch.randn(2, 3, 160, 160))
    assert {spot.layout for spot in spots} == {Layout(2)}


def test_feature_maps_hold_channels_first():
    assert {spot.layout for spot in find_spots(ResNet(), images(2)[0])} == {Layout(1)}


class Windows(nn.Module):
    """Folds four windows of each image into the batch axis, as MobileViT does."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(3, 6)
        self.block = winze.Junction(nn.Linear(6, 6))
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        patches = x.unfold(2, 4, 4).unfold(3, 4, 4).permute(0, 2, 3, 4, 5, 1).reshape(-1, 16, 3)
        out = self.block(self.embed(patches))
        return self.head(out.reshape(len(x), -1, 6).mean(1))


def test_windows_folded_into_the_batch_axis_are_put_back_to_their_sample():
    net, (x, y) = Windows(), images(40)
    assert [spot.layout for spot in find_spots(net, x[:2])] == [Layout(2, 4)]
    scan = winze.scan(net, None, (x, y), measures=["norm"])
    expected = outputs_of(net, "block", x).double().reshape(40, 64, 6).mean(1).norm(dim=1).mean()
    assert scan.curve("sample_norm").tolist() == pytest.approx([float(expected)], rel=1e-5)


class Unclear(nn.Module):
    """A map that no convolution, linear layer or norm made."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.act = nn.Tanh()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.scale * x).mean((2, 3))


def test_an_unclear_layout_raises_and_asks_for_it():
    with pytest.raises(ValueError, match=r"'act'.*\(2, 3, 8, 8\).*layout="):
        find_spots(Unclear(), images(2)[0], "act")


@pytest.mark.parametrize(("layout", "axes"), [("BCHW", (2, 3)), ("BHWC", (1, 2))])
def test_a_given_layout_settles_an_unclear_one(layout, axes):
    net, (x, y) = Unclear(), images(40)
    scan = winze.scan(net, None, (x, y), places="act", measures=["norm"], layout=layout)
    expected = torch.tanh(x).double().mean(axes).norm(dim=1).mean()
    assert scan.curve("sample_norm").tolist() == pytest.approx([float(expected)], rel=1e-5)


def test_a_layout_that_does_not_fit_raises():
    with pytest.raises(ValueError, match="layout must be one of"):
        find_spots(mlp(), rows(2)[0], "layers", "BHWC")


@pytest.mark.parametrize(
    ("width", "words"),
    [
        (5, "the first axis of"),
        (4, "the first axis of"),  # twice the samples of the example
        (2, "2 rows for 4 samples; leave it out with places="),  # as many as the example has
    ],
)
def test_a_place_without_samples_on_its_first_axis_raises(width, words):
    class Flipped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.turn = nn.Linear(4, width), nn.Identity()

        def forward(self, x: Tensor) -> Tensor:
            return self.turn(self.layer(x).T).T

    with pytest.raises(ValueError, match=f"'turn': {words}"):
        winze.scan(Flipped(), None, loader((torch.randn(9, 4), torch.arange(9) % 3), 4), places="turn")


@pytest.mark.parametrize("pool", ["mean", "flatten", 2])
def test_pooling_a_map_in_bfloat16_sums_in_float32(pool):
    rounded = torch.rand(3, 4, 6, 6).bfloat16()
    wide = pooled(rounded.float(), Layout(1), pool)
    torch.testing.assert_close(pooled(rounded, Layout(1), pool).float(), wide, rtol=1e-6, atol=0)
