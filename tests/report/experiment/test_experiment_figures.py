"""Figures of experiments: what is drawn is what was read, for every kind of figure over axes."""

import numpy as np
import pytest
from synthetic import scan

from winze.readings import Point, Readings
from winze.report import style
from winze.report.experiment import UnreadError, over_depth, over_setting, over_training, profiles, tunnel_starts
from winze.report.experiment.drawing import looks_of
from winze.report.experiment.image_sheets import tiled
from winze.report.scan.cka_map import distance_map, training_map
from winze.report.scan.embedding_plot import embedding
from winze.report.scan.profile import depth_axis

LIGHT = style.THEMES["light"]


def trained(*accuracies, epoch=None):
    """One seed: accuracies while it trained, 100 steps apart, and one of the scan after it."""
    made = Readings(conventions={"data": "cifar10"})
    for number, value in enumerate(accuracies, 1):
        made.add("accuracy", value, data="cifar10", split="test", step=100 * number)
    made.add("accuracy", accuracies[-1] + 0.01, data="cifar10", split="test")
    if epoch:
        made.add("epoch_steps", epoch)
    return made


def read(shift=0.0):
    """One seed of ten layers, read at four places that a paper numbers 3, 5, 7 and 9."""
    made = Readings(conventions={"data": "own", "layers": {"as the paper does": [3, 5, 7, 9]}, "layer_count": 10})
    for index, value in enumerate((0.5, 0.9, 0.92, 0.94)):
        place = {"place": f"p{index}", "index": index, "total": 4}
        made.add("probe", value + shift, split="test", data="own", **place)
        made.add("probe", 0.4 - 0.1 * index + shift, split="test", data="other", **place)
        made.add("reset", 0.1 * index, split="test", data="own", **place)
        for step in (10, 20, 30):
            made.add("weight_change", 0.01 * (index + 1) * 10 / step, step=step, data="own", **place)
    made.add("accuracy", 0.95, data="own", split="test")
    made.arrays["l1"] = np.arange(16.0).reshape(4, 4)
    return made


def drawn(axes):
    """Every named line: its values at x."""
    lines = [line for line in axes.get_lines() if not line.get_label().startswith("_")]
    return {line.get_label(): dict(zip(line.get_xdata(), np.round(line.get_ydata(), 6), strict=True)) for line in lines}


def titles(drawing):
    return [axes.get_title(loc="left") for axes in drawing.axes if axes.get_title(loc="left")]


RUNS = {
    Point(alpha=1.0, blocks=8): [read(), read(0.02)],
    Point(alpha=0.4, blocks=8): [read(0.01)],
    Point(alpha=1.0, blocks=16): [read(0.05)],
}
KINDS = {
    "depth": over_depth("probe", colour="alpha", panel="blocks"),
    "training": over_training("accuracy", colour="alpha", panel="blocks"),
    "setting": over_setting("accuracy", x="alpha", line="blocks"),
    "starts": tunnel_starts("alpha"),
    "profiles": profiles(),
}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_figure_is_the_same_every_time(kind, theme):
    runs = {point: [trained(0.2, 0.3)] for point in RUNS} if kind == "training" else RUNS
    assert style.rendered(KINDS[kind].draw(runs, theme)) == style.rendered(KINDS[kind].draw(runs, theme))


@pytest.mark.parametrize("kind", KINDS)
def test_a_figure_of_readings_without_its_measure_is_refused(kind):
    for runs in ({}, {Point(alpha=1.0, blocks=8): [Readings()]}, {Point(alpha=1.0, blocks=8): []}):
        with pytest.raises(UnreadError):
            KINDS[kind].draw(runs, "light")


def test_a_figure_names_its_axes():
    assert KINDS["depth"].axes == ("alpha", "blocks")
    assert over_setting("accuracy", "alpha", "blocks", "network", at={"data": "mnist"}).axes == (
        *("alpha", "blocks", "network", "data"),
    )


