"""The pages in docs/results and README's table of headlines, from made-up runs and from those that are kept."""

import re
import sys
from pathlib import Path

import pytest
from scripts import script
from small_recipe import make_recipe

from winze import lab
from winze.lab import Claim, Question, Scale, at_most, level
from winze.lab.runs.perform import perform
from winze.lab.runs.results import add_all
from winze.lab.runs.store import Runs
from winze.readings import Point

ROOT = Path(__file__).parents[2]
tables = script("tables")
pages, kept_runs = sys.modules["table_results"], sys.modules["kept_runs"]
CLAIMS = (
    Claim(
        "a claim | with a bar", "table 3", at_most("score", 9), each="speed", paper={"fast": "8 points"}, headline=True
    ),
    Claim(
        "a level", "fig. 2", level("score", 5, within=1), at={"speed": "plain"}, departure="a stand-in", headline=True
    ),
    Claim("never run", "fig. 3", at_most("score", 9), at={"speed": "fast"}, scales=("paper",), headline=True),
)
ASKED = Question("is it small?", at_most("score", 9), at={"speed": "fast"}, post_hoc="asked after the runs were seen")


@pytest.fixture
def made(monkeypatch, tmp_path):
    """The only recipe there is, with kept runs at scale gpu of which one failed."""
    scales = {
        "smoke": Scale({"size": 1}),
        "gpu": Scale(seeds=3, departures=("fewer epochs",)),
        "paper": Scale({"size": 9}),
    }
    recipe = make_recipe(claims=CLAIMS, questions=(ASKED,), scales=scales, learned=("score", 0.2))
    monkeypatch.setattr(lab, "recipes", lambda: {recipe.name: recipe})
    monkeypatch.setattr(lab, "recipe", {recipe.name: recipe}.__getitem__)
    kept_runs.recipes.cache_clear()  # the others are cached by folder too
    for scale in ("smoke", "gpu"):
        for job in recipe.jobs(scale):
            add_all([perform(job, Runs(tmp_path / "runs"), recipe=recipe)], recipe, tmp_path)
    yield recipe
    kept_runs.recipes.cache_clear()


@pytest.fixture
def page(made, tmp_path):
    return pages.pages(tmp_path)["docs/results/small.md"]


def rows(text):
    return [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in text.splitlines() if line[:1] == "|"
    ]


def test_a_claim_has_a_row_with_its_cells_under_it_and_the_papers_numbers(page):
    found = rows(page)
    spot = next(i for i, row in enumerate(found) if row[0].startswith("a claim"))
    assert found[spot][:3] == ["a claim \\| with a bar (table 3)", "**inconclusive, gpu**", ""]
    assert [row[:3] for row in found[spot + 1 : spot + 3]] == [
        ["· plain", "inconclusive", ""],
        ["· fast", "supported", "8 points"],
    ]


def test_axes_of_learning_rates_are_called_so_and_those_of_drop_rates_are_not():
    tunnel, drops = lab.recipe("tunnel/shorter"), lab.recipe("residual_droppath/ablation")
    assert kept_runs.in_words(tunnel, "rate") == "learning rate"
    assert kept_runs.in_words(tunnel, "layers 7, rate 0.03: 0.2 at a learning rate 0.1") == (
        "layers 7, learning rate 0.03: 0.2 at a learning rate 0.1"
    )
    assert kept_runs.in_words(drops, "rate 0.1") == "rate 0.1"


def test_a_row_leaves_out_modules_and_what_the_page_says_once():
    said = "reach 95 % of 90 % at layer 6 of 19, `layers.conv6.relu` [6, 6]; mean curve of 1 seed; fewer than 3 seeds"
    assert pages._terse(said) == "reach 95 % of 90 % at layer 6 of 19 [6, 6] (1 seed)"
    assert pages._terse("rank: 9.4 (3 seeds); 95 % [8.9, 9.9]") == "rank: 9.4 (3 seeds) [8.9, 9.9]"


def test_a_claim_of_one_cell_is_one_row_with_its_departure(page):
    (row,) = [row for row in rows(page) if row[0].startswith("a level")]
    assert row[0] == "a level (fig. 2) Departure: a stand-in."
    assert row[3].startswith("score: 1.6 (2 seeds)")


def test_what_was_not_run_says_so_and_smoke_tests_are_no_evidence(page):
    (row,) = [row for row in rows(page) if row[0].startswith("never run")]
    assert row[1] == "**not run**"
    assert "smoke" not in page


def test_questions_stand_apart_and_say_that_they_are_post_hoc(page):
    assert "| question of our own | verdict |" in page
    assert "is it small? *Post hoc: asked after the runs were seen.*" in page


def test_counts_are_of_claims_and_questions_apart(page):
    assert "3 claims: 2 inconclusive, 1 not run; 1 question: 1 supported" in page


def test_failed_runs_and_departures_are_named(page):
    assert "Failed to learn at scale gpu, in no verdict: speed plain, seed 0: score 0.1 is below 0.2." in page
    assert "- it is not the paper's network (score)\n- scale gpu: fewer epochs (score)" in page


