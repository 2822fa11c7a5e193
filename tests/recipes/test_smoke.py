"""Every recipe runs at its smallest scale, and what it leaves behind can be judged, kept and shown."""

import math
from html import escape

import pytest

from winze.lab import Recipe, recipes
from winze.lab.page import write_report
from winze.lab.perform import perform
from winze.lab.results import add, finished, load, readings_of
from winze.lab.store import Runs
from winze.report import style

RECIPES = recipes()


@pytest.fixture(scope="module", params=RECIPES)
def smoked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """A recipe, the folder of its runs, and their readings by arm and seed."""
    recipe: Recipe = RECIPES[request.param]
    root = tmp_path_factory.mktemp("runs")
    folders = [perform(job, Runs(root), progress=False) for job in recipe.jobs("smoke")]
    return recipe, folders, finished(recipe, root)["smoke"]


def test_every_arm_and_seed_is_there(smoked):
    recipe, folders, runs = smoked
    expected = {}
    for arm in recipe.arms_at("smoke"):
        count = getattr(recipe.config("smoke", arm), "side_by_side", 1)  # networks of a run, each a seed of its own
        expected[arm] = tuple(seed * count + one for seed in recipe.scale("smoke").seeds for one in range(count))
    assert {arm: tuple(seeds) for arm, seeds in runs.items()} == expected
    assert len(folders) == len(set(folders))


def test_every_claim_can_be_judged(smoked):
    recipe, _, runs = smoked
    verdicts = recipe.verdicts("smoke", runs)
    assert verdicts
    for claim, told in verdicts:
        assert told.word != "not run", f"{claim.text}: {told.sentence}"
        assert math.isfinite(told.estimate), f"{claim.text}: {told.sentence}"


def test_what_results_keep_is_enough_for_every_verdict(smoked, tmp_path):
    recipe, folders, runs = smoked
    for folder in folders:
        assert add(folder, recipe, tmp_path)
    assert recipe.verdicts("smoke", readings_of(load(recipe, tmp_path)["smoke"])) == recipe.verdicts("smoke", runs)


def test_the_page_has_every_claim(smoked, tmp_path, monkeypatch):
    """Its figures are drawn; what takes long, to lay them out as files, is tested in tests/report."""
    monkeypatch.setattr(style, "rendered", lambda drawing, kind="svg": b"")
    recipe, _, runs = smoked
    page = write_report(recipe, "smoke", runs, tmp_path / "report.html").read_text()
    for claim in recipe.claims_at("smoke"):
        assert escape(claim.text) in page


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_says_what_it_shows_whose_it_is_and_where_it_departs(name):
    recipe = RECIPES[name]
    assert recipe.shows
    assert recipe.url.startswith("https://")
    assert recipe.departures
    assert {"smoke", "cpu", "paper"} <= set(recipe.scales)
