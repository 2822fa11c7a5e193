"""Other data: which classes, how long, and what is said of sets that are not at hand."""

from itertools import pairwise

import pytest

from winze.recipes.tunnel.ood import SOURCES, recipe
from winze.recipes.tunnel.other_sets import ORDER, some


def test_subsets_of_a_set_lie_inside_each_other():
    inside = [set(some("cifar100", count)[9:-1].split(",")) for count in (5, 10, 20, 50)]
    assert [len(one) for one in inside] == [5, 10, 20, 50]
    assert all(small < large for small, large in pairwise(inside))
    assert sorted(ORDER) == list(range(100))


def test_networks_that_learn_fewer_classes_take_as_many_steps():
    for scale, whole in (("gpu", 20), ("paper", 160)):
        configs = [recipe.config(scale, arm) for arm in SOURCES]
        classes = [len(config.data.split(",")) if "[" in config.data else 100 for config in configs]
        assert classes == {"gpu": [10, 30, 100], "paper": [30, 50, 100]}[scale]
        assert [round(config.training.epochs * n / 100) for config, n in zip(configs, classes, strict=True)] == [
            whole
        ] * 3
        for config in configs:
            turns = (config.training.warmup,) if scale == "gpu" else config.training.milestones
            shares = [turn / config.training.epochs for turn in turns]
            assert shares == pytest.approx([2 / 20] if scale == "gpu" else [0.5, 0.75], abs=0.01)
            assert config.ood == ("cifar10",)


def test_every_set_of_the_thesis_is_asked_for_at_both_large_scales():
    for scale in ("gpu", "paper"):
        asked = " ".join(recipe.config(scale, "vgg19").ood)
        for name in ("stl10", "svhn", "food101", "flowers102", "places365", "pets", "cifar100"):
            assert name in asked
