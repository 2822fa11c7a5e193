"""The page as text: whole, escaped, and without anything from a network."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from synthetic import scan, watched

from winze.readings import Readings, ReadingsError
from winze.report import write
from winze.report.scan.payload import csv
from winze.report.scan.tables import conventions_table, table

NAN = float("nan")


class Tags(HTMLParser):
    """Every tag with its attributes, and the text of scripts."""

    def __init__(self, body: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(body)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def made(tmp_path: Path, **scans: Readings) -> str:
    return write(scans, tmp_path / "report.html", figures=False).read_text(encoding="utf-8")


def stored(body: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="winze-data">(.*?)</script>', body, re.DOTALL)
    assert found
    return json.loads(found[1])


def test_nothing_is_loaded_from_elsewhere(tmp_path: Path) -> None:
    tags = Tags(made(tmp_path, net=scan())).tags
    assert not [tag for tag, _ in tags if tag in ("link", "iframe", "img", "object", "embed", "base")]
    addresses = [value or "" for _, attrs in tags for key, value in attrs.items() if key in ("src", "href", "action")]
    assert addresses
    assert all(address.startswith("#") for address in addresses)
    policy = next(attrs["content"] for _, attrs in tags if attrs.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'")


def test_plotly_is_there_once(tmp_path: Path) -> None:
    body = made(tmp_path, a=scan(), b=scan())
    assert len(re.findall(r"^\* plotly\.js v", body, re.MULTILINE)) == 1


def test_the_page_holds_the_numbers(tmp_path: Path) -> None:
    page = stored(made(tmp_path, net=scan()))
    one = page["scans"][0]
    assert one["curves"]["probe"]["cifar10"]["value"][7] == 0.972
    assert one["tunnel"] == {"start": 8, "bounds": [8, 8], "level": 0.9329}
    assert len(one["cka"]) == 19
    assert page["csv"].splitlines()[0] == "step,data,split,place,index,total,measure,value,low,high,n,note"
    assert len(page["csv"].splitlines()) == 1 + len(scan())


def test_the_csv_of_several_scans_says_which(tmp_path: Path) -> None:
    lines = stored(made(tmp_path, a=scan(), b=scan()))["csv"].splitlines()
    assert lines[0].startswith("scan,step,")
    assert {line.split(",")[0] for line in lines[1:]} == {"a", "b"}


def test_a_gap_is_null_and_never_a_number(tmp_path: Path) -> None:
    body = made(tmp_path, net=scan(probe=[0.4, NAN, 0.98], accuracy=None))
    one = stored(body)["scans"][0]
    assert one["curves"]["probe"]["cifar10"]["value"] == [0.4, None, 0.98]
    assert one["whole"]["accuracy"] is None
    assert "<td>–</td>" in body


def test_names_are_escaped_everywhere(tmp_path: Path) -> None:
    bad = "<script>alert(1)</script>"
    readings = scan(probe=[0.5, 0.98], names=[bad, "b"], ood={f"{bad}{{{{title}}}}": [0.3, 0.2]}, classes=[bad] * 10)
    readings.conventions = readings.conventions.having(notes=[f"note {bad}"])
    body = write({bad: readings, "b": readings}, tmp_path / "r.html", title=bad, figures=False).read_text("utf-8")
    assert "<script>alert" not in body
    assert "</script>alert" not in body
    assert [attrs.get("type") for tag, attrs in Tags(body).tags if tag == "script"] == ["application/json", None, None]
    assert stored(body)["scans"][0]["places"] == [bad, "b"]
    assert "{{title}}" in body


def test_the_page_has_landmarks_headings_and_words_for_each_chart(tmp_path: Path) -> None:
    tags = Tags(made(tmp_path, net=scan())).tags
    names = [tag for tag, _ in tags]
    assert {"header", "nav", "main", "footer", "h1"} <= set(names)
    assert dict(tags)["html"] == {"lang": "en"}
    charts = [attrs for _, attrs in tags if attrs.get("role") == "figure"]
    assert len(charts) == 6
    assert all(attrs["aria-label"] for attrs in charts)
    ids = [attrs["id"] for _, attrs in tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    linked = {(attrs.get("href") or "")[1:] for tag, attrs in tags if tag == "a"}
    assert linked <= set(ids)
    regions = [attrs for _, attrs in tags if attrs.get("role") == "region"]
    assert all(attrs.get("tabindex") == "0" and attrs.get("aria-label") for attrs in regions)


def test_missing_parts_are_left_out(tmp_path: Path) -> None:
    body = made(tmp_path, net=scan(arrays=False, costs=False, ood={}))
    ids = {attrs.get("id") for _, attrs in Tags(body).tags}
    assert {"depth-profile", "class-variances", "conventions", "data"} <= ids
    assert not {"cka", "spectra", "embedding", "cuts", "training", "ood"} & ids


def test_readings_during_training_get_their_section(tmp_path: Path) -> None:
    body = made(tmp_path, net=watched())
    assert 'id="training-0"' in body
    assert stored(body)["scans"][0]["training"]["probe"]["steps"] == list(range(0, 120, 10))


def test_empty_readings_make_a_page_and_no_scans_an_error(tmp_path: Path) -> None:
    assert "readings hold no probes" in made(tmp_path, net=Readings())
    with pytest.raises(ReadingsError, match="at least one scan"):
        write({}, tmp_path / "none.html")
    assert not (tmp_path / "none.html").exists()


def test_long_tables_are_cut_and_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("winze.report.scan.tables.MOST_ROWS", 10)
    body = made(tmp_path, net=scan())
    assert f"The first 10 of {len(scan())} readings; the CSV has all" in body


def test_many_other_sets_are_folded_away(tmp_path: Path) -> None:
    body = made(tmp_path, net=scan(probe=[0.5, 0.98], ood={f"set{k}": [0.4, 0.3] for k in range(20)}))
    assert "15 more data sets" in body
    assert body.count("(+10 points over the last layer)") == 20


def test_static_figures_lie_beside_the_page(tmp_path: Path) -> None:
    body = write({"a b": scan(probe=[0.5, 0.98])}, tmp_path / "my report.html").read_text(encoding="utf-8")
    assert (tmp_path / "my report_figures" / "depth_profile.svg").is_file()
    assert 'href="my%20report_figures/depth_profile.svg"' in body


def test_the_page_is_the_same_each_time(tmp_path: Path) -> None:
    assert made(tmp_path, net=scan()) == made(tmp_path, net=scan())


def test_conventions_that_say_nothing_are_left_out() -> None:
    readings = scan()
    readings.conventions = readings.conventions.having(cka_notes=["", "", ""], layouts=[[1, 1]], pool="mean", spec=None)
    page = conventions_table({"one": readings})
    assert "pool" in page
    assert "spec" in page
    assert "cka_notes" not in page
    assert "layouts" not in page


def test_findings_come_first_and_each_note_once_and_folded(tmp_path):
    readings = scan()
    readings.conventions = readings.conventions.having(notes=["half of it was left out", "half of it was left out"])
    body = made(tmp_path, net=readings)
    assert body.count("<li>half of it was left out") == 1
    assert (
        body.index("Extractor: layers 1-8") < body.index("Notes on this scan") < body.index("half of it was left out")
    )
    assert "What the words mean" in body


def test_the_csv_of_a_page_holds_no_formulas():
    readings = scan(probe=[0.5, 0.98], names=["=1+1", "b"], ood={"@other": [0.3, 0.2]})
    cells = [cell for line in csv({"-net": readings, "b": scan()}).splitlines() for cell in line.split(",")]
    assert {"'=1+1", "'@other", "'-net"} <= set(cells)
    assert not any(cell.startswith(("=", "@", "-n")) for cell in cells)


def test_the_page_opens_with_one_sentence_four_numbers_and_the_depth_profile(tmp_path):
    body = made(tmp_path, net=scan())
    assert "Layers 1-8 of 19 already reach" in body
    spots = [body.index(f'id="{key}"') for key in ("summary", "depth-profile", "findings", "cka")]
    assert spots == sorted(spots)
    first = body[spots[0] : spots[1]]
    assert first.count("<dt>") == 4
    assert first.count('class="lead"') == 1
    assert "<li>" not in first


def test_everything_below_the_depth_profile_can_be_folded(tmp_path):
    body = made(tmp_path, net=scan())
    for key in ("findings", "cka", "cuts", "conventions", "data"):
        fold = '<details class="fold">' if key == "conventions" else '<details class="fold" open>'
        assert f'aria-labelledby="{key}-title">{fold}<summary><h2 id="{key}-title">' in body
    assert '<section id="depth-profile" aria-labelledby="depth-profile-title"><h2' in body


def test_several_scans_open_with_a_column_of_numbers_each(tmp_path):
    body = made(tmp_path, plain=scan(), decayed=scan(accuracy=0.9))
    first = body[body.index('id="summary"') : body.index('id="depth-profile"')]
    assert "The tunnel starts after layer 8 of 19 in <code>plain</code>" in first
    assert first.count('<th scope="col">') == 3
    assert re.search(r"<td>90 %<span>cut after layer \d+: [\d.]+ %</span></td>", first)
    assert "FLOPs after the cut" in first


def test_cells_of_a_claim_stand_under_it_and_name_their_column():
    body = table("Claims", ["statement", "here"], [["a > b", "2 cells"], ["  alpha 1", "3 < 4"]], kind="verdicts")
    assert '<tr><th scope="row">a &gt; b</th><td data-head="here">2 cells</td></tr>' in body
    assert '<tr class="under"><th scope="row">  alpha 1</th><td data-head="here">3 &lt; 4</td></tr>' in body


def test_a_network_without_a_tunnel_says_so_at_the_top(tmp_path):
    body = made(tmp_path, net=scan(probe=[0.2, 0.5, 0.98], accuracy=0.98))
    assert "No tunnel: probe accuracy rises up to the last layer, 3, which reaches 98 %." in body


def test_readings_that_break_a_figure_or_the_page_leave_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = scan()
    broken.arrays["spectrum/0"] = np.array([b"x"])
    with pytest.raises(TypeError):
        write({"net": broken}, tmp_path / "report.html")
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr("winze.report.scan.scan_page.payload", lambda *_: {}[0])
    with pytest.raises(KeyError):
        write({"net": scan()}, tmp_path / "sub" / "report.html")
    assert not list(tmp_path.iterdir())
