"""Figures of experiments: curves, points, starts and maps of arms with several seeds."""

import numpy as np
import pytest

from winze.readings import Readings
from winze.report import style
from winze.report.curves import Curve, curves
from winze.report.ladders import Rung, ladder
from winze.report.maps import distance_map, training_map
from winze.report.points import Group, points
from winze.report.profile import depth_axis
from winze.report.scans import UnreadError
from winze.report.starts import tunnel_starts

THEMES = ("light", "dark")


def run(shift=0.0):
    """One seed: probes and another curve at four places, a number of the whole network, weights while it learnt."""
    readings = Readings(conventions={"data": "own", "layers": {"as the paper does": [3, 5, 7, 9]}, "layer_count": 10})
    for index, value in enumerate((0.5, 0.9, 0.92, 0.94)):
        place = {"place": f"p{index}", "index": index, "total": 4, "data": "own"}
        readings.add("probe", value + shift, split="test", **place)
        readings.add("reset", 0.1 * index, split="test", **place)
        for step in (10, 20, 30):
            readings.add("weight_change", 0.01 * (index + 1) * 10 / step, step=step, **place)
    readings.add("accuracy", 0.95, data="own", split="test")
    readings.add("E1", 0.8 + shift, data="task 1")
    readings.arrays["l1"] = np.arange(16.0).reshape(4, 4)
    return readings


ARMS = {"one_arm": [run(), run(0.02)], "other": [run()]}
GROUPS = [Group("E1", {"task 1": ("E1", "task 1"), "task 2": ("E1", "task 2")})]
DRAW = {
    "curves": lambda arms, theme="light": curves(arms, theme, lines=[Curve("reset", "reset")], up="accuracy"),
    "points": lambda arms, theme="light": points(arms, theme, groups=GROUPS, what="accuracy"),
    "starts": lambda arms, theme="light": tunnel_starts(arms, theme),
    "ladder": lambda arms, theme="light": ladder(
        arms,
        theme,
        at={"other": 4, "one_arm": 2},
        rungs=[Rung("accuracy", {"task 1": ("E1", "task 1")})],
        across="layers",
    ),
    "map": lambda arms, theme="light": training_map(arms, theme, measure="weight_change", cap=0.02),
}


@pytest.mark.parametrize("name", DRAW)
@pytest.mark.parametrize("theme", THEMES)
def test_each_figure_is_drawn_in_both_themes(name, theme):
    assert DRAW[name](ARMS, theme).axes


@pytest.mark.parametrize("name", DRAW)
def test_a_figure_without_its_readings_says_so(name):
    with pytest.raises(UnreadError):
        DRAW[name]({"empty": [Readings()]})


def test_curves_are_means_over_seeds_at_the_papers_layers():
    drawing = curves(ARMS, lines=[Curve("probe", "probe")], up="accuracy", shown=lambda curve: 2 * curve)
    line = drawing.axes[0].get_lines()[0]
    assert line.get_xdata().tolist() == [3, 5, 7, 9]
    assert line.get_ydata().tolist() == pytest.approx([1.02, 1.82, 1.86, 1.9])
    assert len(drawing.axes) == 2


def test_a_curve_beside_others_makes_no_panel_alone():
    lines = [Curve("probe", "probe", beside=True), Curve("unread", "unread")]
    with pytest.raises(UnreadError):
        curves(ARMS, lines=lines, up="accuracy")


def test_points_show_every_seed_their_mean_and_what_the_paper_told():
    drawing = points(ARMS, groups=GROUPS, what="accuracy", told={"one_arm": {("E1", "task 1"): 0.7}}, whose="told")
    drawn = {
        line.get_marker(): line.get_ydata().tolist() for line in drawing.axes[0].get_lines() if len(line.get_ydata())
    }
    assert drawn["o"] == pytest.approx([0.8, 0.82])
    assert drawn["_"] == pytest.approx([0.81])
    assert drawn["D"] == [0.7]
    assert not [line for line in drawing.axes[1].get_lines() if line.get_marker() == "D"]


def test_points_of_all_panels_are_seen_on_one_scale():
    far = run()
    far.add("E1", 0.1, data="task 1")
    axes = points({"near": [run()], "far": [far]}, groups=GROUPS, what="accuracy").axes
    assert axes[0].get_ylim() == axes[1].get_ylim()
    assert axes[0].get_ylim()[0] < 0.1 < 0.8 < axes[0].get_ylim()[1]


def test_a_ladder_orders_arms_by_what_they_stand_at_and_marks_the_last():
    axes = DRAW["ladder"](ARMS).axes[0]
    line = next(line for line in axes.get_lines() if line.get_label() == "task 1")
    assert list(line.get_xdata()) == [2, 4]
    assert list(line.get_ydata()) == pytest.approx([0.81, 0.8])
    assert list(axes.get_lines()[-1].get_ydata()) == pytest.approx([0.8, 0.8])


