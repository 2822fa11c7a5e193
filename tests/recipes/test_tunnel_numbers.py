"""Numbers that the tunnel's claims speak about."""

import numpy as np
import pytest

from winze.lab.quantities import PeakLayer
from winze.readings import Readings, ReadingsError
from winze.recipes.tunnel.numbers import OverSets, Together, fall, spike, spread


def read(curves, ranks=()):
    """Readings of probes by set, the first of which is the network's own, and of ranks."""
    readings = Readings(conventions={"data": next(iter(curves))})
    for measure, sets in (("probe", curves), ("numerical_rank", {next(iter(curves)): ranks})):
        for name, values in sets.items():
            for index, value in enumerate(values):
                readings.add(measure, value, place=f"p{index}", index=index, total=len(values), data=name, split="test")
    return readings


READ = read({"own": [0.5, 0.9, 0.9, 0.9], "a": [0.4, 0.8, 0.7, 0.2], "b": [0.5, 0.4, 0.3, 0.2]}, [40, 30, 20, 10])


def test_the_spike_is_the_13th_block_above_its_neighbours():
    ranks = np.ones(16)
    ranks[11:14] = 3, 9, 5
    assert spike(ranks) == 4
    with pytest.raises(ReadingsError, match="16 blocks, not 8"):
        spike(ranks[:8])


def test_a_fall_is_what_is_gone_of_the_best():
    assert fall("a")(READ) == pytest.approx(0.75)
    assert OverSets(fall, min)(READ) == pytest.approx(0.6)
    assert OverSets(fall, max, ("a", "b"))(READ) == pytest.approx(0.75)


def test_the_spread_of_peaks_is_counted_in_layers():
    assert OverSets(lambda name: PeakLayer("probe", name), spread)(READ) == 1


def test_a_number_over_sets_wants_two_of_them_and_says_why_there_are_none():
    with pytest.raises(ReadingsError, match="on 1 of these other sets"):
        OverSets(fall, min, ("a",))(READ)
    alone = read({"own": [0.5, 0.9]})
    alone.conventions["not_run"] = {"svhn": "was not found"}
    with pytest.raises(ReadingsError, match="svhn: was not found"):
        OverSets(fall, min)(alone)


def test_two_measures_fall_together_from_the_peak_of_the_first_to_the_last_hidden_place():
    curves = {"own": [0.9] * 6, "a": [0.1, 0.8, 0.7, 0.6, 0.5, 0.9]}
    assert Together("probe", "numerical_rank")(read(curves, [9, 40, 30, 20, 10, 99])) == pytest.approx(1)
    assert Together("probe", "numerical_rank")(read(curves, [9, 10, 20, 30, 40, 0])) == pytest.approx(-1)


def test_nothing_is_said_about_a_curve_that_peaks_at_its_end():
    found = Together("probe", "numerical_rank")(read({"own": [0.9] * 4, "a": [0.1, 0.2, 0.3, 0.4]}, [4, 3, 2, 1]))
    assert np.isnan(found)
    assert "behind the peak" in found.note
