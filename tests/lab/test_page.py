"""The page of an experiment: whole, escaped, and readable without scripts."""

import re
from html import escape
from pathlib import Path

import pytest
from small_recipe import FAST, PLAIN, QUANTITIES, curves, make_recipe, runs
from waiting import soon

from winze.lab import Claim, Question, Scale, at_most, lower, tunnel_at
from winze.lab.claims.quantities import Whole, last
from winze.lab.page import write_report
from winze.report import style
from winze.report.experiment import Drawing, UnreadError

SCORES = runs(plain=[1.0, 1.1, 1.2], fast=[0.5, 0.6, 0.6])


def written(folder: Path, readings=SCORES, scale="cpu", **changes) -> str:
    return write_report(make_recipe(**changes), scale, readings, folder / "report.html").read_text(encoding="utf-8")


def test_the_page_says_what_was_claimed_and_what_came_out(tmp_path):
    page = written(tmp_path)
    assert "<h1>small/score: 1 claim: 1 supported</h1>" in page
    for said in (
        "fast scores lower",
        "✓ supported",
        "table 1",
        "12 %",
        "2 points, 6 runs",
        "it is not the paper&#x27;s network",
    ):
        assert said in page


def test_names_cannot_break_out_of_the_page(tmp_path):
    claim = Claim("<script>alert(1)</script>", "<b>", lower("score", {"speed": "fast"}, than={"speed": "plain"}))
    page = written(tmp_path, claims=(claim,))
    assert "<script" not in page
    assert escape("<script>alert(1)</script>") in page
    assert "A Paper &lt;of 2024&gt;" in page


def test_the_page_asks_for_nothing_from_outside(tmp_path):
    page = written(tmp_path, {PLAIN: curves([0.5, 1.0])}, quantities=QUANTITIES)
    sources = re.findall(r'(?:src|srcset|href)="([^"#]+)', page)
    assert [one for one in sources if not one.startswith("data:")] == ["https://example.org/paper"]
    assert sum(one.startswith("data:image/svg+xml") for one in sources) == 2
    assert "default-src 'none'" in page


def test_the_figures_lie_beside_the_page_too(tmp_path):
    written(tmp_path, {PLAIN: curves([0.5, 1.0])})
    assert sorted(path.name for path in (tmp_path / "report_figures").iterdir()) == [
        "depth-profile.png",
        "depth-profile.svg",
    ]


def test_a_recipe_may_bring_figures_of_its_own_and_those_that_cannot_be_drawn_are_left_out(tmp_path):
    def drawn(runs, theme):
        with style.use(theme):
            figure = style.figure()
            figure.add_subplot().plot([len(seeds) for seeds in runs.values()])
            return figure

    def undrawn(runs, theme):
        raise UnreadError("nothing to draw")

    page = written(tmp_path, figures=(Drawing("Scores", drawn), Drawing("Maps", undrawn)))
    assert ">Scores</h2>" in page
    assert "Maps" not in page
    assert "Depth profile" not in page


def test_the_numbers_stand_by_point_and_seed(tmp_path):
    page = written(tmp_path)
    assert '<th scope="row">score</th><td>speed plain</td><td>1.1</td><td>1</td><td>1.1</td><td>1.2</td>' in page


def test_a_named_number_that_a_claim_speaks_of_stands_once(tmp_path):
    quantities, claim = {"top_score": Whole("score")}, Claim("x", "t", at_most("top_score", 1))
    page = written(tmp_path, claims=(claim,), questions=(), quantities=quantities)
    assert page.count('<th scope="row">top score</th><td>speed plain</td>') == 1


def test_what_was_not_run_is_on_the_page(tmp_path):
    page = written(tmp_path, {})
    assert "1 claim: 1 not run" in page
    assert "no readings of speed fast; speed plain" in page
    assert "no runs" in page