def test_curves_over_depth_are_means_over_seeds_at_the_papers_layers():
    drawing = over_depth("probe", colour="alpha", panel="blocks").draw(RUNS, "light")
    assert titles(drawing) == ["blocks 8, 1 to 2 seeds", "blocks 16, 1 seed"]
    assert drawn(drawing.axes[0]) == {
        "alpha 1": {3: 0.51, 5: 0.91, 7: 0.93, 9: 0.95},
        "alpha 0.4": {3: 0.51, 5: 0.91, 7: 0.93, 9: 0.95},
    }
    assert drawn(drawing.axes[1]) == {"alpha 1": {3: 0.55, 5: 0.95, 7: 0.97, 9: 0.99}}
    band = drawing.axes[0].collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == (0.5, 0.96)  # it spans both seeds


def test_other_data_is_drawn_where_it_is_asked_for():
    drawing = over_depth("probe", colour="alpha", ood=True).draw(RUNS, "light")
    assert drawing.axes[0].get_ylabel() == "probe accuracy, other"
    assert drawn(drawing.axes[0])["alpha 0.4"] == {3: 0.41, 5: 0.31, 7: 0.21, 9: 0.11}


def test_several_measures_differ_in_colour_or_beside_a_colour_axis_in_dashes():
    lines = {"own": "probe", "other": ("probe", "other"), "again": ("probe", "own")}
    alone = over_depth(lines, up="probe", at={"blocks": 16}, shown=lambda curve: curve / curve.max()).draw(
        RUNS, "light"
    )
    assert drawn(alone.axes[0]).keys() == {"own", "other"}  # the network's own data is not drawn twice
    assert drawn(alone.axes[0])["other"] == {3: 1, 5: 0.777778, 7: 0.555556, 9: 0.333333}
    both = over_depth(lines, colour="alpha", at={"blocks": 8}).draw(RUNS, "light").axes[0]
    looks = {line.get_label(): (line.get_color(), line.get_linestyle()) for line in both.get_lines()}
    assert looks["alpha 1, own"][0] == looks["alpha 1, other"][0] != looks["alpha 0.4, own"][0]
    assert (looks["alpha 1, own"][1], looks["alpha 1, other"][1]) == ("-", "--")


def test_points_that_differ_on_an_axis_not_named_are_never_one_line():
    drawing = over_depth("probe", colour="alpha").draw(RUNS, "light")
    assert titles(drawing) == ["blocks 8, 1 to 2 seeds", "blocks 16, 1 seed"]
    only = over_depth("probe", colour="alpha", at={"blocks": (8,), "alpha": 0.4}).draw(RUNS, "light")
    assert list(drawn(only.axes[0])) == ["alpha 0.4"]


def test_numbers_are_a_ramp_and_names_are_colours_of_their_own():
    looks = looks_of([10, 1, "norm", 100], LIGHT)
    assert [looks[one]["color"] for one in (1, 10, 100)] == LIGHT.ramp_colours(3)
    assert looks["norm"]["color"] == LIGHT.scans[1]
    named = looks_of(["b", "a"], LIGHT)
    assert [named[one]["color"] for one in ("b", "a")] == list(LIGHT.scans[:2])
    assert len({look["marker"] for look in looks.values()}) == 4


def test_a_value_has_one_colour_in_all_panels():
    first, second = over_depth("probe", colour="alpha", panel="blocks").draw(RUNS, "light").axes
    assert first.get_lines()[0].get_color() == second.get_lines()[0].get_color() == LIGHT.ramp_colours(2)[1]
    assert first.get_ylim() == second.get_ylim()


def test_training_is_counted_in_epochs_where_all_runs_say_their_steps():
    runs = {Point(rule="a"): [trained(0.2, 0.4, epoch=50), trained(0.4, 0.6, 0.9, epoch=50)]}
    axes = over_training("accuracy", colour="rule").draw(runs, "light").axes[0]
    assert (axes.get_xlabel(), drawn(axes)) == ("epoch", {"a": {2: 0.3, 4: 0.5}})  # the third only one seed has
    runs[Point(rule="b")] = [trained(0.1, 0.3)]
    axes = over_training("accuracy", colour="rule").draw(runs, "light").axes[0]
    assert axes.get_xlabel() == "training step"
    assert drawn(axes) == {"a": {100: 0.3, 200: 0.5}, "b": {100: 0.1, 200: 0.3}}