def test_a_ladder_of_arms_without_order_has_no_lines():
    rungs = [Rung("accuracy", {"task 1": ("E1", "task 1")})]
    axes = ladder(ARMS, at={"other": "held", "one_arm": "free"}, rungs=rungs, across="what is held").axes[0]
    line = next(line for line in axes.get_lines() if line.get_label() == "task 1")
    assert (list(line.get_xdata()), line.get_linestyle()) == (["held", "free"], "None")
    assert list(line.get_ydata()) == pytest.approx([0.8, 0.81])
    assert axes.get_lines()[-1] is line


def test_bars_end_at_the_start_of_the_mean_tunnel_and_at_the_last_layer():
    axes = tunnel_starts(ARMS, told={"other": 7}).axes[0]
    assert [bar.get_width() for bar in axes.patches] == [5, 5, 7, 3]  # .9 and .92 reach 95 % of .95, or do not
    assert [line.get_xdata()[0] for line in axes.get_lines() if line.get_marker() == "D"] == [7]


def test_an_arm_that_never_gets_there_has_a_bar_that_is_neither_extractor_nor_tunnel():
    low = run(-0.3)
    axes = tunnel_starts({"low": [low]}).axes[0]
    assert [(bar.get_width(), bar.get_hatch()) for bar in axes.patches] == [(10, "//")]


def test_panels_of_curves_have_one_scale_and_leave_out_a_networks_own_set():
    lines = [Curve("its own", "probe", beside=True), Curve("reset", "reset"), Curve("as another set", "probe", "own")]
    axes = curves({"high": [run(0.3)], "low": [run()]}, lines=lines, up="accuracy").axes
    assert axes[0].get_ylim() == axes[1].get_ylim()
    assert [line.get_label() for line in axes[0].get_lines()] == ["its own", "reset"]
    alone = curves({"high": [run()]}, lines=lines[2:], up="accuracy").axes[0]
    assert [line.get_label() for line in alone.get_lines()] == ["as another set"]


@pytest.mark.parametrize(("count", "letters"), [(4, 31), (3, 60), (7, 12), (2, 5)])
def test_a_legend_is_no_wider_than_its_figure(count, letters):
    with style.use("light"):
        drawing, grid = style.panels(2)
        for i in range(count):
            grid[0].plot([0, 1], label=f"{i}" * letters)
        style.legend(drawing)
        drawing.canvas.draw()
        box = drawing.legends[0].get_window_extent()
    assert 0 <= box.x0 < box.x1 <= drawing.bbox.width
    assert len(drawing.legends[0].get_texts()) == count


def test_a_map_over_training_is_capped_and_says_so():
    drawing = training_map({"one": [run()]}, measure="weight_change", cap=0.02)
    image = drawing.axes[0].get_images()[0]
    assert image.get_clim() == (0, 0.02)
    assert image.get_array().shape == (4, 3)
    assert [text.get_text() for text in drawing.axes[0].get_xticklabels()] == ["10", "20", "30"]


def layers_at(axis):
    return [text.get_text() for text in axis.get_ticklabels()]


def test_maps_count_layers_as_the_paper_does():
    over_training = training_map({"one": [run()]}, measure="weight_change").axes[0]
    between = distance_map({"one": run()}).axes[0]
    for axis in (over_training.yaxis, between.xaxis, between.yaxis):
        assert layers_at(axis) == ["3", "5", "7", "9"]
        assert list(axis.get_ticklocs()) == [1, 2, 3, 4]


def test_a_map_of_distances_starts_at_zero():
    image = distance_map({"one": run(), "two": run()}).axes[0].get_images()[0]
    assert image.get_clim() == (0, 15)


def test_a_start_in_the_last_layers_is_no_tunnel():
    axes = tunnel_starts({"one_arm": ARMS["one_arm"]}, within=0.4).axes[0]
    assert [bar.get_width() for bar in axes.patches] == [5, 5]
    assert "no tunnel: it would begin after 40 % of the layers" in {bar.get_label() for bar in axes.containers}
    within = tunnel_starts({"one_arm": ARMS["one_arm"]}, within=0.5).axes[0]
    assert "tunnel" in {bar.get_label() for bar in within.containers}


def test_ticks_stand_at_layers_that_there_are():
    drawing = style.figure()
    axes = drawing.add_subplot()
    depth_axis(axes, np.array([3, 5, 7, 9]))
    assert list(axes.get_xticks()) == [3, 5, 7, 9]
