"""The playground in a real browser."""

import time
from typing import Any

import pytest
from waiting import soon
from waiting_page import AXE, QUICK, TWO, faults, frames_of, layout_of, step_of, train_to, url_of

from winze.play.settings import DATA, catalogue
from winze.report.style import THEMES

pytestmark = pytest.mark.slow


def test_start_pause_step_reset_and_scrub(open_page: Any):
    page = open_page(QUICK)
    assert step_of(page) == 0
    page.click("#step")
    soon(lambda: step_of(page) == 1)
    train_to(page, 20)
    reached = step_of(page)
    soon(lambda: "test" in page.inner_text(".nodes .sub"))
    image = "() => document.getElementById('nodes-a').toDataURL()"
    now = page.evaluate(image)
    page.focus("#scrub")
    page.keyboard.press("Home")
    soon(lambda: step_of(page) == 0)
    assert f"of {reached:,}" in page.inner_text("#counter")
    assert page.evaluate(image) != now
    page.keyboard.press("End")
    soon(lambda: step_of(page) == reached)
    soon(lambda: page.evaluate(image) == now)
    page.click("#reset")
    soon(lambda: step_of(page) == 0)
    assert page.inner_text("#start") == "Start"


def test_a_slider_that_never_rests_overruns_neither_the_server_nor_the_url(open_page: Any):
    page = open_page(QUICK)
    train_to(page, 20)
    moved = "([id, last]) => { const e = document.getElementById(id); for (let i = 0; i < 1000; i++) { e.value = i === 999 ? last : 0.01 * (i % 20); e.dispatchEvent(new Event('input')); } }"  # noqa: E501
    page.evaluate(moved, ["scrub", 0])
    soon(lambda: step_of(page) == 0)
    count = "() => { const real = history.replaceState; history.replaceState = function (...given) { window.changes = (window.changes ?? 0) + 1; return real.apply(this, given); }; }"  # noqa: E501
    page.evaluate(count)
    page.evaluate(moved, ["noise", 0.33])
    soon(lambda: "noise=0.33" in url_of(page))
    assert page.evaluate("() => window.changes") < 10
    page.click("#step")
    soon(lambda: step_of(page) == 1)
    assert page.inner_text("#notice") == ""


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
        soon(lambda part=part: part in url_of(page))
    soon(lambda: "5 layers of 3, DropPath(0.4)" in page.inner_text("#networks"))
    page.select_option("#a-objective", "mse")
    assert page.locator("#a-temperature").count() == 0
    page.select_option("#a-objective", "cross_entropy")
    page.check("#a-norm")
    soon(lambda: "a.temperature=norm" in url_of(page))
    page.select_option("#data", "gaussians")
    page.fill("#classes", "3")
    page.click("#step")
    soon(lambda: step_of(page) == 1)
    assert page.inner_text("#notice") == ""


def test_every_set_of_points_can_be_chosen_and_trained_on(open_page: Any):
    page = open_page(QUICK)
    assert page.locator("#data option").all_inner_texts() == list(DATA)
    image = "() => document.getElementById('points-canvas').toDataURL()"
    seen = set()
    for name in DATA[:-1]:
        page.select_option("#data", name)
        soon(lambda: step_of(page) == 0 and page.evaluate(image) not in seen)
        seen.add(page.evaluate(image))
        page.click("#step")
        soon(lambda: step_of(page) == 1)
    assert len(seen) == 5


@pytest.mark.parametrize("rule", catalogue()["rules"])
def test_every_rule_has_its_parameters_as_controls(open_page: Any, rule: str):
    page = open_page(QUICK)
    page.select_option("#a-rule", rule)
    soon(lambda: rule in page.inner_text("#title-0"))
    for name, about in catalogue()["rules"][rule]["options"].items():
        control = page.locator(f"#a-rule-{name}")
        if about["kind"] == "number":
            assert control.get_attribute("type") == "range"
            control.fill(f"{(about['low'] + about['high']) / 4:g}")
        elif about["kind"] == "flag":
            control.set_checked(not about["default"])
        else:
            control.select_option(about["choices"][-1])
        soon(lambda name=name: f"a.rule.{name}=" in url_of(page))
    page.click("#step")
    soon(lambda: step_of(page) == 1)
    assert page.inner_text("#notice") == ""