def test_a_number_of_the_run_is_drawn_over_a_setting_with_every_seed_and_the_paper():
    runs = {
        Point(rate=0.3, net="vit"): [trained(0.2), trained(0.4)],
        Point(rate=0.1, net="vit"): [trained(0.1)],
        Point(rate=0.1, net="mlp"): [trained(0.5)],
    }
    axes = over_setting("accuracy", "rate", "net", paper={(0.3, "vit"): 0.9}).draw(runs, "light").axes[0]
    assert drawn(axes) == {"vit": {0.1: 0.11, 0.3: 0.31}, "mlp": {0.1: 0.51}, "paper": {0.3: 0.9}}
    dots = {tuple(np.round(line.get_ydata(), 6)) for line in axes.get_lines() if line.get_marker() == "."}
    assert dots == {(0.21, 0.41), (0.11,), (0.51,)}
    assert [text.get_text() for text in axes.get_xticklabels()] == ["0.1", "0.3"]


def test_names_are_columns_without_lines_and_quantities_may_be_several():
    runs = {Point(rule="plain"): [trained(0.2, 0.5)], Point(rule="ours"): [trained(0.3, 0.6)]}
    first = {"start": lambda one: one.rows[0].value, "end": "accuracy"}
    axes = over_setting(first, "rule", paper={("ours", "end"): 0.7}).draw(runs, "light").axes[0]
    lines = drawn(axes)
    assert [list(lines[name].values()) for name in ("start", "end", "paper")] == [[0.2, 0.3], [0.51, 0.61], [0.7]]
    assert {line.get_linestyle() for line in axes.get_lines()} == {"None"}
    assert [text.get_text() for text in axes.get_xticklabels()] == ["plain", "ours"]
    assert [round(x) for x in lines["start"]] == [0, 1]


def test_a_quantity_that_a_run_lacks_leaves_that_run_out():
    runs = {Point(rate=0.1): [trained(0.5), Readings()], Point(rate=0.2): [Readings()]}
    assert (
        drawn(over_setting("accuracy", "rate", title="t").draw(runs, "light").axes[0]) == {}
    )  # one line needs no name
    line = over_setting({"accuracy": "accuracy"}, "rate").draw(runs, "light").axes[0]
    assert drawn(line) == {"accuracy": {0.1: 0.51}}


def test_bars_end_at_the_start_of_the_mean_tunnel_and_at_the_last_layer():
    axes = tunnel_starts(("alpha", "blocks"), paper={(0.4, 8): 7}).draw(RUNS, "light").axes[0]
    assert [bar.get_width() for bar in axes.patches] == [5, 5, 5, 5, 5, 5]  # .91 and more reach 95 % of .95
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in axes.get_lines() if line.get_marker() == "D"] == [
        (7, 1)
    ]
    assert [text.get_text() for text in axes.get_yticklabels()] == [
        *("alpha 1, blocks 8", "alpha 0.4, blocks 8", "alpha 1, blocks 16"),
    ]


def test_a_point_that_never_reaches_the_threshold_has_neither_extractor_nor_tunnel():
    axes = tunnel_starts().draw({Point(net="low"): [read(-0.3)]}, "light").axes[0]
    assert [(bar.get_width(), bar.get_hatch()) for bar in axes.patches] == [(10, "//")]


def test_a_start_in_the_last_layers_is_no_tunnel():
    runs = {Point(net="one"): [read()]}
    axes = tunnel_starts(within=0.4).draw(runs, "light").axes[0]
    assert [bar.get_width() for bar in axes.patches] == [7, 3]  # .9 is below 95 % of .95
    assert "no tunnel: it would begin after 40 % of the layers" in {bar.get_label() for bar in axes.containers}
    assert "tunnel" in {bar.get_label() for bar in tunnel_starts(within=0.7).draw(runs, "light").axes[0].containers}


