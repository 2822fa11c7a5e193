"""Node maps and distances between layers: what is drawn is what was read."""

import numpy as np
import pytest
from matplotlib.collections import LineCollection

from winze.readings import Point, Readings
from winze.report import style
from winze.report.experiment import UnreadError
from winze.report.experiment.node_maps import LEVELS, distance_tables, node_maps, sample_points

SMALL = Point(size="6x6", algorithm="standard")
MAPS, OVER_TRAINING = node_maps(SMALL, "maps"), node_maps(SMALL, "maps over training", training=True)
POINTS, DISTANCES = sample_points("points"), distance_tables("algorithm", {"size": "32x32"}, "distances")


def shown(steps=(0, 64), layers=(0, 2, 4), nodes=(0, 5), side=5) -> Readings:
    """Maps that rise from left to right, and weights of which one is the largest."""
    ramp = np.broadcast_to(np.linspace(0, 255, side).astype(np.uint8), (len(layers), len(nodes), side, side))
    weights = np.full((len(layers) - 1, len(nodes), len(nodes)), 0.5, dtype=np.float16)
    weights[0, 1, 0] = -2
    arrays = {"maps_layers": np.array(layers), "maps_nodes": np.array(nodes)}
    for step in steps:
        arrays |= {f"maps/{step}": ramp, f"weights/{step}": weights}
        arrays[f"weights_in/{step}"] = np.ones((len(nodes), 2), dtype=np.float16)
    points = np.array([[0.5, 0.5], [-0.5, 0.0], [0.0, -1.0]], dtype=np.float16)
    return Readings(arrays=arrays | {"points": points, "points_labels": np.array([0, 1, 1], dtype=np.uint8)})


def lines_of(axes) -> list[LineCollection]:
    return [one for one in axes.collections if isinstance(one, LineCollection)]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_row_per_node_and_a_column_per_layer_with_its_weights_before_it(theme):
    drawing = MAPS.draw({SMALL: [Readings(), shown()]}, theme)
    [axes] = drawing.axes
    assert [text.get_text() for text in axes.texts] == ["input", "h₀", "h₂", "h₄", "0", "5"]
    assert len(lines_of(axes)) == 3
    assert style.rendered(drawing, "svg").startswith(b"<?xml")


def test_the_width_of_a_line_is_the_size_of_its_weight_and_the_colour_its_sign():
    [axes] = MAPS.draw({SMALL: [shown()]}, "light").axes
    lines = lines_of(axes)[1]
    widths, colours = lines.get_linewidths(), lines.get_colors()
    assert widths[-1] == pytest.approx(4 * widths[0])
    assert style.THEMES["light"].rank == "#" + "".join(f"{round(255 * part):02x}" for part in colours[-1][:3])
    start, end = lines.get_segments()[-1]
    assert end[1] < start[1]  # from the first node to the second, which stands below


def test_a_map_is_drawn_in_its_square_in_bands_that_rise_as_its_bytes_do(monkeypatch):
    seen = []
    monkeypatch.setattr(
        "matplotlib.axes.Axes.contourf", lambda self, x, y, values, levels, **more: seen.append((x, y, values))
    )
    MAPS.draw({SMALL: [shown()]}, "light")
    assert len(seen) == 2 + 3 * 2
    x, y, values = seen[-1]
    assert (x[0], x[-1], y[-1] - y[0]) == pytest.approx((3 * 1.75, 3 * 1.75 + 1, 1))
    np.testing.assert_array_equal(values, np.broadcast_to(np.array([0, 63, 127, 191, 255]), (5, 5)))
    assert LEVELS[0] < 0
    assert LEVELS[-1] > 255


def test_over_training_there_is_a_panel_for_every_step():
    drawing = OVER_TRAINING.draw({SMALL: [shown((0, 64, 640))]}, "light")
    titles = [axes.get_title(loc="left") for axes in drawing.axes if axes.texts]
    assert titles == ["before training", "after 64 steps", "after 640 steps"]
    with pytest.raises(UnreadError, match="one step only"):
        OVER_TRAINING.draw({SMALL: [shown((64,))]}, "light")


def test_points_are_drawn_by_class():
    [axes] = POINTS.draw({SMALL: [shown()]}, "light").axes
    assert [one.get_offsets().tolist() for one in axes.collections] == [[[0.5, 0.5]], [[-0.5, 0.0], [0.0, -1.0]]]


def test_distances_of_streams_are_counted_from_0_and_of_branches_from_1():
    table = np.abs(np.subtract.outer(np.arange(10.0), np.arange(10.0)))
    deep = Readings(arrays={"distances": table, "distances_branches": table[:9, :9]})
    drawing = DISTANCES.draw({Point(size="32x32", algorithm="output_sample"): [deep], SMALL: [deep]}, "light")
    above, below = (axes for axes in drawing.axes if axes.images)
    assert above.get_title(loc="left") == "output sample"
    assert (above.get_ylabel(), below.get_ylabel()) == ("layer, streams h", "layer, branches f")
    assert above.images[0].get_extent() == [-0.5, 9.5, -0.5, 9.5]
    assert below.images[0].get_extent() == [0.5, 9.5, 0.5, 9.5]
    np.testing.assert_array_equal(np.nan_to_num(above.images[0].get_array().filled(0)), table)


@pytest.mark.parametrize("draw", [MAPS.draw, POINTS.draw, DISTANCES.draw])
def test_readings_without_arrays_have_no_figure(draw):
    for runs in ({}, {Point(size="32x32", algorithm="standard"): [Readings()], SMALL: [Readings()]}):
        with pytest.raises(UnreadError):
            draw(runs, "light")
