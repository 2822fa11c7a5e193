"""A run of several networks is kept as one and judged as many."""

import numpy as np
import pytest

from winze.lab import Claim, Recipe, Scale, at_least
from winze.lab.finals import finals
from winze.lab.members import apart, together
from winze.lab.packing import packed, unpacked
from winze.lab.perform import perform
from winze.lab.quantities import OverLooks, Whole
from winze.lab.results import add, finished, load, readings_of
from winze.lab.store import Runs
from winze.readings import Readings, ReadingsError
from winze.train import Training


def one(value: float) -> Readings:
    readings = Readings(conventions={"data": "spiral"}, arrays={"table": np.array([value])})
    readings.add("score", value, data="spiral", split="test", step=3)
    readings.add("rank", 2 * value, place="a", index=0, total=1, data="spiral")
    return readings


def test_networks_put_together_come_apart_as_they_were():
    parts = {4: one(0.25), 17: one(0.75)}
    assert {number: vars(read) for number, read in apart(0, together(parts)).items()} == {
        number: vars(read) for number, read in parts.items()
    }


def test_what_carries_no_number_belongs_to_all():
    whole = together({0: one(1.0), 1: one(2.0)})
    whole.add("shared", 5.0)
    whole.arrays["points"] = np.zeros(3)
    for read in apart(9, whole).values():
        assert [row.value for row in read.rows if row.measure == "shared"] == [5.0]
        assert "points" in read.arrays


def test_a_run_of_one_network_has_the_number_of_its_seed():
    read = one(1.0)
    assert apart(6, read) == {6: read}


def test_conventions_must_agree():
    other = one(1.0)
    other.conventions["data"] = "digits"
    with pytest.raises(ReadingsError, match="data"):
        together({0: one(1.0), 1: other})


def work(config, bench):
    bench.readings.extend(together({10 * bench.seed + i: one(bench.seed + i / 10) for i in range(3)}))


RECIPE = Recipe(
    name="lab/members",
    system="test",
    shows="members are seeds",
    paper="-",
    url="",
    arms={"plain": {}},
    scales={"cpu": Scale(Training(1), seeds=(0, 1))},
    work=work,
    quantities={"score": Whole("score"), "least": OverLooks("score", np.min)},
    claims=(Claim("all of them count", at_least("score", "plain", 0)),),
)


def test_each_network_of_a_run_is_judged_as_a_seed_from_the_folder_and_from_results(tmp_path):
    folders = [perform(job, Runs(tmp_path / "runs"), recipe=RECIPE, progress=False) for job in RECIPE.jobs("cpu")]
    for folder in folders:
        add(folder, RECIPE, tmp_path)
    kept = readings_of(load(RECIPE, tmp_path)["cpu"])
    found = finished(RECIPE, tmp_path / "runs")["cpu"]
    assert list(found["plain"]) == list(kept["plain"]) == [0, 1, 2, 10, 11, 12]
    [(_, told)] = RECIPE.verdicts("cpu", found)
    assert told.n == 6
    assert told.values["plain"] == pytest.approx({0: 0, 1: 0.1, 2: 0.2, 10: 1, 11: 1.1, 12: 1.2})
    assert RECIPE.verdicts("cpu", kept) == RECIPE.verdicts("cpu", found)
    assert finals(folders[1], RECIPE.quantities)["score"] == pytest.approx(1.1)


def test_equal_curves_of_several_networks_are_told_once_in_results():
    whole = together({number: one(number / 7) for number in (3, 4, 12)})
    whole.add("shared", 5.0, split="test")
    whole.add("odd", 1.0, split="test#4", note="alone")
    told = packed(whole)
    assert [(row["measure"], row.get("members")) for row in told["rows"]] == [
        ("score", [3, 4, 12]), ("rank", [3, 4, 12]), ("shared", None), ("odd", [4]),
    ]  # fmt: skip
    again = unpacked(told)
    assert sorted(map(repr, again.rows)) == sorted(map(repr, whole.rows))
    assert repr(apart(0, again)[12].rows) == repr(apart(0, whole)[12].rows)


def test_a_number_over_looks_takes_those_after_the_start():
    readings = Readings()
    for step, value in ((0, -5.0), (10, 3.0), (20, 2.0), (30, 4.0)):
        readings.add("score", value, step=step)
    assert OverLooks("score", np.min)(readings) == 2
    assert OverLooks("score", np.max)(readings) == 4
    readings.add("score", float("nan"), step=40, note="lost")
    assert OverLooks("score", np.min)(readings).note == "lost"
    with pytest.raises(ReadingsError, match="loss was not looked at"):
        OverLooks("loss", np.min)(readings)
