"""Several runs as one, and their figure."""

import matplotlib.figure
import numpy as np
import pytest
from synthetic import scan, watched

from winze.readings import Readings, ReadingsError
from winze.report import facts, style
from winze.report.arms import arm_profiles
from winze.report.means import layer_numbers, mean_readings, mean_tunnel
from winze.report.scans import UnreadError

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
    one.conventions["layers"] = {"here": [3, 5, 7, 9], "there": [3, 5, 8, 10]}
    assert layer_numbers(one) == {0: 3, 1: 5, 2: 7, 3: 9}
    assert layer_numbers(one, "there") == {0: 3, 1: 5, 2: 8, 3: 10}
    with pytest.raises(ReadingsError, match="not counted as 'x'; there is: here, there"):
        layer_numbers(one, "x")
    one.conventions["layers"] = {"here": [3]}
    with pytest.raises(ReadingsError, match="1 layer numbers for 4 places"):
        layer_numbers(one)


@pytest.fixture
def arms():
    blocks = scan(LOW)
    blocks.conventions["layers"] = {"without projections": [3, 5, 7, 9]}
    return {"vgg19": [scan(), scan()], "resnet": [blocks], "mlp": [scan(HIGH)] * 3}


def titles(drawing: matplotlib.figure.Figure) -> list[str]:
    return [axes.get_title(loc="left") for axes in drawing.axes if axes.get_title(loc="left")]


def test_every_arm_has_a_panel_with_its_seeds_and_its_tunnel(arms):
    drawing = arm_profiles(arms)
    assert titles(drawing) == [
        "vgg19, 2 seeds\ntunnel begins after layer 8, features.22",
        "resnet, 1 seed\nno tunnel before layer 9, features.10",
        "mlp, 3 seeds\ntunnel begins after layer 3, features.7",
    ]


def test_the_line_of_a_panel_is_the_mean(arms):
    drawing = arm_profiles({"both": [scan(LOW), scan(HIGH)]})
    line = next(line for line in drawing.axes[0].lines if line.get_label() == "probe, cifar10")
    np.testing.assert_allclose(line.get_ydata(), [0.3, 0.7, 0.95, 0.99])


def test_the_papers_numbers_stand_at_the_axis(arms):
    axes = arm_profiles(arms).axes[1]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["3", "5", "7", "9"]
    assert axes.get_xlabel() == "layer, counted without projections"


def test_the_legend_names_everything_once(arms):
    drawing = arm_profiles(arms)
    texts = [text.get_text() for text in drawing.legends[0].texts]
    assert sorted(texts) == sorted(set(texts))
    assert "95 % of the network's accuracy" in texts


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_figure_is_the_same_every_time(arms, theme):
    assert style.rendered(arm_profiles(arms, theme)) == style.rendered(arm_profiles(arms, theme))


def test_arms_without_probes_or_ranks_cannot_be_drawn():
    with pytest.raises(UnreadError, match="no probes or numerical rank"):
        arm_profiles({"empty": [Readings()], "none": []})
