import shutil
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from small_recipe import make_recipe
from torch import nn

from winze.cli import BAD_INPUT, DONE, main
from winze.lab import Axis, Recipe, Scale
from winze.lab.runs.job import Job
from winze.lab.runs.perform import perform
from winze.lab.runs.store import Runs, read, sealed
from winze.readings import Point
from winze.train import Epochs, Training


@dataclass(frozen=True)
class Config:
    training: Training
    width: int = 4


JOB = Job("tunnel/old", "smoke", Point(width=4), 0, Config(Training(Epochs(2), 16)))


def work(config, bench):
    if config.width == 13:
        raise ZeroDivisionError("unlucky\nwidth")
    x = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))
    net = nn.Sequential(nn.Linear(4, config.width), nn.ReLU(), nn.Linear(config.width, 2))
    bench.train(net, (x, (x[:, 0] > 0).long()), config.training)
    bench.readings.add("accuracy", 0.25 * config.width, data="x", split="test")
    bench.readings.add("numerical_rank", 3, place="0", index=0, total=1, step=2)
    if config.width == 14:
        raise KeyboardInterrupt


RECIPE = SimpleNamespace(work=work)


def wide(width, **changes):
    return replace(JOB, point=Point(width=width), config=replace(JOB.config, width=width), **changes)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """Two finished runs, one that failed and one that was interrupted."""
    root = tmp_path_factory.mktemp("template") / "runs"
    for job in (JOB, wide(8, seed=1, recipe="other/table"), wide(13), wide(14)):
        with suppress(ZeroDivisionError, KeyboardInterrupt):
            perform(job, Runs(root), recipe=RECIPE)
    return root


