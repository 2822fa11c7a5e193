"""The playground in a real browser."""

import os
import re
from pathlib import Path
from typing import Any

import pytest
from waiting_page import step_of, until

from winze.report.style import THEMES

QUICK = "#points=64&batch=16&a.depth=3&a.width=4"
TWO = f"{QUICK}&two=1&b.rule=DecayedIdentity&b.rule.alpha_min=0.3&b.depth=3&b.width=4"
AXE = Path(os.environ.get("WINZE_AXE", Path(__file__).parent / "axe.min.js"))
pytestmark = pytest.mark.slow


def train_to(page: Any, step: int) -> None:
    """Train with the button until this step, and pause."""
    page.click("#start")
    until(lambda: step_of(page) >= step, 60)
    page.click("#start")
    until(lambda: page.inner_text("#start") == "Start")


def test_start_pause_step_reset_and_scrub(open_page: Any):
    page = open_page(QUICK)
    assert step_of(page) == 0
    page.click("#step")
    until(lambda: step_of(page) == 1)
    train_to(page, 20)
    reached = step_of(page)
    until(lambda: "test" in page.inner_text(".nodes .sub"))
    image = "() => document.getElementById('nodes-a').toDataURL()"
    now = page.evaluate(image)
    page.focus("#scrub")
    page.keyboard.press("Home")
    until(lambda: step_of(page) == 0)
    assert f"of {reached:,}" in page.inner_text("#counter")
    assert page.evaluate(image) != now
    page.keyboard.press("End")
    until(lambda: step_of(page) == reached)
    until(lambda: page.evaluate(image) == now)
    page.click("#reset")
    until(lambda: step_of(page) == 0)
    assert page.inner_text("#start") == "Start"


def test_every_control_changes_the_settings_and_the_link(open_page: Any):
    page = open_page(QUICK)
    sliders = {"points": "64", "noise": "0.1", "batch": "5", "a-depth": "5", "a-width": "3", "a-temperature": "0.5",
               "a-lr": "-2.5"}  # fmt: skip
    for name, value in sliders.items():
        if name != "points":
            page.fill(f"#{name}", value)
    page.fill("#points", "7")
    page.fill("#seed", "3")
    page.press("#seed", "Enter")
    page.select_option("#a-activation", "tanh")
    page.select_option("#a-optimizer", "SGD")
    page.select_option("#a-rule", "DropPath")
    page.fill("#a-rule-rate", "0.4")
    page.select_option("#a-rule-mask", "batch")
    page.uncheck("#a-rule-scale")
    for part in ("points=128", "noise=0.1", "batch=32", "seed=3", "a.depth=5", "a.width=3", "a.activation=tanh",
                 "a.optimizer=SGD", "a.rule=DropPath", "a.rule.rate=0.4", "a.rule.mask=batch", "a.rule.scale=false",
                 "a.temperature=3.2", "a.lr=0.0032"):  # fmt: skip
        assert part in page.url, part
    until(lambda: "5 layers of 3, DropPath(0.4)" in page.inner_text("#networks"))
    page.select_option("#a-objective", "mse")
    assert page.locator("#a-temperature").count() == 0
    page.select_option("#a-objective", "cross_entropy")
    page.check("#a-norm")
    assert "a.temperature=norm" in page.url
    page.select_option("#data", "gaussians")
    page.fill("#classes", "3")
    page.click("#step")
    until(lambda: step_of(page) == 1)
    assert page.inner_text("#notice") == ""
    for rule in page.locator("#a-rule option").all_inner_texts():
        page.select_option("#a-rule", label=rule)
        until(lambda rule=rule: rule.replace(" ", "") in page.inner_text("#title-0"))


def test_changing_a_setting_while_training_goes_on_training(open_page: Any):
    page = open_page(QUICK)
    page.click("#start")
    until(lambda: step_of(page) > 3)
    page.select_option("#a-activation", "relu")
    until(lambda: page.inner_text("#start") == "Pause" and step_of(page) > 3)


