"""From places to the papers' layer numbers."""

import pytest
import torch

from winze.lab.layers import WITH, WITHOUT, countings, layer_count, weight_layers
from winze.networks import MLP, VGG, ResNet, build
from winze.observe.places.find_places import find_spots


def names(net, shape, where=None):
    return [spot.place.name for spot in find_spots(net, torch.zeros(2, *shape), where)]


def test_blocks_of_a_resnet34_are_the_odd_layers_and_its_spike_is_at_27_or_29():
    net = ResNet(34, stem="thesis", width=0.125)
    told = countings(net, names(net, (3, 32, 32)))
    assert told[WITHOUT] == list(range(3, 35, 2))
    assert told[WITHOUT][12] == 27
    assert told[WITH][12] == 29
    assert told[WITH][-1] == 36
    assert layer_count(net) == 34


def test_layers_of_a_vgg19_are_numbered_from_1_to_19():
    net = VGG(19, width=0.125)
    assert countings(net, names(net, (3, 32, 32), "layers")) == {WITHOUT: list(range(1, 20))}
    assert layer_count(net) == 19


def test_layers_of_an_mlp12_are_numbered_from_1_to_13():
    net = MLP(48, width=8, depth=12)
    assert countings(net, names(net, (3, 4, 4), "layers")) == {WITHOUT: list(range(1, 14))}
    assert layer_count(net) == 13


def test_a_resnet20_has_20_layers():
    assert layer_count(build("winze/resnet20")) == 20


@pytest.mark.parametrize("name", ["resnet50", "torchvision/resnet18"])
def test_projections_of_others_are_no_layers(name):
    assert layer_count(build(name, 10)) == int(name[-2:])


def test_weight_layers_are_all_but_projections():
    net = build("winze/resnet18x0.0625")
    layers = weight_layers(net)
    assert len(layers) == 18
    assert layers[0] is net.stem.conv
    assert layers[-1] is net.output


def test_an_unknown_place_raises():
    with pytest.raises(ValueError, match="no module 'nowhere'"):
        countings(MLP(4, width=2, depth=1), ["nowhere"])
