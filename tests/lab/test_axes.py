"""Axes, and the points that run at a scale."""

import pytest

from winze.lab.axes import Axis, AxisError, PointGrid, Scale
from winze.readings import Point

AXES = {
    "alpha": Axis("rule.alpha_min", (1.0, 0.6, 0.4)),
    "rule": Axis("rule", {"standard": None, "decayed": 1}, default="decayed"),
}


def grid(**scale):
    return PointGrid.of(AXES, Scale(**scale))


def test_an_axis_replaces_its_setting_by_the_value_or_by_what_the_label_stands_for():
    assert AXES["alpha"].settings(0.6) == {"rule.alpha_min": 0.6}
    assert AXES["rule"].settings("standard") == {"rule": None}
    several = Axis("", {"mlp": {"network.name": "mlp", "training.batch": 32}})
    assert several.settings("mlp") == {"network.name": "mlp", "training.batch": 32}


def test_an_axis_rests_at_its_default_or_at_its_first_value():
    assert (AXES["alpha"].at_rest, AXES["rule"].at_rest) == (1.0, "decayed")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Axis("a", ()), "the axis 'a' has no values"),
        (lambda: Axis("a", {None: 1}), "None cannot name a value: give values= as a mapping"),
        (lambda: Axis("", (1, 2)), "maps each label to the settings"),
        (lambda: Axis("a", (1, 2), default=3), "the default 3 is not among the values 1, 2"),
    ],
)
def test_an_axis_that_makes_no_sense_raises(make, said):
    with pytest.raises(AxisError, match=said):
        make()


def test_a_grid_is_every_combination_but_for_those_that_are_left_out():
    assert len(grid().points) == 6
    assert grid(axes={"alpha": (1.0,)}).points == (Point(alpha=1.0, rule="standard"), Point(alpha=1.0, rule="decayed"))
    fewer = grid(only=lambda point: point["rule"] == "decayed" or point["alpha"] == 1)
    assert Point(alpha=0.6, rule="standard") not in fewer.points
    assert len(fewer.points) == 4


def test_a_point_is_completed_by_defaults_or_by_the_one_value_that_runs():
    assert grid().complete(Point(alpha=0.6)) == Point(alpha=0.6, rule="decayed")
    alone = grid(axes={"rule": ("standard",)})
    assert alone.complete(Point(alpha=0.6)) == Point(alpha=0.6, rule="standard")
    assert alone.complete(Point()) == Point(alpha=1.0, rule="standard")


def test_a_point_that_several_runs_could_be_is_not_determined():
    with pytest.raises(AxisError, match=r"is ambiguous: it may be any of .*; .*"):
        grid(axes={"alpha": (0.6, 0.4)}).complete(Point())


def test_the_labels_of_an_axis_are_those_that_run_with_the_rest():
    fewer = grid(only=lambda point: point["rule"] == "decayed" or point["alpha"] == 1)
    assert fewer.labels("alpha", Point(rule="decayed")) == (1.0, 0.6, 0.4)
    assert fewer.labels("alpha", Point(rule="standard")) == (1.0,)
    assert fewer.labels("nothing", Point()) == ()


def test_seeds_are_a_number_or_a_list():
    assert Scale(seeds=3).seed_numbers == (0, 1, 2)
    assert Scale(seeds=(4, 7)).seed_numbers == (4, 7)
