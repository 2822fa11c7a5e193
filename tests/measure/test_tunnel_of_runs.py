"""The tunnel of several runs."""

import numpy as np
import pytest

from winze.measure import tunnel_of_runs, tunnel_start
from winze.place import Place

PLACES = [Place(i, 4, f"layers.{i}") for i in range(4)]
CURVES = np.array([[0.2, 0.9, 1.0, 1.0], [0.4, 1.0, 1.0, 1.0], [0.3, 0.98, 1.0, 1.0]])
ONES = np.ones(3)


def test_the_start_is_that_of_the_mean_curve():
    found = tunnel_of_runs(PLACES, CURVES, ONES, 0.95)
    assert found.start == PLACES[1]
    assert found.start.index == tunnel_start(CURVES, 1.0, 0.95)
    assert found.accuracy == pytest.approx(0.96)
    assert found.share == 0.5


def test_equal_runs_without_samples_have_no_doubt():
    found = tunnel_of_runs(PLACES, CURVES[[1, 1, 1]], ONES, 0.95)
    assert (found.low, found.high) == (PLACES[1], PLACES[1])


def test_runs_that_differ_widen_the_interval():
    found = tunnel_of_runs(PLACES, CURVES, ONES, 0.95)
    assert (found.low, found.high) == (PLACES[1], PLACES[2])


def test_samples_widen_the_interval_of_equal_runs():
    right = np.arange(200) < 200 * np.array([0.2, 0.95, 1.0, 1.0, 1.0])[:, None]
    curves = np.repeat(right[None, :-1].mean(2), 3, 0)
    found = tunnel_of_runs(PLACES, curves, ONES, 0.95, np.repeat(right[None], 3, 0))
    assert (found.low, found.start, found.high) == (PLACES[1], PLACES[1], PLACES[2])


def test_each_draw_has_its_own_reference():
    # the reference fails on the same samples as layer 2: whatever is drawn, layer 2 reaches it
    right = np.arange(50) < 50 * np.array([0.2, 0.5, 0.6, 0.7, 0.5])[:, None]
    found = tunnel_of_runs(PLACES, right[None, :-1].mean(2), np.array([0.5]), 1.0, right[None])
    assert (found.low, found.start, found.high) == (PLACES[1], PLACES[1], PLACES[1])


def test_the_interval_is_the_same_every_time():
    assert tunnel_of_runs(PLACES, CURVES, ONES, 0.97) == tunnel_of_runs(PLACES, CURVES, ONES, 0.97)


def test_a_level_that_is_never_reached_has_a_reason():
    found = tunnel_of_runs(PLACES, CURVES / 2, ONES, 0.95)
    assert found.start is None
    assert found.low is None
    assert found.reason == "no place reaches 0.95 x 1.0000; the best, 'layers.2', has 0.5000"


def test_places_that_a_run_could_not_read_are_passed_over():
    curves = CURVES.copy()
    curves[0, 1] = np.nan
    assert tunnel_of_runs(PLACES, curves, ONES, 0.95).start == PLACES[2]
    assert "no place" in tunnel_of_runs(PLACES, np.full((3, 4), np.nan), ONES).reason


@pytest.mark.parametrize(
    ("curves", "references", "correct"),
    [
        (CURVES[:, :3], ONES, None),
        (np.zeros((0, 4)), np.zeros(0), None),
        (CURVES, ONES, np.ones((3, 4, 10), bool)),
        (CURVES, ONES, np.ones((3, 5, 0), bool)),
    ],
)
def test_shapes_that_do_not_fit_raise(curves, references, correct):
    with pytest.raises(ValueError, match=r"expected a curve|does not fit"):
        tunnel_of_runs(PLACES, curves, references, correct=correct)
