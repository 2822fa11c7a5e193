"""Several runs as one."""

import numpy as np
import pytest
from synthetic import scan, watched

from winze.readings import Readings, ReadingsError, facts
from winze.readings.over_seeds import layer_numbers, mean_readings, mean_tunnel

LOW, HIGH = [0.2, 0.5, 0.9, 0.98], [0.4, 0.9, 1.0, 1.0]


def test_the_mean_has_every_rows_mean_and_extremes():
    mean = mean_readings([scan(LOW), scan(HIGH)])
    np.testing.assert_allclose(facts.column(mean, "probe"), [0.3, 0.7, 0.95, 0.99])
    np.testing.assert_allclose(facts.column(mean, "probe", field="low"), LOW)
    np.testing.assert_allclose(facts.column(mean, "probe", field="high"), HIGH)
    assert {row.n for row in mean.rows} == {2}


def test_the_mean_of_equal_runs_is_the_run():
    one = scan(LOW)
    mean = mean_readings([one] * 3)
    assert [(row.place, row.measure, row.value) for row in mean.rows] == [
        (row.place, row.measure, pytest.approx(row.value)) for row in one.rows
    ]
    np.testing.assert_allclose(mean.arrays["cka"], one.arrays["cka"])


def test_arrays_without_a_mean_and_rows_that_not_all_have_are_left_out():
    more = scan(HIGH)
    more.add("extra", 1.0)
    mean = mean_readings([more, scan(LOW)])
    assert "extra" not in {row.measure for row in mean.rows}
    assert not any(name.startswith(("correct/", "embedding/")) for name in mean.arrays)


def test_readings_over_training_are_averaged_step_by_step():
    mean = mean_readings([watched(), watched()])
    steps, values = facts.over_steps(mean, "numerical_rank")
    assert len(steps) == 12
    np.testing.assert_allclose(values, facts.over_steps(watched(), "numerical_rank")[1])


def test_no_runs_have_no_mean():
    with pytest.raises(ReadingsError, match="no runs"):
        mean_readings([])


def test_the_tunnel_of_one_run_is_that_of_the_run():
    one = scan()
    assert mean_tunnel([one]).start == facts.entrance(one).tunnel.start
    assert mean_tunnel([one]).reference == pytest.approx(facts.entrance(one).tunnel.reference)


def test_without_an_accuracy_the_last_probe_is_the_reference():
    runs = [scan(probe, accuracy=None, arrays=False) for probe in (LOW, HIGH)]
    assert mean_tunnel(runs, 0.95).reference == pytest.approx(0.99)
    assert mean_tunnel(runs, 0.95).start.index == 2


def test_runs_of_other_depths_or_without_probes_raise():
    with pytest.raises(ReadingsError, match="different numbers of places"):
        mean_tunnel([scan(LOW), scan()])
    with pytest.raises(ReadingsError, match="no probes"):
        mean_tunnel([Readings()])


def test_layer_numbers_are_the_papers_where_they_are_known():
    one = scan(LOW)
    assert layer_numbers(one) == {0: 1, 1: 2, 2: 3, 3: 4}
    one.conventions = one.conventions.having(layers={"here": [3, 5, 7, 9], "there": [3, 5, 8, 10]})
    assert layer_numbers(one) == {0: 3, 1: 5, 2: 7, 3: 9}
    assert layer_numbers(one, "there") == {0: 3, 1: 5, 2: 8, 3: 10}
    with pytest.raises(ReadingsError, match="not counted as 'x'; there is: here, there"):
        layer_numbers(one, "x")
    one.conventions = one.conventions.having(layers={"here": [3]})
    with pytest.raises(ReadingsError, match="1 layer numbers for 4 places"):
        layer_numbers(one)
