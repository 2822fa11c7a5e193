"""`winze list`."""

from dataclasses import dataclass

import pytest
from small_recipe import Settings, make_recipe

import winze.lab
from winze.cli import BAD_INPUT, DONE, main
from winze.lab.runs.perform import perform
from winze.lab.runs.results import add_all
from winze.lab.runs.store import Runs


@pytest.fixture
def recipe(monkeypatch, tmp_path):
    """The one recipe there is, in a folder without runs."""
    made = make_recipe()
    monkeypatch.setattr(winze.lab, "recipes", lambda: {made.name: made})
    monkeypatch.setattr(winze.lab, "recipe", {made.name: made}.__getitem__)
    monkeypatch.chdir(tmp_path)
    return made


def test_every_recipe_of_winze_is_listed(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["list"]) == DONE
    told = capsys.readouterr().out
    for word in ("tunnel/main (S8): ", "2305.19753", "smoke (", " points x 3 seeds)", " not run", "axis      "):
        assert word in told


def test_the_verdicts_of_kept_readings_are_counted(capsys, recipe):
    for job in recipe.jobs("cpu"):
        add_all([perform(job, Runs("elsewhere"), recipe=recipe)], recipe)
    assert main(["list"]) == DONE
    assert "  verdicts  1 claim: 1 contradicted\n" in capsys.readouterr().out


def test_ones_own_runs_are_counted_apart(capsys, recipe):
    for job in recipe.jobs("cpu", seeds=[0]):
        perform(job, Runs("runs"), recipe=recipe)
    assert main(["list"]) == DONE
    told = capsys.readouterr().out
    assert "  verdicts  1 claim: 1 not run\n  runs: 2 runs at scale cpu; 1 claim: 1 inconclusive\n" in told


def test_digits_and_smoke_tests_stand_in_no_tally(capsys, monkeypatch, tmp_path):
    from dataclasses import replace

    from winze.lab import Data
    from winze.lab.claims.table import is_stand_in

    DIGITS = Data("digits")

    @dataclass(frozen=True)
    class Studied(Settings):
        data: Data = DIGITS

    made = replace(make_recipe(study=Studied()))
    monkeypatch.setattr(winze.lab, "recipes", lambda: {made.name: made})
    monkeypatch.chdir(tmp_path)
    for job in made.jobs("cpu"):
        add_all([perform(job, Runs("elsewhere"), recipe=made)], made)
    assert is_stand_in(made, "cpu")
    assert main(["list"]) == DONE
    told = capsys.readouterr().out
    assert "  verdicts  1 claim: 1 not run\n  digits    " in told
    assert f"runs at scale cpu, not counted: `winze list {made.name}` has the verdicts\n" in told


def test_one_recipe_is_listed_with_its_axes_points_claims_and_departures(capsys, recipe):
    for job in recipe.jobs("cpu"):
        add_all([perform(job, Runs("elsewhere"), recipe=recipe)], recipe)
    assert main(["list", "small/score"]) == DONE
    told = capsys.readouterr().out
    for line in (
        "  axis      speed (inner.rate): plain, fast\n",
        "  cpu:      speed plain, fast\n",
        "  departs   it is not the paper's network\n",
        "  contradicted at scale cpu: fast scores lower [table 1]\n    score: 1.5 at fast, 1.1 at plain",
    ):
        assert line in told


def test_an_unknown_recipe_is_bad_input_with_the_nearest_name(capsys):
    assert main(["list", "tunel/main"]) == BAD_INPUT
    assert capsys.readouterr().err == "winze: there is no recipe 'tunel/main'; did you mean tunnel/main?\n"


def test_finished_runs_are_kept_once_and_then_counted(capsys, tmp_path, monkeypatch):
    from winze.recipes.tunnel.main import recipe

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("winze.lab.runs.perform.commit", lambda: "abc")
    perform(recipe.jobs("smoke")[0], Runs("runs"), progress=False)
    assert main(["runs", "keep"]) == DONE
    assert main(["runs", "keep", "--recipe", "tunnel/*"]) == DONE
    said = "1 run added to results, 0 already there\n0 runs added to results, 1 already there\n"
    assert capsys.readouterr().out == said
    assert main(["list", "tunnel/main"]) == DONE
    assert "at scale smoke" in capsys.readouterr().out


def test_a_folder_without_kept_readings_is_named_once(capsys, recipe):
    assert main(["list"]) == DONE
    assert capsys.readouterr().err == "winze: there is no folder results of kept readings here: --results names it\n"


def test_one_recipe_is_listed_with_the_verdicts_of_ones_own_runs_where_none_are_kept(capsys, recipe):
    for job in recipe.jobs("cpu"):
        perform(job, Runs("runs"), recipe=recipe)
    assert main(["list", recipe.name]) == DONE
    assert "  contradicted at scale cpu: " in capsys.readouterr().out
