"""Readings that are kept: nothing is lost, nothing replaced, and settings are what counts."""

import base64
import fcntl
import json
import math
import os
import random
import shutil
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pytest
from small_recipe import FAST, PLAIN, Inner, Settings, make_recipe

from winze.atomic import StoreError, sha256
from winze.lab import Axis, Claim, Question, Scale, at_most, tunnel_at
from winze.lab.claims.table import counted, failures, lines, nearest
from winze.lab.runs.job import key_of, plain
from winze.lab.runs.packing import first_difference, packed, unpacked
from winze.lab.runs.perform import perform
from winze.lab.runs.results import (
    ResultsError,
    add_all,
    file_of,
    finished,
    load,
    readings_of,
    same_settings,
    stale,
    write,
)
from winze.lab.runs.store import RUN, Runs, read, sealed
from winze.place import Place
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
    after = unpacked(json.loads(json.dumps(packed({5: before}, 5, ("*", "correct/*", "counts")))), 5)[5]
    key = lambda row: (row.measure, row.data, row.step or 0, row.index or 0)  # noqa: E731
    plain_rows = [replace(row, low=math.nan, high=math.nan) for row in before.rows]
    assert repr(sorted(after.rows, key=key)) == repr(sorted(plain_rows, key=key))
    assert set(after.arrays) == {"correct/digits", "correct/network", "counts"}
    for name, array in after.arrays.items():
        assert array.dtype == before.arrays[name].dtype
        np.testing.assert_array_equal(array, before.arrays[name])
    assert after.conventions == {"data": "digits"}


def test_packing_leaves_out_measures_that_are_not_named():
    after = unpacked(packed({0: full_readings()}, 0, ("probe",)))[0]
    assert {row.measure for row in after.rows} == {"probe"}
    assert after.arrays == {}


def test_the_first_difference_is_told_in_words():
    one, other = packed({0: full_readings()}, 0, ("*", "counts")), full_readings()
    assert first_difference(one, packed({0: other}, 0, ("*", "counts"))) == ""
    other.arrays["counts"] = np.arange(1, 5)
    assert first_difference(one, packed({0: other}, 0, ("*", "counts"))) == "arrays counts"
    other.rows[0] = replace(other.rows[0], value=0.25)
    told = first_difference(one, packed({0: other}, 0, ("*", "counts")))
    assert told == "probe digits test a: 0.1 is kept, 0.25 is new"


@pytest.fixture
def recipe():
    return make_recipe()


@pytest.fixture
def folders(recipe, tmp_path):
    """The finished runs of the small recipe's cpu scale."""
    return [perform(job, Runs(tmp_path / "runs"), recipe=recipe) for job in recipe.jobs("cpu")]


def test_what_is_added_is_loaded_by_scale_point_and_seed(recipe, folders, tmp_path):
    assert [add_all([folder], recipe, tmp_path) for folder in folders] == [[folder] for folder in folders]
    kept = load(recipe, tmp_path)
    assert {scale: {point: sorted(seeds) for point, seeds in points.items()} for scale, points in kept.items()} == {
        "cpu": {PLAIN: [0, 1, 2], FAST: [0, 1, 2]}
    }
    assert readings_of(kept["cpu"])[FAST][2].rows[0].value == 2.5
    one = kept["cpu"][FAST][2]
    assert (one.scale, one.point, one.seed) == ("cpu", FAST, 2)
    assert one.versions["torch"]
    assert one.device
    assert one.seconds >= 0


def test_adding_twice_changes_nothing(recipe, folders, tmp_path):
    add_all(folders[:1], recipe, tmp_path)
    before = file_of(recipe, tmp_path).read_bytes()
    assert add_all(folders[:1], recipe, tmp_path) == []
    assert file_of(recipe, tmp_path).read_bytes() == before


def rewritten(folder, **facts):
    """The run with other facts in its run.json, whose hashes are those of its files as they are now."""
    told = read(folder) | facts
    told["sha256"] = {name: sha256(folder / name) for name in told["sha256"]}
    (folder / RUN).write_bytes(sealed(told))
    return folder


