"""OOD data: which classes, how long the training, and which sets."""

from itertools import pairwise

import pytest

from winze.readings import Point
from winze.recipes.tunnel.ood import ORDER, recipe, some


def test_subsets_of_a_set_lie_inside_each_other():
    inside = [set(some("cifar100", count)[9:-1].split(",")) for count in (5, 10, 20, 50)]
    assert [len(one) for one in inside] == [5, 10, 20, 50]
    assert all(small < large for small, large in pairwise(inside))
    assert sorted(ORDER) == list(range(100))


@pytest.mark.parametrize(
    ("scale", "source", "parts", "rate", "whole"),
    [
        ("gpu", "tinyimagenet100", (10, 30, 100), 0.03, 20),
        ("gpu", "tinyimagenet100", (10, 30, 100), 0.1, 16),
        ("paper", "cifar100", (30, 50, 100), 0.1, 160),
    ],
)
def test_networks_trained_on_fewer_classes_take_as_many_steps(scale, source, parts, rate, whole):
    for part in parts:
        config = recipe.config(scale, Point(network="vgg19", source=source, classes=part, rate=rate))
        name, training = config.data.name, config.training
        assert (len(name.split(",")) if "[" in name else 100) == part
        assert round(training.length.count * part / 100) == whole
        turns = (training.schedule.warmup.count,) if rate == 0.03 else training.schedule.at
        shares = [turn / training.length.count for turn in turns]
        assert shares == pytest.approx([2 / 20] if rate == 0.03 else [0.5, 0.75], abs=0.02)
        assert config.reading.ood == ("cifar10",)


def test_every_set_of_the_thesis_is_asked_for_at_both_large_scales():
    for scale in ("gpu", "paper"):
        asked = " ".join(
            recipe.config(scale, Point(network="vgg19", source="cifar10", classes=100, rate=0.1)).reading.ood
        )
        for name in ("stl10", "svhn", "food101", "flowers102", "places365", "pets", "cifar100"):
            assert name in asked