LOW, HIGH = [0.2, 0.5, 0.9, 0.98], [0.4, 0.9, 1.0, 1.0]


def test_every_point_has_a_profile_with_its_seeds_and_its_tunnel():
    blocks = scan(LOW)
    blocks.conventions = blocks.conventions.having(layers={"without projections": [3, 5, 7, 9]})
    runs = {Point(net="vgg19"): [scan(), scan()], Point(net="resnet"): [blocks], Point(net="mlp"): [scan(HIGH)] * 3}
    drawing = profiles().draw(runs, "light")
    assert titles(drawing) == [
        "vgg19, 2 seeds\ntunnel starts after layer 8, features.22",
        "resnet, 1 seed\nno tunnel before layer 9, features.10",
        "mlp, 3 seeds\ntunnel starts after layer 3, features.7",
    ]
    assert [tick.get_text() for tick in drawing.axes[1].get_xticklabels()] == ["3", "5", "7", "9"]
    assert drawing.axes[1].get_xlabel() == "layer, counted without projections"
    texts = [text.get_text() for text in drawing.legends[0].texts]
    assert sorted(texts) == sorted(set(texts))


def test_the_line_of_a_profile_is_the_mean():
    drawing = profiles().draw({Point(net="both"): [scan(LOW), scan(HIGH)]}, "light")
    assert list(drawn(drawing.axes[0])["probe, cifar10"].values()) == [0.3, 0.7, 0.95, 0.99]


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
    drawing = training_map({"one": [read()]}, measure="weight_change", cap=0.02)
    image = drawing.axes[0].get_images()[0]
    assert image.get_clim() == (0, 0.02)
    assert image.get_array().shape == (4, 3)
    assert [text.get_text() for text in drawing.axes[0].get_xticklabels()] == ["10", "20", "30"]
    with pytest.raises(UnreadError):
        training_map({"one": [Readings()]}, measure="weight_change")


def test_maps_count_layers_as_the_paper_does():
    over_steps = training_map({"one": [read()]}, measure="weight_change").axes[0]
    between = distance_map({"one": read()}).axes[0]
    for axis in (over_steps.yaxis, between.xaxis, between.yaxis):
        assert [text.get_text() for text in axis.get_ticklabels()] == ["3", "5", "7", "9"]
        assert list(axis.get_ticklocs()) == [1, 2, 3, 4]


def test_a_map_of_distances_starts_at_zero():
    assert distance_map({"one": read(), "two": read()}).axes[0].get_images()[0].get_clim() == (0, 15)


def test_ticks_stand_at_layers_that_there_are():
    axes = style.figure().add_subplot()
    depth_axis(axes, np.array([3, 5, 7, 9]))
    assert list(axes.get_xticks()) == [3, 5, 7, 9]


@pytest.mark.parametrize(("kind", "white"), [(np.uint8, 255), (float, 1)])
def test_images_of_a_sheet_stand_in_rows_and_columns_with_white_lines_between(kind, white):
    images = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 1, 4, 5).astype(kind)
    sheet = tiled(images)
    assert sheet.shape == (2 * 4 + 1, 3 * 5 + 2, 1)
    assert (sheet[5:, 12:, 0] == images[1, 2, 0]).all()
    assert (sheet[4] == white).all()
    assert (sheet[:, [5, 11]] == white).all()


def test_an_embedding_is_titled_by_its_scan_and_layer():
    made = Readings(conventions={"data": "digits"})
    made.arrays["embedding/5"], made.arrays["embedding/labels"] = np.zeros((4, 2)), np.arange(4)
    drawing = embedding({"digits, alpha 0.6": made, "": made})
    assert [axes.get_title("left") for axes in drawing.axes] == ["digits, alpha 0.6, layer 6", "layer 6"]