@pytest.fixture(autouse=True)
def runs(template, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(template, tmp_path / "runs")
    return Runs(tmp_path / "runs")


def retold(folder, facts):
    """Put other facts into a run's `run.json`, with the seal that they need."""
    (folder / "run.json").write_bytes(sealed(read(folder) | facts))


def printed(capsys, *argv):
    assert main(["runs", *argv]) == DONE
    return capsys.readouterr().out


def lines(capsys, *argv):
    return [line.split() for line in printed(capsys, *argv).splitlines()]


def refused(capsys, *argv):
    assert main(["runs", *argv]) == BAD_INPUT
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    return captured.err


def test_runs_are_listed_with_what_they_are_and_how_they_ended(capsys):
    head, *rows = lines(capsys)
    assert head[:7] == ["run", "recipe", "point", "seed", "scale", "status", "seconds"]
    found = {tuple(row[1:7]) for row in rows}
    assert found == {
        ("tunnel/old", "width", "4", "0", "smoke", "done"),
        ("other/table", "width", "8", "1", "smoke", "done"),
        ("tunnel/old", "width", "13", "0", "smoke", "failed"),
        ("tunnel/old", "width", "14", "0", "smoke", "unfinished"),
    }
    assert {row[0] for row in rows} == {facts.key[:8] for facts in Runs("runs").all()}
    assert all(float(row[7]) >= 0 and row[8].startswith("20") for row in rows)


def test_a_failed_run_is_listed_with_its_error(capsys):
    assert "ZeroDivisionError: unlucky width" in printed(capsys, "--status", "failed")


@pytest.mark.parametrize(
    ("options", "widths"),
    [
        (["--recipe", "other/table"], {8}),
        (["--recipe", "tunnel/*"], {4, 13, 14}),
        (["--at", "width=4"], {4}),
        (["--status", "done"], {4, 8}),
        (["--status", "done", "--recipe", "tunnel/*"], {4}),
        (["list", JOB.key[:8]], {4}),
    ],
)
def test_filters_leave_what_was_asked_for(capsys, options, widths):
    assert {int(row[3]) for row in lines(capsys, *options)[1:]} == widths


def test_a_folder_without_runs_says_so(capsys):
    assert printed(capsys, "--out", "nowhere") == "there are no such runs in nowhere\n"
    assert not Path("nowhere").exists()


def test_a_run_of_another_format_is_listed_and_explained(capsys, runs):
    path = runs.folder(JOB) / "run.json"
    path.write_text(path.read_text().replace('"version": 2', '"version": 7'))
    assert "is a run of format 7 and this winze reads format 2" in printed(capsys, "--status", "unreadable")


def test_two_runs_side_by_side_show_where_they_differ_and_what_they_came_to(capsys):
    rows = lines(capsys, "compare", JOB.key[:8], wide(8, seed=1, recipe="other/table").key[:8])
    assert ["recipe", "tunnel/old", "other/table"] in rows
    assert ["seed", "0", "1"] in rows
    assert ["width", "4", "8"] in rows
    assert not [row for row in rows if row[:1] == ["training.batch"]]
    assert ["x", "test", "accuracy", "1", "2", "1"] in rows
    losses = next(row for row in rows if row[:2] == ["train:", "loss"])
    assert float(losses[4]) == pytest.approx(float(losses[3]) - float(losses[2]), rel=1e-4)


def test_a_run_compared_with_itself_differs_in_nothing(capsys):
    shown = printed(capsys, "compare", JOB.key, JOB.key)
    assert shown.startswith("the settings are the same\n")


def test_an_unfinished_run_is_compared_as_far_as_it_came(capsys):
    rows = lines(capsys, "compare", JOB.key, wide(14).key)
    assert ["x", "test", "accuracy", "1", "-", "-"] in rows


def test_the_quantities_of_the_recipe_are_compared(capsys, monkeypatch):
    known = SimpleNamespace(quantities={"rank": lambda readings: readings.curve("numerical_rank")[-1]})
    monkeypatch.setattr("winze.lab.recipe", lambda name: known)
    assert ["rank", "3", "3", "0"] in lines(capsys, "compare", JOB.key, JOB.key)


def test_cleaning_only_tells_until_it_is_told_to(capsys, runs):
    shown = printed(capsys, "clean")
    assert "2 runs would be removed" in shown
    assert "width 13" in shown
    assert "width 14" in shown
    assert "width 4" not in shown
    assert len(runs.all()) == 4


def test_cleaning_removes_failed_and_unfinished_runs_and_nothing_else(capsys, runs):
    assert printed(capsys, "clean", "--yes").endswith("2 runs removed\n")
    assert {facts.point["width"] for facts in runs.all()} == {4, 8}
    assert printed(capsys, "clean", "--yes") == "there is nothing to clean in runs\n"


def test_cleaning_follows_the_filters(capsys, runs):
    assert printed(capsys, "clean", "--yes", "--status", "failed").endswith("1 run removed\n")
    assert {facts.point["width"] for facts in runs.all()} == {4, 8, 14}


def test_cleaning_leaves_a_run_that_is_at_work(capsys, runs):
    with runs.open(wide(14)):
        assert printed(capsys, "clean", "--yes").endswith("1 run removed\n")
    assert {facts.point["width"] for facts in runs.all()} == {4, 8, 14}


def test_cleaning_leaves_a_run_that_is_taken_up_meanwhile(capsys, runs, monkeypatch):
    monkeypatch.setattr(Runs, "is_busy", lambda *_: False)
    with runs.open(wide(14)):
        shown = printed(capsys, "clean", "--yes")
    assert "kept: runs/" in shown
    assert shown.endswith("1 run removed\n")


def test_a_finished_run_that_was_damaged_is_cleaned_away_too(capsys, runs):
    path = runs.folder(JOB) / "metrics.jsonl"
    path.write_bytes(path.read_bytes() + b"\n")
    shown = printed(capsys, "clean", "--yes")
    assert "metrics.jsonl was changed after the run" in shown
    assert shown.endswith("3 runs removed\n")
    assert {facts.point["width"] for facts in runs.all()} == {8}


@pytest.mark.parametrize("name", ["metrics.jsonl", "readings.csv"])
def test_a_damaged_run_is_not_compared(capsys, runs, name):
    (runs.folder(JOB) / name).unlink()
    assert f"{name} is missing: remove" in refused(capsys, "compare", JOB.key, JOB.key)


@pytest.mark.parametrize("line", ["{", "[]", "7", '{"epoch": 1}', '{"phase": "a", "loss": "low"}', '{"phase": 3}'])
def test_metrics_that_make_no_sense_are_named(capsys, runs, line):
    path = runs.folder(wide(14)) / "metrics.jsonl"
    path.write_text(f"{line}\n")
    assert "metrics.jsonl was cut short or changed" in refused(capsys, "compare", wide(14).key, wide(14).key)


@pytest.mark.parametrize(
    ("field", "value"),
    {
        "seed": "0",
        "seconds": None,
        "started": 3,
        "recipe": ["a"],
        "point": None,
        "error": 1,
        "status": {},
        "notes": "x",
        "threads": True,
        "versions": 1,
        "sha256": [],
    }.items(),
)
def test_a_field_of_the_wrong_type_spoils_its_own_run_alone(capsys, runs, field, value):
    retold(runs.folder(JOB), {field: value})
    rows = lines(capsys)[1:]
    assert len(rows) == 4
    (spoiled,) = [row for row in rows if "unreadable" in row]
    assert spoiled[0] == JOB.key[:8]
    assert f"{field} is {value!r}; remove" in refused(capsys, "compare", JOB.key, JOB.key)


def test_what_was_begun_anew_is_listed(capsys, runs):
    retold(runs.folder(JOB), {"notes": ["begun anew, since"]})
    assert "begun anew, since" in printed(capsys, "list", JOB.key)


def test_names_do_not_steer_the_terminal(capsys, runs):
    retold(runs.folder(JOB), {"point": {"width": "\x1b[2Jgone"}})
    assert "?[2Jgone" in printed(capsys, "list", JOB.key)
    retold(runs.folder(JOB), {"config": read(runs.folder(JOB))["config"] | {"\x1b[31mred": "\x1b[5mblink"}})
    retold(runs.folder(JOB), {"status": "unfinished"})  # a finished one is checked against its key first
    shown = printed(capsys, "compare", JOB.key, wide(8, seed=1, recipe="other/table").key)
    assert "?[31mred" in shown
    assert "\x1b" not in shown


def test_runs_of_a_recipe_that_is_not_there_are_told_and_not_kept(capsys):
    assert main(["runs", "keep"]) == BAD_INPUT
    said = capsys.readouterr()
    assert said.out == "0 runs added to results, 0 already there\n"
    assert said.err.count("there is no recipe") == 2
    assert said.err.endswith("winze: 2 runs not kept\n")


def test_a_run_that_cannot_be_read_is_told_when_others_are_kept(capsys, runs):
    (runs.folder(JOB) / "run.json").write_text("{")
    assert main(["runs", "keep"]) == BAD_INPUT
    assert "run.json was cut short" in capsys.readouterr().err


OLD = Recipe("tunnel/old", "S0", "", "", JOB.config, {"width": Axis("width", (4,))}, {"smoke": Scale()}, work=work)


def test_runs_of_a_recipe_in_a_file_are_kept_by_that_file(capsys, monkeypatch):
    monkeypatch.setattr(sys.modules["winze.lab.recipe"], "recipe", {"mine.py": OLD}.__getitem__)
    assert printed(capsys, "keep", "--recipe", "mine.py").startswith("1 run added to results, 0 already there\n")


def test_runs_of_an_uncommitted_tree_are_named_when_they_are_kept(capsys, runs, monkeypatch):
    retold(runs.folder(JOB), {"commit": "abc+"})
    monkeypatch.setattr(sys.modules["winze.lab.recipe"], "recipe", lambda name: OLD)
    assert printed(capsys, "keep", "--recipe", "tunnel/old").splitlines() == [
        "1 run added to results, 0 already there",
        f"1 run of these from an uncommitted tree: {JOB.key[:8]}",
    ]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["compare", "abc"], "compare takes two runs, got 1"),
        (["compare", "zz", "yy"], "there is no run 'zz' in runs"),
        (["compare", "", ""], "give more characters of the key"),
        (["clean", "--status", "done"], "not those that are done"),
        (["clean", "--status", "finished"], "--status"),
        (["remove"], "'remove' is none of clean, compare, keep, list"),
        (["--at", "alpha"], "--at takes AXIS=VALUE, not 'alpha'"),
        (["--out", "file"], "file is a file, not a folder of runs"),
    ],
)
def test_bad_words_are_refused_in_one_line(capsys, words, why):
    Path("file").touch()
    assert why in refused(capsys, *words)


def test_runs_of_a_recipe_in_a_file_are_kept_only_where_the_file_is_named(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = make_recipe()
    perform(made.jobs("cpu")[0], Runs("runs"), recipe=made)
    assert main(["runs", "keep"]) == BAD_INPUT
    assert "(a recipe of your own: --recipe FILE.py)" in capsys.readouterr().err
