"""`winze list`."""

import pytest
from small_recipe import make_recipe

import winze.lab
from winze.cli import BAD_INPUT, DONE, main
from winze.lab.perform import perform
from winze.lab.results import add
from winze.lab.store import Runs


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
    for word in ("tunnel/main (S8): ", "2305.19753", "smoke (2 arms x 1 seed), cpu (2 arms x 3 seeds)", "no readings"):
        assert word in told


def test_the_verdicts_of_kept_readings_are_counted(capsys, recipe):
    for job in recipe.jobs("cpu"):
        add(perform(job, Runs("elsewhere"), recipe=recipe), recipe)
    assert main(["list"]) == DONE
    assert "  verdicts  cpu: 1 not borne out\n" in capsys.readouterr().out


def test_ones_own_runs_are_counted_apart(capsys, recipe):
    for job in recipe.jobs("smoke"):
        perform(job, Runs("runs"), recipe=recipe)
    assert main(["list"]) == DONE
    told = capsys.readouterr().out
    assert "  verdicts  no readings are kept yet\n  runs: smoke: 1 not enough evidence\n" in told


def test_one_recipe_is_told_with_all_its_claims_and_departures(capsys, recipe):
    assert main(["list", "small/score"]) == DONE
    told = capsys.readouterr().out
    assert "  departs   it is not the paper's network\n" in told
    assert "  cpu:      fast scores lower: not run: there are no readings of fast, plain\n" in told


def test_an_unknown_recipe_is_bad_input_with_the_nearest_name(capsys):
    assert main(["list", "tunel/main"]) == BAD_INPUT
    assert capsys.readouterr().err == "winze: there is no recipe 'tunel/main'; did you mean tunnel/main?\n"


def test_finished_runs_are_kept_once_and_then_counted(capsys, tmp_path, monkeypatch):
    from winze.recipes.tunnel.main import recipe

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("winze.lab.perform.commit", lambda: "abc")
    job = recipe.jobs("smoke", arms=["mlp4"])[0]
    perform(job, Runs("runs"), progress=False)
    assert main(["runs", "keep"]) == DONE
    assert main(["runs", "keep", "--recipe", "tunnel/*"]) == DONE
    assert capsys.readouterr().out == "1 run added to results, 0 were there\n0 runs added to results, 1 were there\n"
    assert main(["list"]) == DONE
    assert "  verdicts  smoke: " in capsys.readouterr().out
