"""What leaves the page and comes back to it: links, Python, figures, reports."""

import re
from pathlib import Path
from typing import Any

import pytest
from waiting import soon
from waiting_page import QUICK, TWO, save_every_figure, step_of, train_to, url_of

pytestmark = pytest.mark.slow


def test_two_networks_share_data_and_the_link_restores_both(open_page: Any):
    page = open_page(QUICK)
    page.check("#two")
    page.fill("#b-rule-alpha_min", "0.3")
    soon(lambda: page.locator(".nodes").count() == 2 and "DecayedIdentity(0.3)" in page.inner_text("#title-1"))
    train_to(page, 5)
    soon(lambda: "A: " in page.inner_text("#loss .read") and "B: " in page.inner_text("#loss .read"))
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("#share")
    soon(lambda: "Link copied" in page.inner_text("#notice"))
    link = page.evaluate("() => navigator.clipboard.readText()")
    other = open_page(link[link.index("#") :])
    soon(lambda: other.locator(".nodes").count() == 2)
    assert other.input_value("#b-rule-alpha_min") == "0.3"
    assert other.inner_text("#title-1") == page.inner_text("#title-1")
    other.uncheck("#two")
    soon(lambda: other.locator(".nodes").count() == 1)


def test_a_link_restores_the_step_and_what_the_panels_show(open_page: Any):
    page = open_page(TWO)
    for number in range(1, 8):
        page.click("#step")
        soon(lambda number=number: step_of(page) == number)
    page.select_option("#depth-choice", "rank")
    soon(lambda: "step=7" in url_of(page) and "panel.depth=rank" in url_of(page))
    other = open_page(url_of(page)[url_of(page).index("#") :])
    soon(lambda: step_of(other) == 7 and other.inner_text("#start") == "Start")
    assert other.input_value("#depth-choice") == "rank"
    image = "() => document.getElementById('nodes-b').toDataURL()"
    soon(lambda: other.evaluate(image) == page.evaluate(image))
    page.focus("#scrub")
    page.keyboard.press("Home")
    soon(lambda: "step=" not in url_of(page))


def test_the_link_to_the_panels_keeps_the_settings(open_page: Any):
    page = open_page(QUICK)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("() => document.activeElement.id") == "main"
    assert "a.depth=3" in url_of(page)
    assert page.input_value("#a-depth") == "3"


def test_the_copied_python_gives_the_loss_and_the_accuracy_of_the_page(
    open_page: Any, capsys: pytest.CaptureFixture[str]
):
    page = open_page(f"{QUICK}&a.rule=ResidualDropPath&a.rule.rate=0.5&seed=4")
    soon(lambda: "ResidualDropPath" in page.inner_text("#title-0"))
    page.click("#step")
    soon(lambda: step_of(page) == 1 and re.search(r"loss \d", page.inner_text("#loss .read")))
    shown, accuracy = map(
        float, re.search(r"loss ([\d.]+), test accuracy ([\d.]+)", page.inner_text("#loss .read")).groups()
    )
    page.click("#python-a")
    page.wait_for_selector("#text-dialog[open]")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("#text-copy")
    soon(lambda: page.inner_text("#text-copy") == "Copied")
    exec(page.evaluate("() => navigator.clipboard.readText()"), {})
    told = capsys.readouterr().out
    first, reached = (float(re.search(rf"{name} ([\d.e-]+)", told)[1]) for name in ("first loss", "test accuracy"))
    assert float(f"{first:.3g}") == shown
    assert 100 * reached == pytest.approx(accuracy, abs=0.051)
    page.keyboard.press("Escape")
    assert page.locator("#text-dialog[open]").count() == 0


def test_figures_and_the_report_are_saved(open_page: Any, tmp_path: Path):
    page = open_page(QUICK)
    soon(lambda: "test" in page.inner_text(".nodes .sub"))
    assert save_every_figure(page, tmp_path) == 7
    with page.expect_download() as waiting:
        page.click("#report-a")
    waiting.value.save_as(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "What the network represents at every depth" in text
    assert "layers.2" in text


def test_a_link_that_makes_no_sense_is_told_and_survived(open_page: Any):
    page = open_page("#points=7&a.depth=nonsense&drawn=%%%&data=drawn")
    soon(lambda: page.inner_text("#notice") != "")
    page.select_option("#data", "moons")
    page.fill("#points", "6")
    page.fill("#a-depth", "2")
    soon(lambda: "2 layers" in page.inner_text("#title-0"))
