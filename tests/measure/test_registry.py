"""The registry: what a measure says of itself, and what may join."""

import math

import pytest
import torch
from torch import nn

import winze
from winze.measure import Measure, Number, Value, missing, register
from winze.measure.registry import OURS, number_named
from winze.readings.wording import label
from winze.report.scan.summary import summary


def data(n: int = 120) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(n, 6, generator=torch.Generator().manual_seed(1))
    return x, x[:, :3].argmax(1)


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 5), nn.ReLU(), nn.Linear(5, 3))


def gap(spectrum: torch.Tensor) -> float:
    return float(spectrum[0] / spectrum[1])


GAP = Measure("gap", gap, "spectrum", "spectral gap", (1, math.inf), "lower", "largest over second eigenvalue")


def test_every_number_of_winze_has_a_name_of_its_own_bounds_and_a_meaning():
    numbers = [number for one in OURS.values() for number in one.numbers]
    assert len({number.name for number in numbers}) == len(numbers)
    for number in numbers:
        assert number.bounds[0] < number.bounds[1], number.name
        assert number.meaning, number.name


def test_a_measure_that_joins_is_read_by_scan_and_watch_and_named_in_words():
    register(GAP)
    scan = winze.scan(net(), data(), data(), measures=("rank", "gap"))
    for index, value in enumerate(scan.curve("gap")):
        spectrum = scan.readings.arrays[f"spectrum/{index}"]
        assert value == pytest.approx(spectrum[0] / spectrum[1])
    assert any("Spectral gap" in line and "lower is better" in line for line in summary(scan.readings))
    assert "spectral gap" in scan._repr_html_()
    watch = winze.Watch(net(), data(), measures="gap")
    assert {row.measure for row in watch.readings.rows if row.index is not None} == {"gap"}
    assert label("gap") == "spectral gap"


def test_a_scan_of_all_measures_has_those_that_joined():
    register(GAP)
    assert "gap" in winze.scan(net(), data(), data()).readings.conventions["measures"]


@pytest.mark.parametrize("memory", [4 << 30, 1])  # one pass, and one pass per place
def test_a_measure_of_samples_gets_features_and_labels_of_the_first_test_samples(memory):
    seen = []

    def nearest(features: torch.Tensor, labels: torch.Tensor) -> float:
        seen.append((features.shape, labels))
        distance = torch.cdist(features, features).fill_diagonal_(math.inf)
        return float((labels[distance.argmin(1)] == labels).double().mean())

    register(Measure("neighbours", nearest, "samples", bounds=(0, 1), better="higher"))
    scan = winze.scan(net(), data(1300), data(1300), measures="neighbours", memory=memory)
    assert [tuple(shape) for shape, _ in seen] == [(1000, 8), (1000, 5), (1000, 3)]
    assert all(torch.equal(labels, data(1300)[1][:1000]) for _, labels in seen)
    assert (scan.curve("neighbours") > 1 / 3).all()


def test_a_measure_of_pairs_gets_cka_between_all_places():
    register(Measure("to_last", lambda cka: cka[:, -1], "pairs"))
    scan = winze.scan(net(), data(), data(), measures=("cka", "to_last"))
    assert scan.curve("to_last") == pytest.approx(scan.cka[:, -1])


def test_a_measure_of_the_last_layer_gets_its_weight():
    def biggest(layer: winze.measure.LastLayer) -> dict[str, float]:
        return {"biggest": missing(layer.why) if layer.weight is None else float(layer.weight.abs().max())}

    register(Measure("biggest", lambda moments: {}, of_last_layer=biggest))
    one = net()
    scan = winze.scan(one, data(), data(), measures="biggest")
    (row,) = [row for row in scan.readings.rows if row.measure == "biggest"]
    assert row.value == pytest.approx(float(one[-1].weight.detach().abs().max()))


def test_a_value_outside_its_bounds_says_so():
    assert Number("share", bounds=(0, 1)).checked(1.5).note == "outside its bounds, 0 to 1"
    assert not Number("share", bounds=(0, 1)).checked(1 + 1e-9).note
    assert Number("share", bounds=(0, 1)).checked(missing("dead")).note == "dead"


def test_a_reload_replaces_what_joined_before():
    register(GAP)
    register(Measure("gap", lambda spectrum: Value(2.0), "spectrum"))
    assert winze.scan(net(), data(), data(), measures="gap").curve("gap").tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("measure", "why"),
    [
        (Measure("rank", gap, "spectrum"), "'rank' is taken"),
        (Measure("mine", gap, "spectrum", gives=(Number("nc1"),)), "'nc1' is taken"),
        (Measure("mine", gap, "spectrum", gives=(Number("accuracy"),)), "'accuracy' is taken"),
        (Measure("a b", gap, "spectrum"), "letters, digits"),
        (Measure("mine", gap, "train"), "needs= is one of"),
        (Measure("mine"), "of= is missing"),
        (Measure("mine", gap, "pairs", gives=(Number("a"), Number("b"))), "one number per place"),
    ],
)
def test_what_cannot_join_is_refused_with_the_reason(measure, why):
    with pytest.raises(ValueError, match=why):
        register(measure)


def test_numbers_that_do_not_fit_what_a_measure_gives_are_refused():
    with pytest.raises(ValueError, match="gave 1 numbers, expected a, b"):
        Measure("two", lambda moments: 1.0, gives=(Number("a"), Number("b"))).read(None)
    with pytest.raises(ValueError, match="gave c, which is not in gives="):
        Measure("two", lambda moments: {"c": 1.0}, gives=(Number("a"), Number("b"))).read(None)
    with pytest.raises(ValueError, match="gave 2 numbers for 3 places"):
        Measure("far", lambda matrix: [1.0, 2.0], "pairs").read_pairs(torch.eye(3))


def test_a_number_that_nobody_registered_is_called_by_its_name():
    assert number_named("front_1").words == "front 1"
    assert number_named("last_effective_rank").words == "effective rank, last block"
