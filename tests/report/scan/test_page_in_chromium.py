"""The page in a real browser, from a file, without a network."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from synthetic import scan, watched

from winze.report import write

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    many = {f"a set with a long name {k}": [0.3] * 50 for k in range(20)}
    long = [f"model.encoder.layers.{i}.feed_forward.output.activation" for i in range(50)]
    kinds = {
        "one": {"net": scan(classes=["<script>alert(1)</script>", *"abcdefghi"])},
        "two": {"plain": scan(), "decayed": scan(probe=[0.5, 0.98, 0.98])},
        "many": {"net": scan(probe=[0.3 + 0.0138 * i for i in range(50)], ood=many, names=long)},
        "single": {"net": scan(probe=[0.98], ood={})},
        "watched": {"net": watched()},
        "bare": {"net": scan(arrays=False, costs=False, ood={})},
    }
    for name, scans in kinds.items():
        write(scans, folder / f"{name}.html", figures=False)
    return folder


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    profile = tmp_path_factory.mktemp("profile")
    with playwright.sync_playwright() as p:
        context = p.chromium.launch_persistent_context(profile, executable_path=CHROMIUM, args=FLAGS)
        context.set_default_timeout(300_000)  # a machine that runs several test processes is slow
        yield context
        context.close()


@pytest.fixture
def open_page(chromium: Any, pages: Path) -> Iterator[Any]:
    opened: list[Any] = []
    troubles: list[str] = []

    def opener(name: str, width: int = 1200, scheme: str = "light") -> Any:
        page = chromium.new_page()
        opened.append(page)
        page.on("console", lambda message: troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on(
            "request", lambda asked: asked.url.startswith(("file:", "blob:", "data:")) or troubles.append(asked.url)
        )
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)
        page.add_init_script("localStorage.clear()")
        page.goto((pages / f"{name}.html").as_uri())
        return page

    yield opener
    for page in opened:
        page.close()
    assert troubles == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["one", "two", "many", "single", "watched", "bare"])
def test_a_phone_shows_every_page_without_scrolling_sideways(open_page: Any, name: str, scheme: str) -> None:
    page = open_page(name, 375, scheme)
    page.wait_for_selector("#profile .main-svg")
    assert page.evaluate("document.documentElement.scrollWidth") == 375
    for details in page.query_selector_all("details:not([open]) > summary"):
        details.click()
    assert page.evaluate("document.documentElement.scrollWidth") == 375


def test_the_second_axis_follows_the_choice(open_page: Any) -> None:
    page = open_page("one")
    shown = "document.getElementById('profile').layout.yaxis2.title.text"
    assert page.evaluate(shown) == "numerical rank"
    page.get_by_label("Dashed, right axis").select_option("sample_norm")
    assert page.evaluate(shown) == "norm of features"
    assert page.evaluate("document.getElementById('profile').data.at(-1).y[0]") == 10
    assert "norm of features" in page.inner_text("#profile-legend")


def test_other_data_can_be_taken_away(open_page: Any) -> None:
    page = open_page("one")
    count = "document.getElementById('profile').data.length"
    assert page.evaluate(count) == 3
    page.get_by_label("textures", exact=True).uncheck()
    assert page.evaluate(count) == 2


def test_the_cost_of_cuts_can_be_chosen(open_page: Any) -> None:
    page = open_page("one")
    page.get_by_label("Cost", exact=True).select_option("parameters")
    assert page.evaluate("document.getElementById('cuts-chart').data[0].x.at(-1)") == 20


def test_two_scans_can_be_laid_over_their_share_of_depth(open_page: Any) -> None:
    page = open_page("two")
    page.get_by_label("Depth as").select_option("share")
    traces = page.evaluate("document.getElementById('profile').data.map((trace) => trace.x.at(-1))")
    assert set(traces) == {1}
    assert len(traces) == 6


@pytest.mark.parametrize("width", [1200, 375])
def test_each_of_two_scans_has_a_panel_with_its_own_tunnel_on_the_same_scales(open_page: Any, width: int) -> None:
    page = open_page("two", width)
    layout = page.evaluate(
        "(({xaxis, xaxis2, yaxis, yaxis3, shapes}) => ({x: [xaxis.domain, xaxis2.domain], "
        "y: [yaxis.domain, yaxis3.domain], scales: [yaxis.range, yaxis3.range], shapes}))"
        "(document.getElementById('profile')._fullLayout)"
    )
    ((_, end), (start, _)) = layout["x"] if width == 1200 else reversed(layout["y"])
    assert end < start
    assert layout["scales"][0] == layout["scales"][1]
    shaded = {one["xref"]: one["x0"] for one in layout["shapes"] if one["y1"] == 1 and one["type"] == "rect"}
    assert shaded == {"x": 8.5, "x2": 2.5}


def test_two_scans_can_share_a_panel(open_page: Any) -> None:
    page = open_page("two")
    page.get_by_label("Draw", exact=True).select_option("together")
    assert page.evaluate("document.getElementById('profile').layout.xaxis2") is None
    uprights = page.evaluate("document.getElementById('profile').layout.shapes.map((one) => one.x0)")
    assert uprights == [8, 2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_button_turns_light_to_dark_and_back(open_page: Any, scheme: str) -> None:
    page = open_page("one", scheme=scheme)
    paper = "getComputedStyle(document.body).backgroundColor"
    light, dark = "rgb(255, 255, 255)", "rgb(20, 24, 29)"
    before, after = (light, dark) if scheme == "light" else (dark, light)
    button = page.get_by_role("button", name="Dark colours")
    assert page.evaluate(paper) == before
    button.click()
    assert page.evaluate(paper) == after
    assert button.get_attribute("aria-pressed") == str(after == dark).lower()
    colour = page.evaluate("document.getElementById('profile').data[0].line.color")
    assert colour == ("#5ab0ff" if after == dark else "#0067b1")
    button.click()
    assert page.evaluate(paper) == before


def test_the_keyboard_reaches_every_control(open_page: Any) -> None:
    page = open_page("one")
    reached = set()
    for _ in range(90):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate("(({id, value, ariaLabel}) => id || value || ariaLabel || '')(document.activeElement)")
        )
    assert {"theme", "second", "textures", "Zoom in", "Reset axes", "cost", "download", "only"} <= reached


def test_every_button_has_a_name(open_page: Any) -> None:
    page = open_page("two")
    buttons = page.get_by_role("button")
    unnamed = [one for one in buttons.all() if not (one.inner_text().strip() or one.get_attribute("aria-label"))]
    assert buttons.count() > 20
    assert unnamed == []


def test_a_key_is_enough_to_change_the_colours(open_page: Any) -> None:
    page = open_page("one")
    page.focus("#theme")
    page.keyboard.press("Enter")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_the_csv_comes_down_whole(open_page: Any, tmp_path: Path) -> None:
    page = open_page("one")
    with page.expect_download() as waiting:
        page.click("#download")
    waiting.value.save_as(tmp_path / "readings.csv")
    lines = (tmp_path / "readings.csv").read_text(encoding="utf-8").splitlines()
    assert waiting.value.suggested_filename == "readings.csv"
    assert len(lines) == 1 + len(scan())


def test_the_table_sorts_by_number_and_filters_by_measure(open_page: Any) -> None:
    page = open_page("one")
    page.get_by_label("Measure").select_option("numerical_rank")
    assert page.locator("table.sortable tbody tr:visible").count() == 19
    head = page.get_by_role("button", name="value", exact=True)
    head.click()
    values = [float(text) for text in page.locator("table.sortable tbody tr:visible td:nth-child(8)").all_inner_texts()]
    assert values == sorted(values)
    head.click()
    assert page.locator("table.sortable th[aria-sort=descending]").inner_text().strip().startswith("value")


def test_hovering_a_point_tells_layer_name_and_value(open_page: Any) -> None:
    page = open_page("one")
    page.locator("#profile").scroll_into_view_if_needed()
    page.evaluate("Plotly.Fx.hover('profile', [{curveNumber: 0, pointNumber: 7}])")
    page.locator("#profile .hoverlayer", has_text="layer 8, features.22").wait_for(state="attached")
    assert "97.2 %" in page.text_content("#profile .hoverlayer")
