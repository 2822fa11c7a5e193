import pytest
import torch
from torch import nn

from winze import DecayedIdentity, junctions, rewire
from winze.networks import MLP, NetworkError, ResidualMLP


def parameters(net: nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


@pytest.mark.parametrize("depth", [1, 6, 8, 12])
def test_an_mlp_has_its_depth_of_hidden_layers_and_one_output(depth):
    inputs, width, classes = 12, 7, 3
    hidden = inputs * width + width + (depth - 1) * (width * width + width)
    assert parameters(MLP(inputs, width, depth, classes)) == hidden + width * classes + classes


def test_mlp_12_of_the_thesis_has_13_linear_layers_and_14_7_million_parameters():
    with torch.device("meta"):
        net = MLP(depth=12)
    assert sum(isinstance(m, nn.Linear) for m in net.modules()) == 13
    assert parameters(net) == 3072 * 1024 + 1024 + 11 * (1024 * 1024 + 1024) + 1024 * 10 + 10 == 14_702_602


@pytest.mark.parametrize(("norm", "extra"), [("none", 0), ("layer", 2 * 7), ("batch", 2 * 7)])
def test_a_residual_mlp_has_an_input_its_depth_of_residual_layers_and_an_output(norm, extra):
    inputs, width, depth, classes = 12, 7, 5, 3
    counted = inputs * width + width + depth * (width * width + width + extra) + width * classes + classes
    assert parameters(ResidualMLP(inputs, width, depth, classes, norm=norm)) == counted


def test_a_residual_mlp_has_one_junction_a_layer():
    found = junctions(ResidualMLP(12, 7, 5, 3))
    assert [j.place.name for j in found] == [f"layers.{i}" for i in range(5)]
    assert {j.kind for j in found} == {"identity"}


def test_a_rule_changes_what_a_residual_mlp_computes():
    net, x = ResidualMLP(12, 7, 5, 3), torch.randn(4, 12)
    before = net(x)
    assert not torch.equal(rewire(net, DecayedIdentity(0.2))(x), before)


@pytest.mark.parametrize("kind", [MLP, ResidualMLP])
def test_images_are_flattened(kind):
    net, x = kind(48, 5, 2, 3), torch.randn(2, 3, 4, 4)
    assert torch.equal(net(x), net(x.flatten(1)))


@pytest.mark.parametrize("kind", [MLP, ResidualMLP])
@pytest.mark.parametrize("sizes", [(0, 4, 2, 3), (4, 0, 2, 3), (4, 4, 0, 3), (4, 4, 2, 0)])
def test_a_size_below_one_is_refused(kind, sizes):
    with pytest.raises(NetworkError, match="must be at least 1"):
        kind(*sizes)


def test_the_scale_of_the_stream_survives_twelve_layers_of_an_mlp():
    net, x = MLP(64, 256, 12, 10), torch.randn(64, 64)
    ratio = net.layers(x).pow(2).mean() / x.pow(2).mean()
    assert 0.2 < ratio < 5


def test_the_output_of_an_mlp_can_start_from_almost_nothing():
    torch.manual_seed(0)
    plain = MLP(4, 8, 2, 3)
    torch.manual_seed(0)
    small = MLP(4, 8, 2, 3, alpha=1e-12)
    assert 0 < small.output.weight.abs().max() <= 1e-12
    assert torch.equal(small.layers[1][0].weight, plain.layers[1][0].weight)


@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_a_norm_on_the_logits_of_an_mlp_sets_their_scale(norm):
    torch.manual_seed(0)
    logits = MLP(4, 64, 2, 3, output_norm=norm)(100 * torch.randn(64, 4))
    spread = logits.std(1 if norm == "layer" else 0, correction=0)
    torch.testing.assert_close(spread, torch.ones_like(spread), rtol=1e-3, atol=1e-3)


def test_an_output_that_starts_from_nothing_is_refused():
    with pytest.raises(NetworkError, match="alpha is a positive number"):
        MLP(4, 8, 2, 3, alpha=0.0)
