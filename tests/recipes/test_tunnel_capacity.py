"""Every cell of the tables of width and of classes is an arm with a claim."""

import pytest

from winze.recipes.tunnel.capacity import recipe

STARTS = [claim for claim in recipe.claims_at("paper") if "starts at layer" in claim.text]


def layers(arms, words):
    """The layers that are claimed for some arms, of claims whose text has the words."""
    told = {claim.check.arm: claim.check.layer for claim in STARTS if words in claim.text}
    return [told[arm] for arm in arms]


@pytest.mark.parametrize(
    ("network", "starts"),
    [("vgg16", [8, 7, 7]), ("vgg19", [8, 7, 7]), ("resnet18", [15, 13, 13]), ("resnet34", [24, 20, 24])],
)
def test_the_table_of_widths_is_claimed(network, starts):
    arms = [f"{network}_narrow", network, f"{network}_wide"]
    assert layers(arms, ", width ") == starts
    assert [recipe.config("paper", arm).network for arm in arms] == [
        f"winze/{network}{width}" for width in ("x0.25", "", "x2")
    ]


@pytest.mark.parametrize(
    ("network", "data", "starts"),
    [
        ("vgg19", "cifar10", [6, 7, 7]),
        ("vgg19", "cifar100", [8, 8, 9]),
        ("vgg19", "cinic10", [6, 7, 7]),
        ("resnet34", "cifar10", [19, 19, 21]),
        ("resnet34", "cifar100", [30, 30, 31]),
        ("resnet34", "cinic10", [9, 9, 17]),
    ],
)
def test_the_table_of_classes_is_claimed_and_takes_as_many_steps(network, data, starts):
    name = network if data == "cifar10" else f"{network}_{data}"
    arms = [f"{name}_30", f"{name}_50", name]
    assert layers(arms, " after ") == starts
    configs = [recipe.config("paper", arm) for arm in arms]
    whole = {"cifar10": 10, "cifar100": 100, "cinic10": 10}[data]
    assert [config.data for config in configs] == [
        f"{data}[0-{whole * 3 // 10 - 1}]",
        f"{data}[0-{whole // 2 - 1}]",
        data,
    ]
    epochs = [config.training.epochs for config in configs]
    assert [round(count * part) for count, part in zip(epochs, (0.3, 0.5, 1.0), strict=True)] == [epochs[-1]] * 3


def test_levels_are_claimed_within_two_layers_and_not_of_digits():
    assert all(claim.check.within == 2 and claim.check.layer == claim.paper for claim in STARTS)
    assert not [claim for claim in recipe.claims_at("cpu") if "starts at layer" in claim.text]