def reread(folder, value):
    """The run with another value in its first row."""
    changed = Readings.load(folder)
    changed.rows[0] = replace(changed.rows[0], value=value)
    changed.save(folder)
    return rewritten(folder)


def test_other_readings_of_the_same_run_raise_and_are_not_taken(recipe, folders, tmp_path):
    add_all(folders[:1], recipe, tmp_path)
    before = file_of(recipe, tmp_path).read_bytes()
    reread(folders[0], 99.0)
    with pytest.raises(ResultsError, match=r"other readings of speed plain, seed 0 .*score: 0.1 is kept, 99.0 is new"):
        add_all(folders[:1], recipe, tmp_path)
    assert file_of(recipe, tmp_path).read_bytes() == before


def test_readings_that_differ_by_rounding_are_those_of_the_same_run(recipe, folders, tmp_path):
    add_all(folders[:1], recipe, tmp_path)
    before = file_of(recipe, tmp_path).read_bytes()
    assert add_all([reread(folders[0], 0.1 + 1e-9)], recipe, tmp_path) == []
    assert file_of(recipe, tmp_path).read_bytes() == before


@pytest.mark.parametrize("name", ["readings.csv", "arrays.npz", "scan.json"])
def test_a_run_whose_files_were_changed_is_not_kept(recipe, folders, tmp_path, name):
    path = folders[0] / name
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(StoreError, match=f"{name} was changed after the run, its SHA-256 differs"):
        add_all(folders[:1], recipe, tmp_path)
    path.unlink()
    with pytest.raises(StoreError, match=f"{name} is missing"):
        add_all(folders[:1], recipe, tmp_path)


def test_a_file_that_no_run_can_hold_is_not_read(recipe, folders, tmp_path):
    with (folders[0] / "readings.csv").open("r+b") as file:
        file.truncate(1 << 40)  # of which the disk holds next to nothing
    with pytest.raises(StoreError, match=r"readings\.csv has 1.1e\+03 GB, more than a run's files hold"):
        add_all(folders[:1], recipe, tmp_path)


def test_a_run_that_came_without_its_weights_is_kept_and_one_with_changed_weights_is_not(recipe, folders, tmp_path):
    weights = folders[0] / "net.safetensors"
    weights.write_bytes(b"weights")
    told = read(folders[0])
    told["sha256"][weights.name] = sha256(weights)
    (folders[0] / RUN).write_bytes(sealed(told))
    weights.write_bytes(b"other weights")
    with pytest.raises(StoreError, match=r"net\.safetensors was changed after the run"):
        add_all(folders[:1], recipe, tmp_path)
    weights.unlink()
    assert add_all(folders[:1], recipe, tmp_path)


@pytest.mark.parametrize("name", ["../other.csv", "/etc/hostname", "a/b"])
def test_a_name_in_run_json_is_no_path(recipe, folders, tmp_path, name):
    told = read(folders[0])
    (folders[0] / RUN).write_bytes(sealed(told | {"sha256": told["sha256"] | {name: "0"}}))
    with pytest.raises(StoreError, match="is not a file of a run"):
        add_all(folders[:1], recipe, tmp_path)


@pytest.mark.parametrize("facts", [{"seed": 5}, {"config": plain(Settings(size=8))}, {"key": "0" * 16}], ids=str)
def test_a_run_whose_key_is_not_that_of_its_settings_is_not_kept(recipe, folders, tmp_path, facts):
    rewritten(folders[0], **facts)
    with pytest.raises(StoreError, match="its key is not that of its settings and seed"):
        add_all(folders[:1], recipe, tmp_path)


def test_a_run_copied_under_the_key_of_another_seed_does_not_count(recipe, folders, tmp_path):
    shutil.rmtree(folders[2])
    shutil.copytree(folders[0], folders[2])  # the same point, seed 1
    heard = []
    found = finished(recipe, tmp_path / "runs", heard.append)["cpu"]
    assert sorted(found[PLAIN]) == [0, 2]
    assert len(heard) == 1
    assert "its key is not that of its settings and seed" in heard[0]


