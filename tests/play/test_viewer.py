"""Stored scans and runs in the same panels, without training."""

import sys
from pathlib import Path
from typing import Any

import pytest
from serving import playground
from waiting import soon
from waiting_page import AXE, faults, save_every_figure, url_of

from winze.lab.runs import store
from winze.lab.runs.results import ResultsError
from winze.play.viewer import MOST, opened
from winze.readings import ReadingsError

sys.path.append(str(Path(__file__).parents[1] / "report"))
from synthetic import scan, watched

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(scope="module")
def scans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scans")
    scan(classes=["<script>alert(1)</script>", *"abcdefghi"]).save(folder / "plain")
    scan(probe=[0.5, 0.9, 0.98]).save(folder / "decayed")
    return folder


def test_one_folder_is_a_scan_and_a_folder_of_folders_a_comparison(scans: Path):
    assert [one["name"] for one in opened([scans / "plain"])["scans"]] == ["plain"]
    assert sorted(one["name"] for one in opened([scans])["scans"]) == ["decayed", "plain"]
    both = opened([scans / "plain", scans / "decayed"])
    assert list(both["findings"]) == ["plain", "decayed"]


def test_a_run_is_named_by_its_point_and_seed(tmp_path: Path):
    watched().save(tmp_path / "0123456789abcdef")
    told = {"kind": store.KIND, "version": store.FORMAT, "point": {"alpha": 0.6}, "seed": 2, "status": "done"}
    (tmp_path / "0123456789abcdef" / store.RUN).write_bytes(store.sealed(told))
    assert [one["name"] for one in opened([tmp_path])["scans"]] == ["alpha 0.6, seed 2"]


def test_a_folder_without_readings_is_refused(tmp_path: Path):
    with pytest.raises(ReadingsError, match="holds no scan"):
        opened([tmp_path])
    with pytest.raises(ReadingsError, match="does not exist"):
        opened([tmp_path / "missing"])


def test_a_file_of_kept_runs_is_opened_with_one_seed_per_point_where_there_are_many():
    few = opened([RESULTS / "decayed" / "supervised.json"])
    assert all("alpha" in one["name"] and "seed" in one["name"] for one in few["scans"])
    assert len({one["name"] for one in few["scans"]}) == len(few["scans"]) <= MOST
    many = opened([RESULTS / "tunnel" / "main.json"])
    assert len(many["scans"]) <= MOST


def test_kept_runs_are_named_by_what_differs():
    names = [one["name"] for one in opened([RESULTS / "residual_droppath" / "table1.json"])["scans"]]
    assert len(set(names)) == len(names)
    assert all("algorithm" in name and "profile" not in name for name in names)


def test_a_file_that_keeps_no_runs_is_refused(tmp_path: Path):
    (tmp_path / "other.json").write_text("[]")
    with pytest.raises(ResultsError, match="winze runs keep"):
        opened([tmp_path / "other.json"])
    with pytest.raises(ReadingsError, match="no readings over depth"):
        opened([RESULTS / "temperature" / "toy.json"])


@pytest.mark.slow
def test_the_link_of_the_viewer_restores_layer_scans_measure_and_panel(scans: Path, open_page: Any):
    with playground(str(scans)) as address:
        page = open_page(at=address)
        page.uncheck("#scan-0")
        page.focus("#layer")
        page.keyboard.press("ArrowRight")
        page.select_option("#measure", index=1)
        page.click("#depth-size")
        assert page.locator("#panels .panel:visible").count() == 1
        shown = page.inner_text(".facts")
        soon(lambda: "panel=depth" in url_of(page))
        other = open_page(url_of(page)[url_of(page).index("#") :], at=address)
        soon(lambda: other.inner_text(".facts") == shown)
        assert not other.is_checked("#scan-0")
        assert other.input_value("#measure") == page.input_value("#measure")
        assert other.locator("#panels .panel:visible").count() == 1
        other.click("#depth-size")
        assert other.locator("#panels .panel:visible").count() > 1
        soon(lambda: "panel=" not in url_of(other))
        for one in (page, other):
            one.close()


