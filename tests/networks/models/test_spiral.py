import pytest
import torch
import torch.nn.functional as F

import winze
from winze.data import spiral
from winze.networks import NetworkError, SpiralMLP


@pytest.mark.parametrize(("depth", "width"), [(6, 6), (32, 32)])
def test_a_spiral_mlp_computes_its_equation(depth, width):
    net, x = SpiralMLP(width=width, depth=depth).double(), torch.randn(9, 2, dtype=torch.float64)
    h = F.linear(x, net.input.weight, net.input.bias)
    for layer in net.layers:
        h = h + F.gelu(F.linear(h, layer.branch[0].weight, layer.branch[0].bias))
    torch.testing.assert_close(net(x), F.linear(h, net.output.weight, net.output.bias))


def test_its_parameters_are_counted_by_hand():
    assert sum(p.numel() for p in SpiralMLP().parameters()) == 18 + 6 * 42 + 14


def test_every_layer_is_a_junction_and_a_place():
    net = SpiralMLP()
    names = [f"layers.{index}" for index in range(6)]
    assert [j.place.name for j in winze.junctions(net)] == names
    data = spiral(50)
    assert [place.name for place in winze.scan(net, data, data, measures=["probe"]).places] == names


def test_it_learns_a_small_spiral():
    torch.manual_seed(0)
    net, (x, y) = SpiralMLP(width=16), spiral(128)
    optimizer = torch.optim.Adam(net.parameters(), 0.03)
    for _ in range(60):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
    assert (net(x).argmax(1) == y).float().mean() > 0.95


@pytest.mark.parametrize("name", ["inputs", "width", "depth", "classes"])
def test_a_size_below_one_is_refused(name):
    with pytest.raises(NetworkError, match=f"{name} must be at least 1"):
        SpiralMLP(**{name: 0})


def test_an_unknown_activation_is_refused_by_name():
    with pytest.raises(NetworkError, match="'tanh'"):
        SpiralMLP(activation="step")


def test_the_activation_is_inside_every_branch():
    net = SpiralMLP(depth=2, activation="tanh")
    assert [type(layer.branch[1]).__name__ for layer in net.layers] == ["Tanh", "Tanh"]
