"""Node maps, distances between layers and block diagrams: what is drawn is what was read."""

import numpy as np
import pytest
from matplotlib.collections import LineCollection

from winze.readings import Readings
from winze.report import style
from winze.report.blocks import block_diagrams
from winze.report.distance_maps import distance_maps
from winze.report.node_maps import maps_over_training, node_maps, sample_points
from winze.report.scans import UnreadError


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


def words(drawing) -> list[str]:
    return [text.get_text() for axes in drawing.axes for text in axes.texts]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_row_a_node_and_a_column_a_layer_with_its_weights_before_it(theme):
    drawing = node_maps({"small": [Readings(), shown()]}, theme, arm="small")
    [axes] = drawing.axes
    assert words(drawing) == ["input", "h₀", "h₂", "h₄", "0", "5"]
    assert len(axes.images) == 2 + 3 * 2
    assert len([one for one in axes.collections if isinstance(one, LineCollection)]) == 3
    assert style.rendered(drawing, "svg").startswith(b"<?xml")


def test_the_width_of_a_line_is_the_size_of_its_weight_and_the_colour_its_sign():
    [axes] = node_maps({"small": [shown()]}, arm="small").axes
    lines = [one for one in axes.collections if isinstance(one, LineCollection)][1]
    widths, colours = lines.get_linewidths(), lines.get_colors()
    assert widths[-1] == pytest.approx(4 * widths[0])
    assert style.THEMES["light"].rank == "#" + "".join(f"{round(255 * part):02x}" for part in colours[-1][:3])
    start, end = lines.get_segments()[-1]
    assert end[1] < start[1]  # from the first node to the second, which stands below


def test_bands_of_a_map_rise_as_its_bytes_do():
    [axes] = node_maps({"small": [shown()]}, arm="small").axes
    bands = np.asarray(axes.images[-1].get_array())
    assert (np.diff(bands, axis=1) >= 0).all()
    assert (np.diff(bands, axis=0) == 0).all()
    assert (bands.min(), bands.max()) == (0, 8)


def test_over_training_there_is_a_panel_for_every_step():
    drawing = maps_over_training({"small": [shown((0, 64, 640))]}, arm="small")
    titles = [axes.get_title(loc="left") for axes in drawing.axes if axes.axison or axes.images]
    assert titles == ["before training", "after 64 steps", "after 640 steps"]
    with pytest.raises(UnreadError, match="one step only"):
        maps_over_training({"small": [shown((64,))]}, arm="small")


def test_points_are_drawn_by_class():
    [axes] = sample_points({"small": [shown()]}).axes
    assert [len(one.get_offsets()) for one in axes.collections] == [1, 2]


def test_distances_of_streams_are_counted_from_0_and_of_branches_from_1():
    deep = Readings(arrays={"distances": 1 - np.eye(10), "distances_branches": 1 - np.eye(9)})
    flat = Readings(arrays={"distances": 1 - np.eye(4), "distances_branches": 1 - np.eye(3)})
    drawing = distance_maps({"deep_ours": [deep], "flat": [flat]})
    above, below = (axes for axes in drawing.axes if axes.images)
    assert above.get_title(loc="left") == "deep, ours"
    assert (above.get_ylabel(), below.get_ylabel()) == ("layer, streams h", "layer, branches f")
    assert above.images[0].get_extent() == [-0.5, 9.5, -0.5, 9.5]
    assert below.images[0].get_extent() == [0.5, 9.5, 0.5, 9.5]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_block_that_is_dropped_is_the_one_that_learns_in_stage_2(theme):
    plain, first, second = block_diagrams(None, theme).axes
    state = [[text.get_text() for text in axes.texts] for axes in (plain, first, second)]
    assert state[0].count("learns") == 0
    assert [word for word in state[1] if word in ("learns", "dropped")] == ["learns", "dropped", "learns"]
    assert [word for word in state[2] if word in ("learns", "frozen")] == ["frozen", "learns", "frozen"]


@pytest.mark.parametrize(
    "draw",
    [lambda arms: node_maps(arms, arm="a"), sample_points, distance_maps],
)
def test_readings_without_pictures_have_none(draw):
    with pytest.raises(UnreadError):
        draw({"a": [Readings()]})
