"""Numbers of one run."""

import math

import numpy as np
import pytest
from small_recipe import curves, score

from winze.lab.claims.quantities import (
    OOD,
    At,
    AtTunnel,
    DuringTraining,
    LayerReaching,
    Over,
    OverMatrix,
    PeakLayer,
    TunnelLayer,
    Whole,
    best,
    drop,
    first,
    hidden,
    last,
)
from winze.readings import Readings, ReadingsError

RUN = curves(
    [0.5, 0.97, 0.96, 1.0], ood=[0.6, 0.9, 0.8, 0.3], layers={"as printed": [3, 5, 7, 9], "else": [3, 5, 8, 10]}
)[0]


@pytest.mark.parametrize(
    ("quantity", "value"),
    [
        (Whole("accuracy"), 1.0),
        (AtTunnel("numerical_rank"), 90),
        (AtTunnel("numerical_rank", behind=1), 80),
        (first("numerical_rank"), 100),
        (last("numerical_rank"), 70),
        (At("probe", 1), 0.97),
        (At("probe", -2), 0.96),
        (best("probe", OOD), 0.9),
        (best("probe", "others"), 0.9),
        (drop("probe", OOD), pytest.approx(0.6)),
        (last("numerical_rank") / first("numerical_rank"), 0.7),
        (Over("probe", np.min), 0.5),
        (PeakLayer("probe", OOD), 5),
        (TunnelLayer(0.95), 5),
        (TunnelLayer(0.98), 9),
        (PeakLayer("probe", OOD) - TunnelLayer(0.98), -4),
        (PeakLayer("probe", OOD) + TunnelLayer(0.98), 14),
    ],
)
def test_a_quantity_reads_what_it_says(quantity, value):
    assert quantity(RUN) == value


def test_the_output_is_no_hidden_layer():
    run = curves([0.5, 0.97, 0.9, 1.0], ood=[0.6, 0.9, 0.8, 0.3])[0]
    run.conventions = run.conventions.having(layer_count=4)
    assert hidden("numerical_rank")(run) == 80
    assert drop("probe", OOD)(run) == pytest.approx(0.1)
    assert last("numerical_rank")(run) == 70


def test_blocks_are_all_hidden_where_the_output_is_no_place():
    run = curves([0.5, 1.0], layers={"without projections": [3, 5]})[0]
    run.conventions = run.conventions.having(layer_count=6)
    assert hidden("numerical_rank")(run) == 90


@pytest.mark.parametrize(
    "quantity", [Whole("loss"), last("loss"), best("probe", OOD), At("probe", 9), Whole("accuracy", "x")]
)
def test_what_was_not_read_raises(quantity):
    run = curves([0.5, 1.0])[0]
    with pytest.raises(ReadingsError):
        quantity(run)


def test_data_that_was_not_at_hand_is_given_as_the_reason():
    run = curves([0.5, 1.0])[0]
    run.conventions = run.conventions.having(not_run={"cifar100": "there is no such folder"})
    with pytest.raises(ReadingsError, match=r"probe on OOD data was not read \(cifar100: there is no such folder\)"):
        drop("probe", OOD)(run)


def test_readings_without_probes_have_no_tunnel_to_speak_of():
    with pytest.raises(ReadingsError, match="no probes"):
        TunnelLayer()(score(1.0))


def test_a_reading_that_is_none_brings_its_reason():
    value = Whole("score")(score(math.nan, "the loss is NaN"))
    assert math.isnan(value)
    assert value.note == "the loss is NaN"
    assert (Whole("score") - Whole("score"))(score(math.nan, "the loss is NaN")).note == "the loss is NaN"


def test_a_tunnel_that_does_not_start_says_why():
    run = curves([0.5, 0.6], accuracy=0.9)[0]
    assert "no place reaches" in TunnelLayer()(run).note


def test_division_by_nothing_is_missing():
    assert (Whole("score") / Whole("score"))(score(0.0)).note == "the divisor is 0"


def test_the_measures_of_a_combination_are_those_of_its_parts():
    assert (last("numerical_rank") / first("probe")).measures == ("numerical_rank", "probe")


def test_a_number_of_one_step_is_that_steps():
    run = score(1.0)
    for step, value in ((10, 2.0), (20, 3.0)):
        run.add("loss", value, step=step)
    assert Whole("loss")(run) == 3.0
    assert Whole("loss", step=10)(run) == 2.0


def test_the_last_look_is_that_of_the_last_step_wherever_it_stands():
    run = curves([0.5, 1.0])[0]
    with pytest.raises(ReadingsError, match="top5 was not read during training"):
        DuringTraining("top5")(run)
    for step, value in ((20, 0.3), (30, 0.4), (10, 0.9)):
        run.add("top5", value, data="home", split="test", step=step)
    run.add("top5", 0.7, data="home", split="test")
    assert DuringTraining("top5")(run) == 0.4


def probed(*values):
    readings = Readings(
        conventions={"data": "own", "layers": {"": [1, 3, 5]}, "layer_count": 5, "places": ["a", "b", "c"]}
    )
    for index, value in enumerate(values):
        readings.add("probe", value, place="abc"[index], index=index, total=3, data="own", split="test")
    return readings


def test_the_first_layer_at_an_accuracy_is_given_by_the_papers_number():
    assert LayerReaching(0.8)(probed(0.5, 0.8, 0.9)) == 3
    assert LayerReaching(0.81)(probed(0.5, 0.8, 0.9)) == 5


def test_a_bar_above_every_layer_is_missing_with_the_best_accuracy():
    value = LayerReaching(0.95)(probed(0.5, 0.8, 0.9))
    assert math.isnan(value)
    assert "90.0%" in value.note
    with pytest.raises(ReadingsError, match="probe"):
        LayerReaching(0.5)(probed())


def test_numbers_of_a_matrix_leave_the_output_out():
    readings = Readings(conventions={"layers": {"": [1, 2, 3]}, "layer_count": 3}, arrays={"cka": np.eye(3)})
    for index in range(3):
        readings.add("probe", 0.5, place=f"p{index}", index=index, total=3)
    assert OverMatrix("cka", lambda matrix: float(matrix.sum()))(readings) == 2
    with pytest.raises(ReadingsError, match="l1 was not read"):
        OverMatrix("l1", np.sum)(readings)
