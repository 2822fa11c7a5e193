"""docs/results.md: what it says of kept readings."""

import re

import pytest
from scripts import script
from small_recipe import Settings, make_recipe

import winze.lab
from winze.lab import Claim, Scale, at_most, lower
from winze.lab.perform import perform
from winze.lab.results import add
from winze.lab.store import Runs

tables = script("tables")

PAGE = "before\n<!-- table:verdicts -->\nold\n<!-- /table -->\nafter\n"


@pytest.fixture
def recipe(monkeypatch):
    claims = (
        Claim("fast scores | lower", lower("score", "fast", than="plain"), paper="12 %"),
        Claim("small is small", at_most("score", "plain", 9), paper=3, departure={"cpu": "digits stand in"}),
        Claim("never run", at_most("score", "plain", 9), scales=("paper",)),
    )
    scales = {"cpu": Scale(Settings(), (0, 1, 2), departures=("fewer epochs",)), "paper": Scale(Settings(size=9), (0,))}
    made = make_recipe(claims=claims, scales=scales)
    monkeypatch.setattr(winze.lab, "recipes", lambda: {made.name: made})
    return made


@pytest.fixture
def filled(recipe, tmp_path):
    for job in recipe.jobs("cpu"):
        add(perform(job, Runs(tmp_path / "runs"), recipe=recipe), recipe, tmp_path)
    return tables.refresh(PAGE, tmp_path)


def test_every_claim_has_a_row_with_all_that_is_asked_for(filled):
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in filled.splitlines() if line.startswith("|")]
    assert [cell.strip() for cell in rows[0]] == [
        "claim", "paper", "ours", "n", "scale", "machine", "date", "seconds", "verdict", "departure",
    ]  # fmt: skip
    assert {len(row) for row in rows} == {10}
    cells = [[cell.strip() for cell in row] for row in rows[2:]]
    assert [(row[0], row[1], row[3], row[4], row[8], row[9]) for row in cells] == [
        ("fast scores \\| lower", "12 %", "3", "cpu", "not borne out", ""),
        ("small is small", "3", "3", "cpu", "borne out", "digits stand in"),
        ("never run", "", "-", "paper", "not run", ""),
    ]
    assert "difference 0.4" in cells[0][2]
    assert "CPU" in cells[0][5]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", cells[0][6])


def test_the_page_is_stable_and_names_paper_and_departures(filled, tmp_path):
    assert "old" not in filled
    assert "[A Paper <of 2024>](https://example.org/paper)" in filled
    assert "At scale cpu: fewer epochs." in filled
    assert tables.refresh(filled, tmp_path) == filled


def test_runs_of_earlier_settings_are_mentioned(filled, tmp_path, monkeypatch):
    made = make_recipe(arms={"plain": {}, "fast": {"inner.rate": 0.25}})
    monkeypatch.setattr(winze.lab, "recipes", lambda: {made.name: made})
    assert "3 runs of earlier settings are kept and not counted here." in tables.refresh(PAGE, tmp_path)


def test_without_readings_every_claim_reads_not_run(recipe, tmp_path):
    filled = tables.refresh(PAGE, tmp_path)
    assert filled.count("| not run |") == 3
