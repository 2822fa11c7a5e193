"""Layers put from one network into another, one by one."""

import numpy as np
import pytest

from winze.lab import Bench
from winze.readings import Point, facts
from winze.readings.over_seeds import layer_numbers
from winze.recipes.tunnel._continual import above_7, gain_above, mean_loss, replaceable, substitute
from winze.recipes.tunnel.substitution import recipe

SMOKE = recipe.config("smoke", Point(split="3+7", network="vgg19", width=0.0625, rate=0.1))


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    bench = Bench(tmp_path_factory.mktemp("runs") / "run")
    substitute(SMOKE, bench)
    return bench.readings


def test_the_two_curves_begin_where_the_other_ends(read):
    for task in ("task 1", "task 2"):
        one, two = (facts.column(read, f"front_{front}", task) for front in (1, 2))
        assert len(one) == len(two) == 19  # VGG-19 has 18 hidden layers
        assert (one[0], one[-1]) == (two[-1], two[0])
    assert layer_numbers(read) == {x: x for x in range(19)}


def test_bottom_up_of_tasks_of_3_and_7_is_the_curve_of_the_first_network_in_front(read):
    curve = facts.column(read, "front_1", "task 2")
    assert above_7(read) == pytest.approx(curve[8:].max() - curve[7])


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


def test_all_splits_and_widths_of_the_thesis_run():
    configs = [recipe.config("paper", point) for point in recipe.grid("paper").points]
    assert {(one.network.name, one.network.options.get("width", 1), one.tasks) for one in configs} == {
        *(("winze/vgg19", 1, split) for split in ((3, 7), (5, 5), (7, 3))),
        *((f"winze/vgg{depth}", width, (5, 5)) for depth in (13, 19) for width in (0.25, 1, 2)),
    }