def as_seed(folder, recipe, seed):
    """A copy of a run that says it had another seed, with the key and folder that go with it."""
    told = json.loads((folder / RUN).read_text())
    key = key_of(recipe.name, told["config"], seed)
    copied = folder.parents[1] / "forged" / key
    shutil.copytree(folder, copied)
    return rewritten(copied, seed=seed, key=key)


def test_one_run_under_two_seeds_is_not_kept(recipe, folders, tmp_path):
    copied = as_seed(folders[0], recipe, 7)
    add_all(folders[:1], recipe, tmp_path)
    with pytest.raises(ResultsError, match="speed plain, seed 7, has the readings of seed 0"):
        add_all([copied], recipe, tmp_path)
    heard = []
    assert add_all([folders[1], copied], recipe, tmp_path, heard.append) == [folders[1]]
    assert len(heard) == 1


def test_a_run_that_names_a_path_of_the_machine_is_not_kept(recipe, folders, tmp_path):
    told = Readings.load(folders[0])
    told.conventions = told.conventions.having(notes=["looked for /home/me/data/set"])
    told.save(folders[0])
    with pytest.raises(ResultsError, match="names a path of this machine, /home/me/data/set"):
        add_all([rewritten(folders[0])], recipe, tmp_path)


def test_several_processes_that_keep_at_once_lose_nothing(recipe, folders, tmp_path):
    # threads will do: each opens the folder itself, and a lock belongs to what was opened
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(lambda folder: add_all([folder], recipe, tmp_path), folders)) == [
            [folder] for folder in folders
        ]
    assert sum(len(seeds) for seeds in load(recipe, tmp_path)["cpu"].values()) == 6


def test_a_folder_that_another_process_writes_is_waited_for_and_then_told(recipe, folders, tmp_path, monkeypatch):
    monkeypatch.setattr("winze.lab.runs.results.PATIENCE", 0.1)
    handle = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        with pytest.raises(StoreError, match="is being written by another process"):
            add_all(folders[:1], recipe, tmp_path)
    finally:
        os.close(handle)


def test_many_runs_are_read_and_written_once(recipe, folders, tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr("winze.lab.runs.results.write", lambda *given: written.append(given) or write(*given))
    assert len(add_all(folders, recipe, tmp_path)) == 6
    assert add_all(folders, recipe, tmp_path) == []
    assert len(written) == 1


def test_wherever_a_bit_of_kept_readings_was_flipped_it_is_noticed(recipe, folders, tmp_path):
    add_all(folders, recipe, tmp_path)
    file = file_of(recipe, tmp_path)
    whole, rng = file.read_bytes(), random.Random(0)
    for place in (*range(0, 200, 3), *(rng.randrange(len(whole)) for _ in range(200)), len(whole) - 2):
        if whole[place : place + 1] != b" ":  # a blank of the first line may become another
            flipped = bytes([whole[place] ^ (1 << rng.randrange(7))])
            file.write_bytes(whole[:place] + flipped + whole[place + 1 :])
            with pytest.raises(ResultsError):
                load(recipe, tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"rows": [{}]},
        {"rows": 7},
        {"places": []},
        {"arrays": {"a": {"dtype": "O", "shape": [1], "data": ""}}},
        {"arrays": {"a": {"dtype": "<f8", "shape": [1 << 40], "data": "eJw="}}},
        {
            "arrays": {
                "a": {"dtype": "<f8", "shape": [2], "data": base64.b64encode(zlib.compress(bytes(10**7))).decode()}
            }
        },
        {"conventions": 3},
        {"started": 5},
        {"device": None},
    ],
    ids=str,
)
def test_kept_readings_that_make_no_sense_are_refused_though_their_seal_is_right(recipe, folders, tmp_path, changes):
    add_all(folders[:1], recipe, tmp_path)
    file = file_of(recipe, tmp_path)
    (one,) = json.loads(file.read_text())["runs"]
    write(file, recipe.name, [one | changes])
    with pytest.raises(ResultsError, match=rf"score\.json: .*run {one['key']}"):
        load(recipe, tmp_path)


