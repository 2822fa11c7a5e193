"""Numbers that the tunnel's claims speak about."""

import numpy as np
import pytest

from winze.readings import Readings, ReadingsError
from winze.recipes.tunnel._quantities import (
    LEARNED,
    OOD_LOST,
    OOD_PEAK_AFTER_START,
    SPIKE_HEIGHT,
    START_SHARE,
    LeastLost,
    spike,
)


def read(curves, ranks=(), accuracy=0.9):
    """Readings of probes by set, the first of which is the network's own, and of ranks."""
    home, *_ = curves
    count = len(curves[home])
    readings = Readings(conventions={"data": home, "layers": {"": list(range(1, count + 1))}, "layer_count": count})
    for measure, sets in (("probe", curves), ("numerical_rank", {home: ranks})):
        for name, values in sets.items():
            for index, value in enumerate(values):
                readings.add(measure, value, place=f"p{index}", index=index, total=len(values), data=name, split="test")
    readings.add("accuracy", accuracy, data=home, split="test")
    return readings


READ = read({"own": [0.5, 0.9, 0.9, 0.9], "a": [0.4, 0.8, 0.7, 0.2], "b": [0.5, 0.4, 0.3, 0.2]}, [40, 30, 20, 10])


def test_the_spike_is_the_13th_block_above_its_neighbours():
    ranks = np.ones(16)
    ranks[11:14] = 3, 9, 5
    assert spike(ranks) == 4
    assert SPIKE_HEIGHT(read({"own": [0.9] * 16}, ranks)) == 4
    with pytest.raises(ReadingsError, match="16 blocks, not 8"):
        spike(ranks[:8])


def test_where_there_is_no_spike_its_height_is_0():
    ranks = np.ones(16)
    ranks[12] = -5
    assert spike(ranks) == -6
    assert SPIKE_HEIGHT(read({"own": [0.9] * 16}, ranks)) == 0


def test_what_is_lost_is_counted_from_the_best_layer_to_the_last_hidden_one():
    assert OOD_LOST(READ) == pytest.approx(0.1)  # the fourth place is the output
    assert LeastLost()(READ) == pytest.approx(0.1 / 0.8)


def test_a_number_over_sets_wants_two_of_them_and_says_why_there_are_none():
    with pytest.raises(ReadingsError, match="on 1 OOD set; two"):
        LeastLost()(read({"own": [0.5, 0.9], "a": [0.1, 0.2]}))
    alone = read({"own": [0.5, 0.9]})
    alone.conventions = alone.conventions.having(not_run={"svhn": "was not found"})
    with pytest.raises(ReadingsError, match="svhn: was not found"):
        LeastLost()(alone)


def test_the_peak_is_counted_from_the_start_of_the_tunnel_with_the_interval_of_the_start():
    late = read({"own": [0.5, 0.9, 0.9, 0.9], "a": [0.1, 0.2, 0.7, 0.2]})
    assert OOD_PEAK_AFTER_START(late) == 1
    low, high = OOD_PEAK_AFTER_START.spread(late)
    assert low <= 1 <= high


def test_the_share_of_the_layers_has_an_interval_of_at_least_one_layer():
    assert START_SHARE(READ) == 0.5
    low, high = START_SHARE.spread(READ)
    assert low <= 1.5 / 4 < 2.5 / 4 <= high


@pytest.mark.parametrize(
    ("name", "accuracy", "learned"),
    [
        ("cifar10", 0.21, True),
        ("cifar10", 0.19, False),
        ("digits[0-4]", 0.39, False),
        ("cifar10[0-2]", 0.6, False),
        ("cifar10[0-2]", 0.7, True),
        ("digits[0-1]", 0.99, True),
        ("digits[0-1]", 0.7, False),
        ("tinyimagenet100", 0.03, True),
        ("tinyimagenet100[4,8,15,16,23]", 0.3, False),
    ],
)
def test_a_network_learned_its_data_that_is_twice_as_good_as_chance(name, accuracy, learned):
    quantity, least = LEARNED
    assert (quantity(read({name: [0.5]}, accuracy=accuracy)) >= least) == learned