def test_two_networks_share_data_and_the_link_restores_both(open_page: Any):
    page = open_page(QUICK)
    page.check("#two")
    page.fill("#b-rule-alpha_min", "0.3")
    until(lambda: page.locator(".nodes").count() == 2 and "DecayedIdentity(0.3)" in page.inner_text("#title-1"))
    train_to(page, 5)
    until(lambda: "A " in page.inner_text("#loss .read") and "B " in page.inner_text("#loss .read"))
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("#share")
    until(lambda: "Link copied" in page.inner_text("#notice"))
    link = page.evaluate("() => navigator.clipboard.readText()")
    other = open_page(link[link.index("#") :])
    until(lambda: other.locator(".nodes").count() == 2)
    assert other.input_value("#b-rule-alpha_min") == "0.3"
    assert other.inner_text("#title-1") == page.inner_text("#title-1")
    other.uncheck("#two")
    until(lambda: other.locator(".nodes").count() == 1)


def test_the_copied_python_gives_the_first_loss_of_the_page(open_page: Any, capsys: pytest.CaptureFixture[str]):
    page = open_page(f"{QUICK}&a.rule=ResidualDropPath&a.rule.rate=0.5&seed=4")
    until(lambda: "ResidualDropPath" in page.inner_text("#title-0"))
    page.click("#step")
    until(lambda: step_of(page) == 1 and re.search(r"loss \d", page.inner_text("#loss .read")))
    shown = float(re.search(r"loss ([\d.]+)", page.inner_text("#loss .read"))[1])
    page.click("#python-a")
    page.wait_for_selector("#text-dialog[open]")
    exec(page.input_value("#text-body"), {})
    first = float(re.search(r"first loss ([\d.e-]+)", capsys.readouterr().out)[1])
    assert float(f"{first:.3g}") == shown
    page.keyboard.press("Escape")
    assert page.locator("#text-dialog[open]").count() == 0


def test_points_are_drawn_with_the_mouse_and_with_the_keyboard(open_page: Any):
    page = open_page(QUICK)
    page.select_option("#data", "drawn")
    box = page.locator("#points-canvas").bounding_box()
    page.mouse.move(box["x"] + 20, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 120, box["y"] + 30, steps=8)
    page.mouse.up()
    until(lambda: "at least four points in two classes" in page.inner_text("#notice"))
    page.check("#draw-class-1")
    page.focus("#points-canvas")
    for _ in range(4):
        page.keyboard.press("Space")
        page.keyboard.press("ArrowDown")
    until(lambda: page.inner_text("#notice") == "")
    drawn = int(page.get_attribute("#points-canvas", "aria-label").split()[-1])
    assert drawn >= 10
    page.click("#step")
    until(lambda: step_of(page) == 1)
    other = open_page(page.url[page.url.index("#") :])
    until(lambda: other.get_attribute("#points-canvas", "aria-label") == f"Drawn points: {drawn}")
    other.check("#draw-erase")
    other.click("#points-canvas", position={"x": 30, "y": 21})
    assert int(other.get_attribute("#points-canvas", "aria-label").split()[-1]) < drawn
    other.click("#draw-clear")
    assert other.get_attribute("#points-canvas", "aria-label") == "Drawn points: 0"


def test_hovering_or_choosing_a_node_shows_its_large_map_and_statistics(open_page: Any):
    page = open_page(QUICK)
    until(lambda: "test" in page.inner_text(".nodes .sub"))
    page.focus("#nodes-a")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#card:not([hidden])")
    assert page.inner_text("#card-text strong") == "h₀, node 0"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    until(lambda: page.inner_text("#card-text strong") == "h₁, node 1")
    assert "mean" in page.inner_text("#card-text")
    page.keyboard.press("Escape")
    until(lambda: page.locator("#card").is_hidden())