def test_a_line_that_is_gone_is_noticed(recipe, folders, tmp_path):
    add_all(folders, recipe, tmp_path)
    file = file_of(recipe, tmp_path)
    lines_before = file.read_text().splitlines()
    file.write_text("\n".join([lines_before[0], *lines_before[2:]]) + "\n")
    with pytest.raises(ResultsError, match="its SHA-256 differs"):
        load(recipe, tmp_path)


def test_a_damaged_run_does_not_stop_the_others(recipe, folders, tmp_path):
    (folders[2] / "readings.csv").write_text("")
    heard = []
    assert len(add_all(folders, recipe, tmp_path, heard.append)) == 5
    left = finished(recipe, tmp_path / "runs", heard.append)["cpu"]
    assert sum(map(len, left.values())) == 5
    assert len(heard) == 2
    assert all(f"{folders[2]}/readings.csv was changed after the run" in one for one in heard)


def test_adding_a_run_adds_one_line_and_leaves_the_others(recipe, folders, tmp_path):
    for folder in folders[:3]:
        add_all([folder], recipe, tmp_path)
    before = file_of(recipe, tmp_path).read_text().splitlines()[1:]
    add_all(folders[3:4], recipe, tmp_path)
    after = file_of(recipe, tmp_path).read_text().splitlines()[1:]
    assert len(after) == len(before) + 1
    assert {line.rstrip(",") for line in before} <= {line.rstrip(",") for line in after}


def test_a_run_that_is_not_finished_or_of_another_recipe_is_not_kept(recipe, folders, tmp_path):
    with pytest.raises(StoreError, match="is not a finished run"):
        add_all([tmp_path / "nothing"], recipe, tmp_path)
    with pytest.raises(ResultsError, match="is a run of small/score, not of small/other"):
        add_all(folders[:1], make_recipe(name="small/other"), tmp_path)


def test_verdicts_of_kept_readings_are_those_of_the_runs(recipe, folders, tmp_path):
    add_all(folders, recipe, tmp_path)
    kept = recipe.verdicts("cpu", readings_of(load(recipe, tmp_path)["cpu"]))
    assert kept == recipe.verdicts("cpu", finished(recipe, tmp_path / "runs")["cpu"])
    assert kept[0].cells[0][1].n == 3


def test_readings_of_other_settings_are_not_counted_but_stay(recipe, folders, tmp_path):
    add_all(folders, recipe, tmp_path)
    changed = make_recipe(axes={"speed": Axis("inner.rate", {"plain": 0.1, "fast": 0.25})})
    assert {point: len(seeds) for point, seeds in load(changed, tmp_path)["cpu"].items()} == {PLAIN: 3}
    assert {(one.point, one.seed) for one in stale(changed, tmp_path)} == {(FAST, 0), (FAST, 1), (FAST, 2)}
    assert stale(recipe, tmp_path) == []


def test_equal_settings_at_two_scales_share_their_runs(recipe, folders, tmp_path):
    add_all(folders[:1], recipe, tmp_path)
    double = make_recipe(scales={"cpu": Scale(), "gpu": Scale(seeds=2)})
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
    add_all(folders[:1], recipe, tmp_path)
    file = file_of(recipe, tmp_path)
    (one,) = json.loads(file.read_text())["runs"]
    older = {name: value for name, value in one["config"].items() if name != "kind"}  # a field that came later
    other = one | {"config": older, "key": key_of(recipe.name, older, 0)}
    write(file, recipe.name, [one, other])
    with pytest.raises(ResultsError, match="speed plain, seed 0, twice"):
        load(recipe, tmp_path)


