"""Layers put from one network into another, one by one."""

import numpy as np
import pytest

from winze.lab.bench import Bench
from winze.recipes.tunnel.substitution import gain_above, mean_loss, recipe, replaceable, work
from winze.report import facts
from winze.report.means import layer_numbers


def test_the_two_curves_begin_where_the_other_ends(tmp_path):
    bench = Bench(tmp_path)
    work(recipe.config("smoke", "five_five"), bench)
    for task in ("task 1", "task 2"):
        one, two = (facts.column(bench.readings, f"front_{front}", task) for front in (1, 2))
        assert len(one) == len(two) == 11  # VGG-11 has ten hidden layers
        assert (one[0], one[-1]) == (two[-1], two[0])
    assert layer_numbers(bench.readings) == {x: x for x in range(11)}


def test_gain_is_the_best_that_more_layers_reach_over_what_so_many_do():
    curve = np.array([0.1, 0.5, 0.6, 0.9, 0.8])
    assert gain_above(curve, 2) == pytest.approx(0.3)
    assert gain_above(curve, 3) == pytest.approx(-0.1)


def test_the_mean_loss_is_over_the_top_ten_layers_but_not_over_none():
    curve = np.r_[0.0, np.full(10, 0.7), 0.9]
    assert mean_loss(curve) == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("curve", "share"),
    [
        ([0.9, 0.9, 0.9, 0.9, 0.9], 1.0),
        ([0.1, 0.2, 0.3, 0.4, 0.9], 0.0),
        ([0.1, 0.2, 0.89, 0.9, 0.9], 0.5),
        ([0.9, 0.9, 0.9, 0.5, 0.9], 0.0),  # the layers below a loss do not count
    ],
)
def test_layers_can_be_replaced_from_the_top_until_the_first_loss(curve, share):
    assert replaceable(np.array(curve)) == share


def test_all_splits_and_widths_of_the_thesis_are_arms():
    configs = {arm: recipe.config("paper", arm) for arm in recipe.arms_at("paper")}
    assert {(config.network, config.tasks) for config in configs.values()} == {
        ("winze/vgg19", (3, 7)),
        ("winze/vgg19", (5, 5)),
        ("winze/vgg19", (7, 3)),
        *((f"winze/vgg{depth}{width}", (5, 5)) for depth in (13, 19) for width in ("", "x0.25", "x2")),
    }
