"""Every cell of the thesis's tables of width and of classes is a point, and fewer classes take as many steps."""

import pytest

from winze.readings import Point
from winze.recipes.tunnel._tables import STARTS
from winze.recipes.tunnel.capacity import AT_RATES, AXES, recipe
from winze.recipes.tunnel.main import recipe as main

PUBLISHED = recipe.grid("paper").points


def config(network, width=1, data="cifar10", classes=100, rate=0.1, scale="paper"):
    return recipe.config(scale, Point(network=network, width=width, data=data, classes=classes, rate=rate))


def test_every_published_cell_is_a_point_and_has_a_claim():
    assert {tuple(point[axis] for axis in AXES[:-1]) for point in PUBLISHED} == set(STARTS)
    starts, *_ = recipe.claims
    assert len(starts.cells(recipe.grid("paper"))) == len(PUBLISHED) == len(STARTS)
    assert starts.check.claimed == AT_RATES
    assert starts.check.within == 2


@pytest.mark.parametrize("network", ["vgg16", "vgg19", "resnet18", "resnet34"])
def test_widths_are_options_of_one_network(network):
    wide, usual = config(network, 2), config(network)
    assert wide.network.name == usual.network.name == f"winze/{network}"
    assert wide.network.options == {**usual.network.options, "width": 2}


@pytest.mark.parametrize("data", ["cifar10", "cifar100", "cinic10"])
@pytest.mark.parametrize("network", ["vgg19", "resnet34"])
def test_fewer_classes_take_as_many_steps(network, data):
    count = 100 if data == "cifar100" else 10
    some = {part: config(network, data=data, classes=part) for part in (30, 50, 100)}
    assert [one.data.name for one in some.values()] == [
        f"{data}[0-{count * 3 // 10 - 1}]",
        f"{data}[0-{count // 2 - 1}]",
        data,
    ]
    epochs = {part: one.training.length.count for part, one in some.items()}
    assert [round(count * part / 100) for part, count in epochs.items()] == [epochs[100]] * 3


def test_digits_have_no_published_numbers():
    starts = [claim for one in (recipe, main) for claim in one.claims if "starts at" in claim.text]
    assert len(starts) == 2
    assert not [
        claim for claim in starts if claim.cells(recipe.grid("cpu") if claim in recipe.claims else main.grid("cpu"))
    ]
