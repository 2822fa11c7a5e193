"""A run of an ensemble is stored and kept as one, and each of its members is judged as a seed."""

import numpy as np
import pytest
from small_recipe import make_recipe

from winze.lab import Claim, Scale, at_least
from winze.lab.claims.quantities import DuringTraining, Whole
from winze.lab.runs.outcome import finals
from winze.lab.runs.packing import first_difference, packed, unpacked
from winze.lab.runs.perform import perform
from winze.lab.runs.results import add_all, finished, load, readings_of
from winze.lab.runs.store import Runs, check, read
from winze.readings import Point, Readings, ReadingsError
from winze.train import StoreError

ALL = Point(speed="plain")


def filled(readings: Readings, value: float) -> Readings:
    readings.conventions = readings.conventions.having(data="spiral")
    readings.arrays["table"] = np.array([value])
    readings.add("score", value, data="spiral", split="test", step=3)
    readings.add("rank", 2 * value, place="a", index=0, total=1, data="spiral")
    return readings


def one(value: float) -> Readings:
    return filled(Readings(), value)


def work(config, bench):
    bench.readings.add("shared", 5.0)
    for i in range(3):
        filled(bench.readings_of(10 * bench.seed + i), bench.seed + i / 10)


RECIPE = make_recipe(
    scales={"cpu": Scale(axes={"speed": ("plain",)}, seeds=2)},
    work=work,
    quantities={"score": Whole("score"), "least": DuringTraining("score", np.min)},
    claims=(Claim("all of them count", "table 1", at_least("score", 0), each="speed"),),
    measures=("*", "table"),
)


@pytest.fixture
def folders(tmp_path):
    return [perform(job, Runs(tmp_path / "runs"), recipe=RECIPE, progress=False) for job in RECIPE.jobs("cpu")]


def test_each_member_is_judged_as_a_seed_from_the_folder_and_from_results(folders, tmp_path):
    for folder in folders:
        add_all([folder], RECIPE, tmp_path)
    kept = readings_of(load(RECIPE, tmp_path)["cpu"])
    found = finished(RECIPE, tmp_path / "runs")["cpu"]
    assert list(found[ALL]) == list(kept[ALL]) == [0, 1, 2, 10, 11, 12]
    [judged] = RECIPE.verdicts("cpu", found)
    assert judged.cells[0][1].n == 6
    assert judged.cells[0][1].values[ALL] == pytest.approx({0: 0, 1: 0.1, 2: 0.2, 10: 1, 11: 1.1, 12: 1.2})
    assert RECIPE.verdicts("cpu", kept) == RECIPE.verdicts("cpu", found)
    assert kept[ALL][12].arrays["table"] == [1.2]


def test_what_belongs_to_all_members_is_read_in_each(folders, tmp_path):
    for readings in finished(RECIPE, tmp_path / "runs")["cpu"][ALL].values():
        assert Whole("shared")(readings) == 5.0


def test_numbers_of_an_ensemble_are_means_over_its_members(folders):
    told = finals(folders[1], RECIPE.quantities)
    assert told["score"] == told["spiral test score"] == pytest.approx(1.1)


def test_members_have_folders_of_their_own_whose_hashes_are_checked(folders):
    assert sorted(path.name for path in folders[1].iterdir()) == ["run.json", "seed-10", "seed-11", "seed-12"]
    assert "seed-11/readings.csv" in read(folders[1])["sha256"]
    (folders[1] / "seed-11" / "readings.csv").write_text("")
    with pytest.raises(StoreError, match=r"seed-11/readings.csv was changed after the run"):
        check(folders[1])


def test_equal_curves_of_members_are_told_once_in_results():
    members = {number: one(number / 7) for number in (3, 4, 12)}
    members[4].add("odd", 1.0, split="test", note="alone")
    told = packed(members, 0, ("*", "table"))
    assert [(row["measure"], row["members"]) for row in told["rows"]] == [
        ("score", [3, 4, 12]), ("rank", [3, 4, 12]), ("odd", [4]),
    ]  # fmt: skip
    assert sorted(told["arrays"]) == ["table#12", "table#3", "table#4"]
    again = unpacked(told)
    assert {number: sorted(map(repr, read.rows)) for number, read in again.items()} == {
        number: sorted(map(repr, unpacked(packed({0: read}, 0))[0].rows)) for number, read in members.items()
    }
    assert [read.arrays["table"][0] for read in again.values()] == [3 / 7, 4 / 7, 12 / 7]


def test_a_member_that_differs_is_noticed():
    told = packed({3: one(1.0), 4: one(2.0)}, 0)
    assert first_difference(told, packed({3: one(1.0), 4: one(2.0)}, 0)) == ""
    assert "2.0 is kept, 2.5 is new" in first_difference(told, packed({3: one(1.0), 4: one(2.5)}, 0))


def test_a_number_over_looks_takes_those_after_the_start():
    readings = Readings()
    for step, value in ((0, -5.0), (10, 3.0), (20, 2.0), (30, 4.0)):
        readings.add("score", value, step=step)
    assert DuringTraining("score", np.min)(readings) == 2
    assert DuringTraining("score", np.max)(readings) == 4
    readings.add("score", float("nan"), step=40, note="lost")
    assert DuringTraining("score", np.min)(readings).note == "lost"
    with pytest.raises(ReadingsError, match="loss was not read during training"):
        DuringTraining("loss", np.min)(readings)
