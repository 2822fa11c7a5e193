"""Readings that are kept: nothing is lost, nothing replaced, and settings are what counts."""

import json
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from small_recipe import Inner, Settings, make_recipe

from winze.depth import Place
from winze.lab import Claim, Scale, at_most, tunnel_at
from winze.lab.job import plain
from winze.lab.lines import lines
from winze.lab.packing import first_difference, packed, unpacked
from winze.lab.perform import perform
from winze.lab.results import ResultsError, add, file_of, finished, load, readings_of, same_settings, stale
from winze.lab.store import Runs
from winze.readings import Readings


def full_readings():
    made = Readings(conventions={"data": "digits", "places": ["a", "b"], "seconds": 1.5})
    for index, name in enumerate("ab"):
        place = Place(index, 2, name)
        made.add("probe", 0.1 + 0.2 * index, place=place, data="digits", split="test", low=0.0, high=1.0, n=10)
        made.add("numerical_rank", 7 - index, place=place, data="digits", split="test", n=10)
        made.add("numerical_rank", 70 - index, place=place, data="digits", split="test", step=5, n=10)
    made.add("probe", math.nan, place=Place(0, 2, "a"), data="other", split="test", note="constant features")
    made.add("accuracy", 1 / 3, data="digits", split="test", n=10)
    made.add("largest", math.inf, data="digits")
    rng = np.random.default_rng(0)
    made.arrays = {"correct/digits": rng.random((2, 37)) < 0.5, "correct/network": rng.random(37) < 0.5}
    made.arrays |= {"spectrum/0": rng.random(5), "counts": np.arange(4)}
    return made


def test_packing_keeps_every_value_and_note_and_the_named_arrays():
    before = full_readings()
    after = unpacked(json.loads(json.dumps(packed(before, ("*", "correct/*", "counts")))))
    key = lambda row: (row.measure, row.data, row.step or 0, row.index or 0)  # noqa: E731
    plain_rows = [replace(row, low=math.nan, high=math.nan) for row in before.rows]
    assert repr(sorted(after.rows, key=key)) == repr(sorted(plain_rows, key=key))
    assert set(after.arrays) == {"correct/digits", "correct/network", "counts"}
    for name, array in after.arrays.items():
        assert array.dtype == before.arrays[name].dtype
        np.testing.assert_array_equal(array, before.arrays[name])
    assert after.conventions == {"data": "digits"}


def test_packing_leaves_out_measures_that_are_not_named():
    after = unpacked(packed(full_readings(), ("probe",)))
    assert {row.measure for row in after.rows} == {"probe"}
    assert after.arrays == {}


def test_the_first_difference_is_told_in_words():
    one, other = packed(full_readings(), ("*", "counts")), full_readings()
    assert first_difference(one, packed(other, ("*", "counts"))) == ""
    other.arrays["counts"] = np.arange(1, 5)
    assert first_difference(one, packed(other, ("*", "counts"))) == "arrays counts"
    other.rows[0] = replace(other.rows[0], value=0.25)
    assert first_difference(one, packed(other, ("*", "counts"))) == "probe digits test a: 0.1 is kept, 0.25 is new"


@pytest.fixture
def recipe():
    return make_recipe()


@pytest.fixture
def folders(recipe, tmp_path):
    """The finished runs of the small recipe's cpu scale."""
    return [perform(job, Runs(tmp_path / "runs"), recipe=recipe) for job in recipe.jobs("cpu")]


def test_what_is_added_is_loaded_by_scale_arm_and_seed(recipe, folders, tmp_path):
    assert [add(folder, recipe, tmp_path) for folder in folders] == [True] * 6
    kept = load(recipe, tmp_path)
    assert {scale: {arm: sorted(seeds) for arm, seeds in arms.items()} for scale, arms in kept.items()} == {
        "cpu": {"plain": [0, 1, 2], "fast": [0, 1, 2]}
    }
    assert readings_of(kept["cpu"])["fast"][2].rows[0].value == 2.5
    one = kept["cpu"]["fast"][2]
    assert (one.scale, one.arm, one.seed) == ("cpu", "fast", 2)
    assert one.versions["torch"]
    assert one.device
    assert one.seconds >= 0


def test_adding_twice_changes_nothing(recipe, folders, tmp_path):
    add(folders[0], recipe, tmp_path)
    before = file_of(recipe, tmp_path).read_bytes()
    assert add(folders[0], recipe, tmp_path) is False
    assert file_of(recipe, tmp_path).read_bytes() == before


def test_other_readings_of_the_same_run_raise_and_are_not_taken(recipe, folders, tmp_path):
    add(folders[0], recipe, tmp_path)
    before = file_of(recipe, tmp_path).read_bytes()
    changed = Readings.load(folders[0])
    changed.rows[0] = replace(changed.rows[0], value=99.0)
    changed.save(folders[0])
    with pytest.raises(ResultsError, match=r"other readings of plain, seed 0 .*score: 0.1 is kept, 99.0 is new"):
        add(folders[0], recipe, tmp_path)
    assert file_of(recipe, tmp_path).read_bytes() == before