def test_kept_runs_of_another_recipe_or_with_a_wrong_key_are_refused(recipe, folders, tmp_path):
    add_all(folders[:1], recipe, tmp_path)
    file = file_of(recipe, tmp_path)
    (one,) = json.loads(file.read_text())["runs"]
    write(file, "small/other", [one])
    with pytest.raises(ResultsError, match="keeps runs of 'small/other', not of small/score"):
        load(recipe, tmp_path)
    write(file, recipe.name, [one | {"seed": 4}])
    with pytest.raises(ResultsError, match=r"the key of run .* is not that of its settings and seed"):
        load(recipe, tmp_path)


def test_a_superseded_run_stays_and_is_not_loaded(recipe, folders, tmp_path):
    add_all(folders[:1], recipe, tmp_path)
    file = file_of(recipe, tmp_path)
    (one,) = json.loads(file.read_text())["runs"]
    write(file, recipe.name, [one, one | {"started": "2020", "superseded": "norms still moved"}])
    assert len(load(recipe, tmp_path)["cpu"][PLAIN]) == 1
    assert add_all(folders[:1], recipe, tmp_path) == []
    assert add_all(folders[1:2], recipe, tmp_path)
    assert [entry.get("superseded") for entry in json.loads(file.read_text())["runs"]].count("norms still moved") == 1


def test_a_run_that_was_kept_before_its_config_had_a_field_is_not_kept_twice(recipe, folders, tmp_path):
    add_all(folders[:1], recipe, tmp_path)
    file = file_of(recipe, tmp_path)
    (one,) = json.loads(file.read_text())["runs"]
    config = {name: value for name, value in one["config"].items() if name != "limit"}
    write(file, recipe.name, [one | {"config": config, "key": key_of(recipe.name, config, one["seed"])}])
    assert add_all(folders[:2], recipe, tmp_path) == folders[1:2]
    assert sum(len(seeds) for seeds in load(recipe, tmp_path)["cpu"].values()) == 2


def test_results_of_another_version_are_refused_with_the_way_out(recipe, folders, tmp_path):
    add_all(folders[:1], recipe, tmp_path)
    file = file_of(recipe, tmp_path)
    file.write_text(file.read_text().replace('"version": 3', '"version": 2', 1))
    with pytest.raises(ResultsError, match=r"holds no winze results of version 3; results/rekey.py translates"):
        load(recipe, tmp_path)


def test_a_statement_has_a_line_per_scale_that_ran_it_and_one_that_ran_nowhere_has_none(folders, recipe, tmp_path):
    add_all(folders, recipe, tmp_path)
    claims = (
        *recipe.claims,
        Claim("more", "t", at_most("score", 1), at={"speed": "gone"}),
        Claim("t", "t", tunnel_at(0.9, 2), at={"speed": "plain"}),
    )
    axis = Axis("inner.rate", {"plain": 0.1, "fast": 0.5, "gone": 0.7})
    more = make_recipe(
        axes={"speed": axis}, claims=claims, questions=(Question("small?", at_most("score", 9), each="speed"),)
    )
    read = {scale: readings_of(one) for scale, one in load(more, tmp_path).items()}
    told = [(one.statement.text, one.scale, one.word) for one in lines(more, read)]
    assert told == [
        ("fast scores lower", "cpu", "contradicted"),
        ("more", "", "not run"),
        ("t", "", "not run"),
        ("small?", "cpu", "supported"),
    ]
    assert [(one.scale, one.word) for one in nearest(more, read)] == [told[i][1:] for i in range(4)]
    assert counted(nearest(more, read)) == "3 claims: 1 contradicted, 2 not run; 1 question: 1 supported"


def test_failed_runs_are_named_with_the_reason(folders, tmp_path):
    made = make_recipe(learned=("score", 0.4))
    add_all(folders[:1], made, tmp_path)
    read = readings_of(load(made, tmp_path)["cpu"])
    assert failures(made, read) == ["speed plain, seed 0: score 0.1 is below 0.4"]