def test_all_that_is_read_is_drawn(open_page: Any):
    page = open_page(TWO)
    soon(lambda: page.locator(".nodes").count() == 2)
    train_to(page, 30)
    soon(lambda: page.inner_text(".nodes .sub").count("test accuracy"))
    panels = {"depth", "loss", "distance", "cka", "spectra", "norm"}
    assert set(page.evaluate("() => [...document.querySelectorAll('#panels .panel')].map((e) => e.id)")) == panels
    colours = "(id) => { const c = document.getElementById(id); return new Set(new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer)).size; }"  # noqa: E501
    for canvas in ("nodes-a", "nodes-b", *(f"{panel}-canvas" for panel in panels)):
        soon(lambda canvas=canvas: page.evaluate(colours, canvas) > 20)


@pytest.mark.parametrize("width", [700, 1280, 2000])
def test_the_largest_network_is_shown_readably_and_goes_on_drawing(open_page: Any, width: int):
    page = open_page("#a.depth=64&a.width=32&points=64&a.lr=0.0003", width=width)
    soon(lambda: "64 layers" in page.inner_text("#networks"))
    room = page.locator("#nodes-a").bounding_box()["width"]
    fits = page.evaluate("async (w) => (await import('/nodes.js')).fitting(w, { depth: 64, width: 32 })", room)
    layers = fits["columns"]
    assert layers >= 5
    assert fits["rows"] == 8
    place = layout_of(page, layers, 8)
    assert place["map"] >= 28
    page.click("#start")
    before = frames_of(page)
    soon(lambda: frames_of(page) > before + 20)
    _point_at(page, place, layers - 1, 7)
    soon(lambda: page.locator("#card").is_visible() and page.inner_text("#card-text strong") == "h₆₄, node 31")
    page.click("#start")
    soon(lambda: page.inner_text("#start") == "Start")


def test_a_paused_page_draws_nothing(open_page: Any):
    page = open_page(QUICK)
    train_to(page, 5)
    soon(lambda: page.get_attribute("html", "data-read") == str(step_of(page)))  # all has been read and drawn
    before = frames_of(page)
    time.sleep(2)
    assert frames_of(page) == before


def _point_at(page: Any, place: dict[str, float], layer: int, row: int) -> None:
    box = page.locator("#nodes-a").bounding_box()
    top = place["middle"] - place["rows"] * place["down"] / 2
    x = 2 + (layer + 1) * place["pitch"] + place["map"] / 2
    page.mouse.move(box["x"] + x, box["y"] + top + row * place["down"] + place["map"] / 2)


def test_changing_a_setting_while_training_goes_on_training(open_page: Any):
    page = open_page(QUICK)
    page.click("#start")
    soon(lambda: step_of(page) > 3)
    page.fill("#a-depth", "5")
    soon(lambda: "5 layers" in page.inner_text("#title-0"))
    drawn = frames_of(page)
    soon(lambda: frames_of(page) > drawn + 3 and page.inner_text("#start") == "Pause" and step_of(page) > 3)


def test_points_are_drawn_with_the_mouse_and_with_the_keyboard(open_page: Any):
    page = open_page(QUICK)
    page.select_option("#data", "drawn")
    box = page.locator("#points-canvas").bounding_box()
    page.mouse.move(box["x"] + 20, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 120, box["y"] + 30, steps=8)
    page.mouse.up()
    soon(lambda: "at least four points in two classes" in page.inner_text("#notice"))
    page.check("#draw-class-1")
    page.focus("#points-canvas")
    for _ in range(4):
        page.keyboard.press("Space")
        page.keyboard.press("ArrowDown")
    soon(lambda: page.inner_text("#notice") == "")
    drawn = int(page.get_attribute("#points-canvas", "aria-label").split()[-1])
    assert drawn >= 10
    page.click("#step")
    soon(lambda: step_of(page) == 1)
    other = open_page(url_of(page)[url_of(page).index("#") :])
    soon(lambda: other.get_attribute("#points-canvas", "aria-label") == f"Drawn points: {drawn}")
    other.check("#draw-erase")
    other.click("#points-canvas", position={"x": 30, "y": 21})
    assert int(other.get_attribute("#points-canvas", "aria-label").split()[-1]) < drawn
    other.click("#draw-clear")
    assert other.get_attribute("#points-canvas", "aria-label") == "Drawn points: 0"


