"""The spiral study: each network is its own seed, readings are those of the network, a killed run reads the same."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from winze.data import load
from winze.lab import Bench, Study, recipe
from winze.lab.study import learn, prepare
from winze.networks import SpiralMLP
from winze.observe.cut.network_file import load as load_network
from winze.readings import Point, Readings
from winze.recipes.residual_droppath import _spiral as reading
from winze.recipes.residual_droppath._gradients import StatesSeen
from winze.recipes.residual_droppath._spiral import work
from winze.train import Epochs

SPIRAL = recipe("residual_droppath/spiral")
SMOKE = SPIRAL.config("smoke", Point(size="6x6", algorithm="output_sample"))
TINY = replace(
    SMOKE,
    training=replace(SMOKE.training, length=Epochs(2), checkpoint=Epochs(1)),
    looks=(0,),
    data=replace(SMOKE.data, limit=300),
)


def members_of(config, folder, seed=0):
    bench = Bench(folder, seed)
    work(config, bench)
    return bench.members


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    return members_of(TINY, tmp_path_factory.mktemp("run"))


def test_each_network_is_the_one_that_an_ordinary_training_with_its_seed_gives(tmp_path):
    config = replace(TINY, network=replace(TINY.network, rule=None))
    work(config, Bench(tmp_path / "both"))
    for number in (0, 1):
        bench = Bench(tmp_path / str(number), number)
        alone = prepare(Study(config.network, config.data, config.training), bench)
        learn(alone, bench)
        net = load_network(tmp_path / "both" / f"net-{number}.safetensors")
        for a, b in zip(net.parameters(), alone.net.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_networks_are_numbered_on_from_run_to_run(read, tmp_path):
    assert list(read) == [0, 1]
    assert list(members_of(TINY, tmp_path, seed=1)) == [2, 3]


def test_every_network_is_read_at_every_look_and_each_place_at_the_end(read):
    for one in read.values():
        for measure in ("recurring_maps", "recurring_maps_branches"):
            assert [row.step for row in one.rows if row.measure == measure] == [0, 4]
        for measure in ("accuracy", "lost", "feature_reuse", "non_monotonicity_branches", "alike_share"):
            assert [row.step for row in one.rows if row.measure == measure] == [4]
        for measure in ("cka_to_input", "input_reconstruction", "alike_groups"):
            assert len(one.curve(measure)) == 7
        assert one.curve("input_reconstruction")[0] == pytest.approx(1)  # h_0 is linear in the input


def test_arrays_are_kept_of_the_first_network_alone(read):
    first, second = read.values()
    shapes = {name: first.arrays[name].shape for name in ("maps/4", "weights/4", "distances", "distances_branches")}
    assert list(shapes.values()) == [(7, 6, 20, 20), (6, 6, 6), (7, 7), (6, 6)]
    assert second.arrays == {}


def test_a_run_that_was_killed_reads_the_same(read, tmp_path, monkeypatch):
    look = StatesSeen.__call__

    def killed(self, ensemble, step):
        if step == 3:
            raise KeyboardInterrupt
        look(self, ensemble, step)

    with monkeypatch.context() as patched:
        patched.setattr(StatesSeen, "__call__", killed)
        with pytest.raises(KeyboardInterrupt):
            members_of(TINY, tmp_path)
    again = members_of(TINY, tmp_path)
    assert {number: one.rows for number, one in again.items()} == {number: one.rows for number, one in read.items()}
    assert all(array.tobytes() == read[0].arrays[name].tobytes() for name, array in again[0].arrays.items())


def test_the_grid_spans_the_square_row_by_row():
    points = reading.grid(50)
    assert points.shape == (2500, 2)
    assert points[[0, 49, -1]].tolist() == [[-1, -1], [1, -1], [1, 1]]


def test_streams_are_what_the_network_computes_and_branches_what_each_layer_adds():
    net, x = SpiralMLP(width=5, depth=3), torch.randn(4, 2)
    seen = reading.streams(net, x)
    torch.testing.assert_close(net.output(seen[-1]), net(x))
    torch.testing.assert_close(reading.branches(seen)[1], net.layers[1].branch(seen[1]))


def test_a_map_that_is_kept_is_the_nodes_own_spread_over_the_bytes():
    net = SpiralMLP(width=6, depth=6)
    kept = reading.maps_at(net, 8)["maps/8"]
    own = reading.streams(net, reading.grid(20))[3][:, 2].detach().view(20, 20).numpy()
    own = (own - own.min()) / (own.max() - own.min()) * 255
    assert np.abs(kept[3, 2] - own).max() <= 255 / 35 / 2 + 1  # 36 shades


def test_deep_networks_are_shown_at_nine_layers_and_six_nodes():
    kept = reading.maps_at(SpiralMLP(width=32, depth=32), 0)
    assert kept["maps_layers"].tolist() == [0, 4, 8, 12, 16, 20, 24, 28, 32]
    assert kept["maps_nodes"].tolist() == [0, 6, 12, 19, 25, 31]
    assert kept["weights/0"].shape == (8, 6, 6)


def test_accuracy_is_that_of_the_network_and_lost_says_that_guessing_is_better():
    net, (points, labels) = SpiralMLP(), load("spiral", limit=100, download=False).test
    right = (net(points).argmax(1) == labels).double().mean().item()
    found = Readings()
    reading.read_end(net, (points, labels), 0, found)
    assert {row.measure: row.value for row in found.rows}["accuracy"] == pytest.approx(right, abs=1e-4)
    with torch.no_grad():
        net.output.weight.mul_(1000)
    reading.read_end(net, (points, labels), 1, found)
    assert [row.value for row in found.rows if row.measure == "lost"][-1] == 1


def test_a_network_whose_features_are_nan_reads_nan_with_the_reason():
    net, found = SpiralMLP(), Readings()
    with torch.no_grad():
        net.layers[2].branch[0].weight.fill_(torch.nan)
    reading.read_maps(net, 0, found)
    reading.read_end(net, load("spiral", limit=100, download=False).test, 0, found)
    broken = {row.measure for row in found.rows if np.isnan(row.value) and "no longer numbers" in row.note}
    assert {"feature_reuse", "recurring_maps_branches", "cka_to_input", "alike_groups", "alike_share"} <= broken
    assert {row.measure: row.value for row in found.rows}["lost"] == 1
    assert reading.maps_at(net, 0)["maps/0"].dtype == np.uint8