@pytest.mark.slow
def test_scans_are_walked_through_layer_by_layer(scans: Path, open_page: Any):
    with playground(str(scans)) as address:
        page = open_page(at=address)
        assert page.locator("#transport").is_hidden()
        assert page.locator("#panels .panel").count() >= 3
        assert page.locator("#networks .panel").count() == 2
        assert page.locator("#networks script").count() == 0
        first = page.inner_text(".facts")
        image = "() => document.getElementById('cka-canvas').toDataURL()"
        before = page.evaluate(image)
        page.focus("#layer")
        page.keyboard.press("ArrowRight")
        soon(lambda: page.inner_text(".facts") != first)
        assert page.evaluate(image) != before
        box = page.locator("#depth-canvas").bounding_box()
        page.mouse.click(box["x"] + box["width"] - 45, box["y"] + box["height"] / 2)
        soon(lambda: page.input_value("#layer") == "19" and "layer=19" in url_of(page))
        page.uncheck("#scan-0")
        soon(lambda: page.locator("#networks .panel").count() == 1)
        page.select_option("#measure", index=0)
        assert page.evaluate("() => document.documentElement.scrollWidth") == 1280
        page.close()  # before the server, or it would try to connect again


@pytest.mark.slow
def test_the_embedding_changes_with_the_layer_and_every_panel_is_saved(scans: Path, open_page: Any, tmp_path: Path):
    with playground(str(scans / "plain")) as address:
        page = open_page(at=address)
        image = "() => document.getElementById('embedding-canvas').toDataURL()"
        before = page.evaluate(image)
        page.focus("#layer")
        page.keyboard.press("End")
        soon(lambda: page.evaluate(image) != before)
        shown = page.locator("#panels .panel:visible").count()
        assert shown >= 4
        assert save_every_figure(page, tmp_path) == shown
        page.close()


@pytest.mark.slow
def test_the_runs_of_a_recipe_are_compared_by_letters(open_page: Any):
    with playground(str(RESULTS / "tunnel" / "main.json")) as address:
        page = open_page(at=address)
        assert page.locator("#networks .panel").count() == 2
        points = [text.split(", seed")[0].split(": ")[1] for text in page.locator("#networks h2").all_inner_texts()]
        assert points[0] != points[1]
        assert page.locator(".facts th[scope=col]").all_inner_texts() == [
            text.split(":")[0] for text in page.locator("#networks h2").all_inner_texts()
        ]
        assert page.locator("#ood").is_visible()
        for number in range(10):
            page.check(f"#scan-{number}")
        inside, around = page.locator(".scroll").bounding_box(), page.locator("#settings").bounding_box()
        assert inside["x"] + inside["width"] <= around["x"] + around["width"]
        assert page.locator(".facts tr").first.locator("th").count() == 10
        page.close()


@pytest.mark.slow
def test_runs_without_probes_show_their_measure_alone(open_page: Any, tmp_path: Path):
    with playground(str(RESULTS / "residual_droppath" / "spiral.json")) as address:
        page = open_page(at=address)
        assert page.inner_text("#depth .read") == "A: no probes stored; B: no probes stored"
        with page.expect_download() as waiting:
            page.click("button[aria-label='Save Depth profile as SVG']")
        waiting.value.save_as(tmp_path / "depth.svg")
        words = (tmp_path / "depth.svg").read_text(encoding="utf-8")
        assert "CKA to the input" in words
        assert "probe accuracy" not in words
        page.close()


@pytest.mark.slow
@pytest.mark.skipif(not AXE.is_file(), reason="axe-core is not at hand: set WINZE_AXE to its axe.min.js")
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 375)])
def test_axe_finds_no_fault_in_the_viewer(scans: Path, open_page: Any, scheme: str, width: int):
    with playground(str(scans)) as address:
        page = open_page(at=address, scheme=scheme, width=width, bypass_csp=True)
        page.add_script_tag(path=AXE)
        assert faults(page) == []
        assert page.evaluate("() => document.documentElement.scrollWidth") == width
        page.close()