def test_the_numbers_are_means_over_sound_seeds(page):
    assert "| plain | 2 | 1.60 ± 0.71 |" in page
    assert "| fast | 3 | 1.5 ± 1.0 |" in page


def test_headlines_have_effect_interval_paper_and_seeds_and_leave_out_what_was_not_run(made, tmp_path):
    head, _, *found = rows(pages.headlines(tmp_path))
    assert head == ["paper", "claim", "verdict", "published", "here", "runs"]
    assert [row[0] for row in found] == ["small", ""]
    assert [row[1] for row in found] == [
        "[a claim \\| with a bar](docs/results/small.md#smallscore)",
        "[a level](docs/results/small.md#smallscore)",
    ]
    assert found[0][2] == "**inconclusive** (1 of 2)"
    assert found[0][3] == "8 points"
    assert re.fullmatch(r"150 to 160 \[-?[\d,]+, [\d,]+\] points", found[0][4])
    assert found[0][5] == "2-3 seeds"


def test_a_headline_is_the_claim_without_parentheses_and_explanations():
    assert pages._short("it falls (by 5 points or more)") == "it falls"
    assert pages._short("it is agnostic: one keeps, one loses") == "it is agnostic"


def test_effects_of_cells_are_a_range_unless_each_has_a_published_number():
    cells = [
        (f"net, {one:g}", pages.Verdict("supported", "", one, one - 1, one + 1, 3))
        for one in (1.0, 2.0, 30.0, 4.0, 5.0)
    ]
    assert pages._effects(cells, "", listed=False) == "1 to 30 [0, 31]"
    assert pages._effects(cells[:2], " points", listed=True) == "1: 100 [0, 200] points<br>2: 200 [100, 300] points"


def test_a_range_keeps_slopes_apart_and_holds_cells_without_an_interval():
    nan = float("nan")
    cells = [
        ("", pages.Verdict("inconclusive", said, one, low, high, 3))
        for said, one, low, high in (
            ("a difference", -9.0, nan, nan),
            ("a difference", -4.0, -5.0, -3.0),
            ("score; slope 2", 2.0, 1.0, 3.0),
        )
    ]
    assert pages._effects(cells, "", listed=False) == "-9 to -4 [-9, -3]<br>slope 2 [1, 3]"


def test_a_slope_says_which_means_it_connects():
    ends = {Point(alpha=0.4): {0: 1.0, 1: 3.0}, Point(alpha=1.0): {0: 5.0, 1: 7.0}}
    verdict = pages.Verdict("supported", "score; slope 4 [3, 5]", 4.0, 3.0, 5.0, 2, values=ends)
    assert pages._effects([("", verdict)], "", listed=False) == "2 to 6 (slope 4 [3, 5])"


def test_rows_of_the_headlines_are_short():
    readme = (ROOT / "README.md").read_text()
    table = readme.split("<!-- table:headlines -->")[1].split("<!-- /table -->")[0]
    for row in rows(table)[2:]:
        text = [re.sub(r"\]\(.*\)$", "", row[1]), *(part for cell in row[2:] for part in cell.split("<br>"))]
        assert max(map(len, text)) <= 90, row


def test_digits_are_on_no_page_and_in_no_tally(monkeypatch, made, tmp_path):
    monkeypatch.setattr(kept_runs, "is_stand_in", lambda recipe, scale: True)
    monkeypatch.setattr(sys.modules["winze.lab.claims.table"], "is_stand_in", lambda recipe, scale: True)
    again = tmp_path / "again"  # a folder that no cache knows
    again.symlink_to(tmp_path, target_is_directory=True)
    text = pages.pages(again)["docs/results/small.md"]
    assert "3 claims: 3 not run; 1 question: 1 not run" in text
    assert "| `small/score` |" in text
    assert "## small/score" not in text


@pytest.fixture(scope="module")
def written() -> dict[str, str]:
    return pages.pages(ROOT / "results")


@pytest.mark.slow
def test_the_pages_are_up_to_date_and_small(written):
    assert {str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "results").glob("*.md")} == set(written)
    for path, text in written.items():
        assert (ROOT / path).read_text() == text, "run `make pages`"
        assert len(text.encode()) <= 60_000


def test_every_figure_that_a_page_shows_is_there():
    for path in (ROOT / "docs" / "results").glob("*.md"):
        for figure in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", path.read_text()):
            assert path.parent.joinpath(figure).is_file()


def test_readme_shows_at_most_fifteen_headlines_of_the_papers_that_ran_at_full_size():
    readme = (ROOT / "README.md").read_text()
    table = readme.split("<!-- table:headlines -->")[1].split("<!-- /table -->")[0]
    found = rows(table)[2:]
    assert 8 <= len(found) <= 15
    shown = {re.search(r"docs/results/(\w+)\.md#", row[1])[1] for row in found}
    assert shown >= {"residual_droppath", "decayed", "tunnel", "temperature"}
    assert all("digits" not in row[5] for row in found)
