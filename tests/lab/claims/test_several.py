"""Several numbers of one run as cells of one claim."""

import pytest

from winze.lab import Axis, Claim, Scale, at_least, higher, level, several
from winze.lab.axes import PointGrid
from winze.lab.claims.claim import judge
from winze.lab.claims.quantities import Whole
from winze.readings import Point, Readings

GRID = PointGrid.of({"speed": Axis("x", ("slow", "fast"))}, Scale())
one, two = Whole("accuracy", "task 1"), Whole("accuracy", "task 2")


def read(*values):
    readings = Readings()
    for task, value in enumerate(values, start=1):
        readings.add("accuracy", value, data=f"task {task}")
    return readings


def runs(slow, fast):
    noise = (0.0, 0.01, -0.01)
    each = {"slow": slow, "fast": fast}
    return {
        Point(speed=name): {seed: read(*(v + e for v in each[name])) for seed, e in enumerate(noise)} for name in each
    }


def words(claim, readings):
    judged = judge(claim, GRID, readings)
    return judged.word, {str(cell): verdict.word for cell, verdict in judged.cells}


def test_each_named_check_is_a_cell_at_each_point():
    claim = Claim("text", "table 1", several("task", {"1": at_least(one, 0.5), "2": at_least(two, 0.5)}), each="speed")
    word, cells = words(claim, runs(slow=(0.9, 0.9), fast=(0.9, 0.1)))
    assert word == "mixed"
    assert cells == {
        "speed slow, task 1": "supported",
        "speed slow, task 2": "supported",
        "speed fast, task 1": "supported",
        "speed fast, task 2": "contradicted",
    }


def test_a_named_check_may_be_at_a_point_of_its_own():
    checks = {
        "one": level(one, 0.9, within=0.1, at={"speed": "fast"}),
        "both": higher(two, {"speed": "slow"}, than={"speed": "fast"}),
    }
    word, cells = words(Claim("text", "table 1", several("what", checks)), runs(slow=(0.1, 0.8), fast=(0.9, 0.3)))
    assert (word, cells) == ("supported", {"what one": "supported", "what both": "supported"})


def test_published_numbers_are_by_name_or_by_cell():
    checks = {"1": at_least(one, 0.5), "2": at_least(two, 0.5)}
    by_name = Claim("text", "table 1", several("task", checks), each="speed", paper={"1": 0.7, "2": 0.8})
    assert [by_name.published(cell) for cell in by_name.cells(GRID)] == [0.7, 0.8, 0.7, 0.8]
    by_point = Claim("text", "table 1", several("task", checks), each="speed", paper={"slow": 0.7})
    assert [by_point.published(cell) for cell in by_point.cells(GRID)] == [0.7, 0.7, "", ""]


@pytest.mark.parametrize("missing", ["slow", "fast"])
def test_only_cells_whose_points_lack_readings_are_not_run(missing):
    readings = {point: seeds for point, seeds in runs((0.9, 0.9), (0.9, 0.9)).items() if point["speed"] != missing}
    claim = Claim("text", "table 1", several("task", {"1": at_least(one, 0.5)}), each="speed")
    _, cells = words(claim, readings)
    assert [name for name, word in cells.items() if word == "not run"] == [f"speed {missing}, task 1"]