def test_hovering_or_choosing_a_node_shows_its_large_map_and_statistics(open_page: Any):
    page = open_page(QUICK)
    soon(lambda: "test" in page.inner_text(".nodes .sub"))
    page.focus("#nodes-a")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#card:not([hidden])")
    assert page.inner_text("#card-text strong") == "h₀, node 0"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    soon(lambda: page.inner_text("#card-text strong") == "h₁, node 1")
    assert "mean" in page.inner_text("#card-text")
    page.keyboard.press("Escape")
    soon(lambda: page.locator("#card").is_hidden())
    place = layout_of(page, 4, 4)
    _point_at(page, place, 2, 3)
    page.wait_for_selector("#card:not([hidden])")
    assert page.inner_text("#card-text strong") == "h₂, node 3"
    assert page.locator("#card-text dt").all_inner_texts() == ["mean", "sd", "min", "max", "above 0"]
    assert page.locator("#card-map").bounding_box()["width"] >= 3 * place["map"]
    _point_at(page, place, 3, 0)
    soon(lambda: page.inner_text("#card-text strong") == "h₃, node 0")
    page.mouse.move(5, 5)
    page.locator("#nodes-a").blur()
    soon(lambda: page.locator("#card").is_hidden())


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
    soon(lambda: step_of(page) > 0)
    page.keyboard.press("Enter")
    soon(lambda: page.inner_text("#start") == "Start")


def test_a_tap_on_a_node_shows_its_card(open_page: Any):
    page = open_page(QUICK, width=375, has_touch=True, is_mobile=True)
    place = layout_of(page, 3, 4)
    page.tap("#nodes-a", position={"x": 2 + place["pitch"] + place["map"] / 2, "y": place["middle"]})
    page.wait_for_selector("#card:not([hidden])")
    assert page.inner_text("#card-text strong").startswith("h₀, node")
    page.tap("h1")
    soon(lambda: page.locator("#card").is_hidden())


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


@pytest.mark.parametrize("width", [375, 1920])
@pytest.mark.parametrize("hash", [QUICK, TWO, "#a.depth=64&a.width=32&points=64"])
def test_narrow_and_wide_screens_show_everything_without_scrolling_sideways(open_page: Any, hash: str, width: int):
    page = open_page(hash, width=width)
    soon(lambda: "test" in page.inner_text(".nodes .sub"))
    assert page.evaluate("() => document.documentElement.scrollWidth") == width


def test_on_a_narrow_screen_a_button_leads_to_the_settings(open_page: Any):
    page = open_page(QUICK, width=375)
    page.click("#to-settings")
    assert page.evaluate("() => document.activeElement.id") == "settings"
    assert page.evaluate("() => document.getElementById('data').getBoundingClientRect().top < innerHeight")


@pytest.mark.skipif(not AXE.is_file(), reason="axe-core is not at hand: set WINZE_AXE to its axe.min.js")
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 375)])
def test_axe_finds_no_fault(open_page: Any, scheme: str, width: int):
    page = open_page(TWO, width=width, scheme=scheme, bypass_csp=True)
    soon(lambda: page.locator(".nodes").count() == 2)
    page.add_script_tag(path=AXE)
    assert faults(page) == []
    page.select_option("#data", "drawn")
    soon(lambda: page.inner_text("#notice") != "")
    page.focus("#nodes-a")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#card:not([hidden])")
    assert faults(page) == []
    page.select_option("#data", "spiral")
    page.click("#python-b")
    page.wait_for_selector("#text-dialog[open]")
    assert faults(page) == []