def test_a_stand_in_is_named_beside_its_claim_and_no_column_is_empty(tmp_path):
    claim = Claim("x", "t", at_most("score", 1), at={"speed": "fast"}, departure="digits stand in for CIFAR-10")
    assert "digits stand in for CIFAR-10" in written(tmp_path, claims=(claim,))
    assert ">departure</th>" not in written(tmp_path)


def test_cells_stand_under_their_claim_and_questions_apart(tmp_path):
    claim = Claim("scores are small", "table 2", at_most("score", 9), each="speed", paper={"fast": "8 %"})
    asked = Question("are they tiny?", at_most("score", 1), each="speed", post_hoc="asked after the runs")
    page = written(tmp_path, claims=(claim,), questions=(asked,))
    claims, questions = page.split("Questions of our own</h2>")
    row, plain, fast = (claims.index(said) for said in ("scores are small", ">  plain<", ">  fast<"))
    assert row < plain < fast
    assert "2 cells" in claims
    assert "8 %" in claims
    assert "are they tiny?" in questions
    assert "asked after the runs" in questions


def test_runs_that_failed_to_learn_are_named(tmp_path):
    page = written(tmp_path, learned=("score", 0.55))
    assert "speed fast, seed 0: score 0.5 is below 0.55" in page


def test_departures_of_the_scale_come_after_those_of_the_recipe(tmp_path):
    scales = {"cpu": Scale(seeds=3, departures=("fewer epochs",))}
    page = written(tmp_path, scales=scales)
    assert page.index("not the paper") < page.index("fewer epochs")


def test_settings_changed_by_set_stand_on_the_page(tmp_path):
    recipe = make_recipe().with_settings({"inner.steps": 3}, "cpu")
    page = write_report(recipe, "cpu", SCORES, tmp_path / "set.html").read_text(encoding="utf-8")
    assert "Settings changed by --set" in page
    assert "inner.steps = 3" in page
    assert "Settings changed" not in written(tmp_path)


def test_the_page_is_the_same_every_time(tmp_path):
    claims = (Claim("t", "fig. 1", tunnel_at(0.9, 2), at={"speed": "plain"}),)
    quantities = {"score": Whole("accuracy"), "end": last("probe")}
    pages = [written(tmp_path, {PLAIN: curves([0.5, 1.0])}, claims=claims, quantities=quantities) for _ in range(2)]
    assert pages[0] == pages[1]


@pytest.mark.slow
def test_a_browser_shows_the_page_on_a_phone_without_scrolling_sideways(tmp_path):
    import shutil

    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    layers = {"without projections": [3, 5, 7, 9], "with projections": [3, 5, 8, 10]}
    points = {
        PLAIN: curves(*[[0.5, 0.8, 1.0, 1.0]] * 3, ood=[0.5, 0.6, 0.4, 0.3], layers=layers),
        FAST: curves([0.5, 1.0]),
    }
    check = tunnel_at(0.95, {"plain": 7, "fast": 3})
    claims = (Claim("the tunnel starts at layer 7", "fig. 2", check, each="speed", paper=7, departure="a stand-in"),)
    written(tmp_path, points, claims=claims)
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    troubles: list[str] = []
    with playwright.sync_playwright() as p:
        context = p.chromium.launch_persistent_context(tmp_path / "profile", executable_path=chromium, args=flags)
        page = context.new_page()
        page.set_default_timeout(300_000)  # a machine that runs several test processes is slow
        page.on("console", lambda message: troubles.append(message.text))
        page.on("request", lambda asked: asked.url.startswith(("file:", "data:")) or troubles.append(asked.url))
        page.set_viewport_size({"width": 375, "height": 800})
        page.goto((tmp_path / "report.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") == 375
        assert page.evaluate("document.querySelector('picture img').naturalWidth") > 300
        shown = "document.querySelector('picture img').currentSrc"
        light = page.evaluate(shown)
        page.emulate_media(color_scheme="dark")
        soon(lambda: page.evaluate(shown) != light)  # the page forbids the eval by which Playwright would wait
        context.close()
    assert troubles == []
