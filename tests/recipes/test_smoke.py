"""Every recipe runs at its smallest scale, and what it leaves behind can be judged, kept and shown."""

from collections import Counter
from dataclasses import replace
from html import escape

import pytest

from winze.lab import Recipe, recipes
from winze.lab.page import write_report
from winze.lab.runs.perform import perform
from winze.lab.runs.results import add_all, finished, load, readings_of
from winze.lab.runs.store import Runs
from winze.report import style

RECIPES = recipes()


@pytest.fixture(scope="module", params=RECIPES)
def smoked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """A recipe, the folders of its runs, and their readings by point and seed; no run is too short to count."""
    recipe: Recipe = replace(RECIPES[request.param], learned=(lambda readings: 1.0, 0.0))
    root = tmp_path_factory.mktemp("runs")
    folders = [perform(job, Runs(root), progress=False) for job in recipe.jobs("smoke")]
    return recipe, folders, finished(recipe, root)["smoke"]


def test_every_point_and_seed_is_there(smoked):
    recipe, folders, runs = smoked
    assert list(runs) == list(recipe.grid("smoke").points)
    assert {len(seeds) % len(recipe.scale("smoke").seed_numbers) for seeds in runs.values()} == {0}
    assert len(folders) == len(set(folders))


def test_every_claim_of_this_scale_can_be_judged(smoked):
    recipe, _, runs = smoked
    for judged in recipe.verdicts("smoke", runs):
        for cell, told in judged.cells:
            assert told.word != "not run", f"{judged.statement.text}, {cell}: {told.sentence}"


def test_what_results_keep_is_enough_for_every_verdict(smoked, tmp_path):
    recipe, folders, runs = smoked
    for folder in folders:
        assert add_all([folder], recipe, tmp_path)
    kept = readings_of(load(recipe, tmp_path)["smoke"])
    of_kept, of_runs = ([repr(one.cells) for one in recipe.verdicts("smoke", read)] for read in (kept, runs))
    assert of_kept == of_runs  # written out, since a NaN equals itself only so


def test_the_page_has_every_statement(smoked, tmp_path, monkeypatch):
    """Its figures are drawn; what takes long, to lay them out as files, is tested in tests/report."""
    monkeypatch.setattr(style, "rendered", lambda drawing, kind="svg": b"")
    recipe, _, runs = smoked
    page = write_report(recipe, "smoke", runs, tmp_path / "report.html").read_text()
    for judged in recipe.verdicts("smoke", runs):
        assert escape(judged.statement.text) in page


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_says_what_it_shows_whose_it_is_and_where_it_departs(name):
    recipe = RECIPES[name]
    assert recipe.shows
    assert recipe.url.startswith("https://")
    assert recipe.departures
    assert {"smoke", "cpu", "paper"} <= set(recipe.scales)
    for statement in (*recipe.claims, *recipe.questions):  # each row of a table stands alone
        assert statement.text.split()[0].lower() not in {"so", "and", "but", "it", "they", "that", "this", "these"}


def test_a_system_has_about_twenty_claims():
    counted = Counter(recipe.system for recipe in RECIPES.values() for _ in recipe.claims)
    assert max(counted.values()) < 25, counted