def test_adding_a_run_adds_one_line_and_leaves_the_others(recipe, folders, tmp_path):
    for folder in folders[:3]:
        add(folder, recipe, tmp_path)
    before = file_of(recipe, tmp_path).read_text().splitlines()
    add(folders[3], recipe, tmp_path)
    after = file_of(recipe, tmp_path).read_text().splitlines()
    assert len(after) == len(before) + 1
    assert {line.rstrip(",") for line in before} <= {line.rstrip(",") for line in after}


def test_a_run_that_is_not_finished_or_of_another_recipe_is_not_kept(recipe, folders, tmp_path):
    with pytest.raises(ResultsError, match="is no finished run"):
        add(tmp_path / "nothing", recipe, tmp_path)
    with pytest.raises(ResultsError, match="is a run of small/score, not of small/other"):
        add(folders[0], make_recipe(name="small/other"), tmp_path)


def test_verdicts_of_kept_readings_are_those_of_the_runs(recipe, folders, tmp_path):
    for folder in folders:
        add(folder, recipe, tmp_path)
    kept = recipe.verdicts("cpu", readings_of(load(recipe, tmp_path)["cpu"]))
    assert kept == recipe.verdicts("cpu", finished(recipe, tmp_path / "runs")["cpu"])
    assert kept[0][1].n == 3


def test_readings_of_other_settings_are_not_counted_but_stay(recipe, folders, tmp_path):
    for folder in folders:
        add(folder, recipe, tmp_path)
    changed = make_recipe(arms={"plain": {}, "fast": {"inner.rate": 0.25}})
    assert {arm: len(seeds) for arm, seeds in load(changed, tmp_path)["cpu"].items()} == {"plain": 3}
    assert {(one.arm, one.seed) for one in stale(changed, tmp_path)} == {("fast", 0), ("fast", 1), ("fast", 2)}
    assert stale(recipe, tmp_path) == []


def test_equal_settings_at_two_scales_share_their_runs(recipe, folders, tmp_path):
    add(folders[0], recipe, tmp_path)
    double = make_recipe(scales={"cpu": Scale(Settings(), (0,)), "gpu": Scale(Settings(), (0, 1))})
    assert set(load(double, tmp_path)) == {"cpu", "gpu"}


def test_a_setting_that_came_later_counts_as_its_default():
    told = plain(Settings())
    del told["kind"], told["inner"]["steps"]
    assert same_settings(told, Settings())
    assert not same_settings(told, Settings(kind="short"))
    assert not same_settings(told, Settings(inner=Inner(steps=11)))


def test_settings_differ_in_value_in_type_and_by_fields_that_are_gone():
    @dataclass(frozen=True)
    class Other:
        name: str = "plain"

    assert same_settings(plain(Settings(milestones=(1, 2))), Settings(milestones=(1, 2)))
    assert not same_settings(plain(Settings(milestones=(1, 2))), Settings(milestones=(1,)))
    assert not same_settings(plain(Settings(size=4)), Settings())
    assert not same_settings(plain(Other()), Settings())
    assert not same_settings(plain(Settings()) | {"gone": 1}, Settings())


def test_a_damaged_file_is_named(recipe, tmp_path):
    file = file_of(recipe, tmp_path)
    file.parent.mkdir()
    file.write_text("{")
    with pytest.raises(ResultsError, match=r"score.json was cut short"):
        load(recipe, tmp_path)
    file.write_text("{}")
    with pytest.raises(ResultsError, match="holds no winze results"):
        load(recipe, tmp_path)


def test_the_same_settings_kept_twice_raise(recipe, folders, tmp_path):
    add(folders[0], recipe, tmp_path)
    file = file_of(recipe, tmp_path)
    told = json.loads(file.read_text())
    told["runs"].append(told["runs"][0] | {"key": "0" * 16})
    file.write_text(json.dumps(told))
    with pytest.raises(ResultsError, match="plain, seed 0, twice"):
        load(recipe, tmp_path)


def test_every_claim_has_a_line_and_one_without_runs_reads_not_run(folders, recipe, tmp_path):
    for folder in folders:
        add(folder, recipe, tmp_path)
    claims = (
        *recipe.claims,
        Claim("more", at_most("score", "gone", 1), paper=3),
        Claim("t", tunnel_at("plain", 0.9, 2)),
    )
    more = make_recipe(arms={"plain": {}, "fast": {"inner.rate": 0.5}, "gone": {"size": 77}}, claims=claims)
    told = lines(more, tmp_path)
    assert [(one.claim, one.scale, one.word, one.n) for one in told] == [
        ("fast scores lower", "cpu", "not borne out", "3"),
        ("more", "cpu", "not run", "-"),
        ("t", "cpu", "not run", "-"),
    ]
    assert told[0].paper == "12 %"
    assert told[0].machine == load(recipe, tmp_path)["cpu"]["fast"][0].device
    assert (told[1].machine, told[1].seconds) == ("-", "-")