def test_figures_and_the_report_are_saved(open_page: Any, tmp_path: Path):
    page = open_page(QUICK)
    until(lambda: "test" in page.inner_text(".nodes .sub"))
    for panel in ("Network", "Loss and accuracy", "Similarity of layers (CKA)"):
        name = f"Save node maps of {panel} as" if panel == "Network" else f"Save {panel} as"
        for kind, start in (("PNG", b"\x89PNG"), ("SVG", b"<svg")):
            with page.expect_download() as waiting:
                page.get_by_role("button", name=f"{name} {kind}", exact=True).click()
            waiting.value.save_as(tmp_path / "file")
            body = (tmp_path / "file").read_bytes()
            assert body.startswith(start)
            assert len(body) > 1000
    with page.expect_download(timeout=60_000) as waiting:
        page.click("#report-a")
    waiting.value.save_as(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "What the network represents at every depth" in text
    assert "layers.2" in text


def test_a_page_that_loses_its_connection_finds_its_training_again(open_page: Any):
    page = open_page(f"{QUICK}&a.activation=tanh", spy=True)
    train_to(page, 5)
    reached = step_of(page)
    page.evaluate("() => window.opened.at(-1).close()")
    until(lambda: "Connected again" in page.inner_text("#notice"))
    page.click("#step")
    until(lambda: step_of(page) == reached + 1)
    page.click("#start")
    page.evaluate("() => window.opened.at(-1).close()")
    until(lambda: step_of(page) > reached + 3 and page.inner_text("#start") == "Pause")
    assert page.input_value("#a-activation") == "tanh"


def test_a_link_that_makes_no_sense_is_told_and_survived(open_page: Any):
    page = open_page("#points=7&a.depth=nonsense&drawn=%%%&data=drawn")
    until(lambda: page.inner_text("#notice") != "")
    page.select_option("#data", "moons")
    page.fill("#points", "6")
    page.fill("#a-depth", "2")
    until(lambda: "2 layers" in page.inner_text("#title-0"))


def test_the_keyboard_reaches_every_control_and_trains(open_page: Any):
    page = open_page(QUICK)
    wanted = set(page.evaluate("() => [...document.querySelectorAll('button, input, select')].filter((e) => e.offsetParent && !e.closest('dialog')).map((e) => e.id || e.ariaLabel)"))  # fmt: skip  # noqa: E501
    reached = set()
    for _ in range(90):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("() => document.activeElement.id || document.activeElement.ariaLabel"))
    assert len(wanted) > 25
    assert wanted <= reached
    page.focus("#start")
    page.keyboard.press("Enter")
    until(lambda: step_of(page) > 0)
    page.keyboard.press("Enter")
    until(lambda: page.inner_text("#start") == "Start")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_are_those_of_the_report(open_page: Any, scheme: str):
    page = open_page(QUICK, scheme=scheme)
    theme = THEMES[scheme]
    shown = page.evaluate("() => { const s = getComputedStyle(document.documentElement); return ['paper', 'ink', 'faint', 'grid', 'shade', 'probe', 'rank', 'third', 'fourth'].map((n) => s.getPropertyValue('--' + n).trim()); }")  # fmt: skip  # noqa: E501
    wanted = [theme.paper, theme.ink, theme.faint, theme.grid, theme.shade, theme.probe, theme.rank, *theme.others[:2]]
    assert shown == wanted
    button = page.get_by_role("button", name="Dark colours")
    button.click()
    assert button.get_attribute("aria-pressed") == str(scheme == "light").lower()
    assert page.evaluate("() => document.documentElement.dataset.theme") == ("dark" if scheme == "light" else "light")


@pytest.mark.parametrize("hash", [QUICK, TWO, "#a.depth=64&a.width=32&points=64"])
def test_a_phone_shows_everything_without_scrolling_sideways(open_page: Any, hash: str):
    page = open_page(hash, width=375)
    until(lambda: "test" in page.inner_text(".nodes .sub"), 60)
    assert page.evaluate("() => document.documentElement.scrollWidth") == 375


@pytest.mark.skipif(not AXE.is_file(), reason="axe-core is not at hand: set WINZE_AXE to its axe.min.js")
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 375)])
def test_axe_finds_no_fault(open_page: Any, scheme: str, width: int):
    page = open_page(TWO, width=width, scheme=scheme, bypass_csp=True)
    until(lambda: page.locator(".nodes").count() == 2)
    page.add_script_tag(path=AXE)
    found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    assert [(one["id"], one["nodes"][0]["html"]) for one in found["violations"]] == []


def test_the_first_paint_comes_soon(open_page: Any):
    page = open_page(QUICK)
    paint = "() => performance.getEntriesByName('first-contentful-paint')[0].startTime"
    assert page.evaluate(paint) < 5000  # below a second on a machine with nothing else to do
