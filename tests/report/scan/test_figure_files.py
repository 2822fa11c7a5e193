"""Every figure draws from stored readings, the same bytes each time, and leaves out what was not read."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from synthetic import scan, watched

from winze.place import Place
from winze.progress import Track
from winze.readings import Readings, facts
from winze.report import save_all, style
from winze.report.scan import figure_files as figures
from winze.report.scan.scans import UnreadError

NAN = float("nan")
SINGLE = ["depth_profile", "cka_map", "spectra", "class_variances", "embedding", "cuts"]


def drawn(name: str, scans: Any, **more: Any) -> Any:
    return getattr(figures, name)(scans, **more)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", [*SINGLE, "curves_over_training"])
def test_the_same_readings_give_the_same_bytes(name: str, theme: str, tmp_path: Path) -> None:
    readings = watched() if name == "curves_over_training" else scan()
    for file in ("one.svg", "two.svg"):
        style.save(drawn(name, readings, theme=theme), tmp_path / file)
    body = (tmp_path / "one.svg").read_text(encoding="utf-8")
    assert body == (tmp_path / "two.svg").read_text(encoding="utf-8")
    assert "<dc:date>" not in body


@pytest.mark.parametrize("name", [*SINGLE, "curves_over_training"])
def test_several_scans_share_a_figure(name: str, tmp_path: Path) -> None:
    one, two = (watched(), watched(4)) if name == "curves_over_training" else (scan(), scan(probe=[0.5, 0.9, 0.98]))
    style.save(drawn(name, {"plain": one, "decayed": two}), tmp_path / "both.svg")
    if name != "embedding":
        body = (tmp_path / "both.svg").read_text(encoding="utf-8")
        assert "plain" in body
        assert "decayed" in body


@pytest.mark.parametrize("name", [*SINGLE, "curves_over_training"])
def test_a_figure_without_its_readings_says_what_is_missing(name: str) -> None:
    with pytest.raises(UnreadError, match="these readings hold no"):
        drawn(name, Readings())


def test_the_profile_has_probe_other_data_rank_tunnel_and_threshold() -> None:
    drawing = figures.depth_profile(scan())
    left, right = drawing.axes
    lines = {line.get_label(): line for line in left.get_lines()}
    theme = style.THEMES["light"]
    assert lines["probe, cifar10"].get_color() == theme.probe
    assert lines["textures"].get_color() == theme.others[0]
    assert lines["95 % of 98.2 %"].get_ydata()[0] == pytest.approx(0.95 * 0.982)
    rank = right.get_lines()[0]
    assert (rank.get_color(), rank.get_linestyle()) == (theme.rank, "--")
    spans = [patch for patch in left.patches if patch.get_height() == 1]
    assert [(span.get_x(), span.get_width()) for span in spans] == [(8.5, 11.0)]
    assert "layer 8, features.22" in left.get_title(loc="left")


def test_what_could_not_be_read_is_a_gap_not_a_zero() -> None:
    drawing = figures.depth_profile(scan(probe=[0.4, NAN, 0.9, 0.98], arrays=False))
    values = drawing.axes[0].get_lines()[0].get_ydata()
    assert np.isnan(values[1])
    assert values[2] == 0.9


def test_a_place_that_was_not_read_for_other_data_is_a_gap() -> None:
    readings = scan(probe=[0.5, 0.9, 0.98], ood={"a": [0.1, 0.2, 0.3]})
    readings.rows = [row for row in readings.rows if not (row.data == "a" and row.index == 1)]
    line = next(line for line in figures.depth_profile(readings).axes[0].get_lines() if line.get_label() == "a")
    assert np.isnan(line.get_ydata()[1])


def test_the_chosen_cut_is_ringed() -> None:
    axes = figures.cuts(scan()).axes[0]
    ring = next(line for line in axes.get_lines() if line.get_markersize() == 11)
    assert ring.get_ydata()[0] == 0.972
    assert ring.get_xdata()[0] == pytest.approx(1000 * (0.05 * 8 / 19 + 0.001))


def test_a_cost_may_be_asked_for_by_name() -> None:
    assert figures.cuts(scan(), cost="flops").axes[0].get_xlabel() == "million FLOPs"
    with pytest.raises(UnreadError, match="joules"):
        figures.cuts(scan(), cost="joules")


def test_an_embedding_of_an_unknown_place_names_those_there_are() -> None:
    with pytest.raises(UnreadError, match=r"no embedding of place 9; there are: \[0, 1\]"):
        figures.embedding(scan(probe=[0.5, 0.98]), at=[9])


def test_chosen_images_hold_both_ends_and_the_start() -> None:
    from winze.report.scan.embedding_plot import chosen

    assert {0, 7, 18} <= set(chosen(scan()))
    assert len(chosen(scan())) == 6


def test_all_figures_are_saved_as_svg_and_png(tmp_path: Path) -> None:
    written = save_all(scan(), tmp_path)
    assert {path.name for path in written} == {f"{name}.{kind}" for name in SINGLE for kind in ("svg", "png")}
    assert all(path.stat().st_size > 1000 for path in written)


def test_figures_show_how_far_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = []

    def tracker(progress: bool | None) -> Track:
        return lambda drawings, text, total: told.append((text, total, len(list(drawings)))) or drawings

    monkeypatch.setattr("winze.report.scan.figure_files.tracker", tracker)
    monkeypatch.setattr("winze.report.scan.figure_files._DRAWN", {})
    save_all(Readings(), tmp_path)
    assert told == [("drawing figures", 6, 6)]


def test_only_figures_that_the_readings_support_are_saved(tmp_path: Path) -> None:
    names = {path.stem for path in save_all(scan(arrays=False, costs=False), tmp_path)}
    assert names == {"depth_profile", "class_variances"}
    assert save_all(Readings(), tmp_path / "none") == []
    names = {path.stem for path in save_all(watched(3, 3), tmp_path / "watched")}
    assert names == {"depth_profile", "training_numerical_rank", "training_probe"}


def test_each_of_several_scans_gets_a_folder_of_plain_letters() -> None:
    assert len(figures.folders(["x" * 300])[0]) <= 100
    assert figures.folders(["plain", "../<b>x", "b-x", "", "Plain"]) == ["plain", "b-x", "b-x-2", "scan", "Plain-2"]


@pytest.mark.parametrize("measure", ["train/loss", "x/../../victim", "../victim", "/victim", "m" * 300, "a\nb", ".."])
def test_a_measures_name_never_becomes_a_path(tmp_path, measure):
    readings = Readings(conventions={"network": "mlp", "data": "d"})
    for step in range(3):
        readings.add(measure, step, place=Place(0, 1, "a"), step=step, data="d", split="test", n=1)
    (tmp_path / "victim.svg").write_text("untouched")
    written = save_all(readings, tmp_path / "report_figures")
    assert written
    assert {path.parent for path in written} == {tmp_path / "report_figures"}
    assert (tmp_path / "victim.svg").read_text() == "untouched"


def test_figures_do_not_follow_a_link_out_of_the_folder(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "report_figures").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="leads elsewhere"):
        save_all(scan(), tmp_path / "report_figures")
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize(
    "readings",
    [
        scan(probe=[0.9], ood={}),
        scan(probe=list(np.linspace(0.2, 0.98, 50)), ood={f"set {k}": [0.1] * 50 for k in range(20)}),
        scan(probe=[0.3, 0.98], names=["<script>$x_1$", "a" * 300]),
        scan(probe=[NAN, NAN, 0.98], accuracy=NAN),
    ],
    ids=["one place", "many", "odd names", "mostly NaN"],
)
def test_extremes_are_drawn_without_a_warning(readings: Readings, tmp_path: Path) -> None:
    assert save_all(readings, tmp_path)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_colour_stands_out_from_its_background(theme: str) -> None:
    def light(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    def contrast(colour: str) -> float:
        pair = sorted((light(colour), light(style.THEMES[theme].paper)))
        return (pair[1] + 0.05) / (pair[0] + 0.05)

    look = style.THEMES[theme]
    assert all(contrast(colour) >= 3 for colour in look.scans)
    assert all(contrast(colour) >= 2.2 for colour in look.ramp_colours(20))
    assert contrast(look.ink) >= 7
    assert contrast(look.faint) >= 4.5


def test_a_scan_is_drawn_once_for_its_own_folder_and_a_comparison(tmp_path: Path, monkeypatch) -> None:
    drawn_now: list[str] = []
    plain = style.rendered
    monkeypatch.setattr(style, "rendered", lambda drawing, kind: drawn_now.append(kind) or plain(drawing, kind))
    one, two = scan(accuracy=0.97), scan(accuracy=0.96)
    alone = save_all(one, tmp_path / "one")
    first = len(drawn_now)
    assert first == len(alone)
    both = save_all({"one": one, "two": two}, tmp_path / "both")
    assert len(drawn_now) - first == len(both) - len(alone)
    for file in alone:
        assert file.read_bytes() == (tmp_path / "both" / "one" / file.name).read_bytes()


def test_readings_that_have_changed_are_drawn_anew(tmp_path: Path) -> None:
    readings = scan(accuracy=0.95)
    profile = tmp_path / "depth_profile.svg"
    bodies = []
    for change in (lambda: None, lambda: readings.rows.pop(), lambda: readings.arrays["cka"].fill(0.5)):
        change()
        save_all(readings, tmp_path)
        bodies.append((profile.read_bytes(), (tmp_path / "cka_map.svg").read_bytes()))
    assert bodies[1][1] != bodies[2][1]
    save_all(readings, tmp_path, threshold=0.5)
    assert profile.read_bytes() != bodies[2][0]


def test_png_and_svg_have_the_same_layout() -> None:
    drawing = figures.depth_profile(scan())
    style.rendered(drawing, "svg")
    laid_out = [axes.get_position().bounds for axes in drawing.axes]
    style.rendered(drawing, "png")
    assert [axes.get_position().bounds for axes in drawing.axes] == laid_out


@pytest.mark.parametrize(("value", "text"), [(1, "1"), (0.1, "0.1"), (1000, "1000"), (1e-3, "10⁻³"), (1e-12, "10⁻¹²")])
def test_ticks_of_logarithmic_axes_are_plain_text(value: float, text: str) -> None:
    assert style.power_of_ten(value) == text


def test_variances_are_those_of_a_feature_where_widths_were_read() -> None:
    read = scan()
    axes = figures.class_variances({"a": read}).axes[0]
    np.testing.assert_allclose(axes.get_lines()[0].get_ydata(), facts.column(read, "intra_variance") / 512)
    (shaded,) = (patch for patch in axes.patches if patch.get_label() == "tunnel")
    assert shaded.get_x() == 8.5
    read.conventions = read.conventions.having(rank={"max_features": 100})
    axes = figures.class_variances({"a": read}).axes[0]
    np.testing.assert_allclose(axes.get_lines()[0].get_ydata(), facts.column(read, "intra_variance") / 100)
    read.rows = [row for row in read.rows if row.measure != "features"]
    axes = figures.class_variances({"a": read}).axes[0]
    np.testing.assert_allclose(axes.get_lines()[0].get_ydata(), facts.column(read, "intra_variance"))
