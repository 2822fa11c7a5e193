"""Layers of one network in the place of another's."""

import pytest
import torch

from winze.lab.layers import crossed, layer_of_each, weights_of
from winze.networks import MLP, VGG, ResNet


def pair(make):
    """Two networks of one kind, with statistics of norms that differ too."""
    nets = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        net = make()
        net.train()(torch.randn(8, 3, 8, 8))
        nets.append(net.eval())
    return nets


@pytest.mark.parametrize(
    ("make", "count"),
    [
        (lambda: MLP(192, width=8, depth=3), 4),
        (lambda: VGG(11, width=0.0625), 11),
        (lambda: ResNet(18, width=0.0625), 18),
    ],
)
def test_nothing_of_the_front_is_the_back_and_all_of_it_is_the_front(make, count):
    one, other = map(weights_of, pair(make))
    layers = layer_of_each(make())
    assert set(layers.values()) == set(range(1, count + 1))
    for upto, whole in ((0, other), (count, one)):
        mixed = crossed(one, other, layers, upto)
        assert all(torch.equal(mixed[name], whole[name]) for name in whole)


def test_a_crossed_network_is_its_front_up_to_the_cut_and_its_back_from_there():
    one, other = pair(lambda: VGG(11, width=0.0625))
    mixed = VGG(11, width=0.0625).eval()
    mixed.load_state_dict(crossed(weights_of(one), weights_of(other), layer_of_each(one), 4))
    x = torch.randn(4, 3, 8, 8)
    names = [name for name, _ in one.layers.named_children()]
    cut = names.index("conv4") + 1
    middle = one.layers[:cut](x)
    assert torch.equal(mixed.layers[:cut](x), middle)
    assert torch.equal(mixed(x), other.output(other.layers[cut:](middle)))


def test_statistics_of_a_norm_go_with_the_layer_before_it_and_projections_with_the_block():
    layers = layer_of_each(ResNet(18, width=0.0625))
    assert layers["stages.1.0.branch.norm1.running_mean"] == layers["stages.1.0.branch.conv1.weight"] == 6
    assert layers["stages.1.0.shortcut.conv.weight"] == layers["stages.1.0.branch.conv2.weight"] == 7


def test_copied_weights_stay_when_the_network_learns_on():
    net = MLP(4, width=2, depth=1)
    kept = weights_of(net)
    with torch.no_grad():
        net.output.weight.add_(1)
    assert not torch.equal(kept["output.weight"], net.output.weight)


def test_networks_of_other_weights_cannot_be_crossed():
    one, other = MLP(4, width=2, depth=1), MLP(4, width=2, depth=2)
    with pytest.raises(ValueError, match="do not have the same weights"):
        crossed(weights_of(one), weights_of(other), layer_of_each(one), 1)
