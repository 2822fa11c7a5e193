"""The spiral study: its settings are the paper's, each network is its own seed, and a killed run reads the same."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from winze.data import load
from winze.lab.bench import Bench
from winze.lab.members import apart
from winze.lab.perform import perform
from winze.lab.results import add
from winze.lab.results import load as kept
from winze.lab.store import Runs
from winze.lab.study import Study, train
from winze.networks import SpiralMLP
from winze.observe.files import load as load_network
from winze.recipes.residual_droppath import spiral_reading
from winze.recipes.residual_droppath.spiral import Looks, recipe, work
from winze.shape import DropPath, ResidualDropPath

SMOKE = recipe.config("smoke", "6x6_ours")
TINY = replace(SMOKE, training=replace(SMOKE.training, epochs=2, checkpoint_every=1), looks=(0,), limit=300)


def readings_of(config, folder, seed=0):
    bench = Bench(folder, seed)
    work(config, bench)
    return bench.readings


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return readings_of(TINY, folder), folder


def test_the_paper_scale_is_the_papers():
    for arm in recipe.arms_at("paper"):
        config = recipe.config("paper", arm)
        training = config.training
        assert (training.epochs, training.batch, training.lr, training.betas) == (1000, 256, 0.1, (0.9, 0.999))
        assert (training.optimizer, training.weight_decay, training.schedule) == ("adamw", 0, "constant")
        assert config.side_by_side * len(recipe.scale("paper").seeds) == 10
        assert config.limit is None
    assert {recipe.config("paper", arm).network for arm in recipe.arms} == {"winze/spiral6x6", "winze/spiral32x32"}


def test_the_arms_are_the_three_algorithms_and_the_other_reading_of_ours():
    rules = {arm: fields["rule"] for arm, fields in recipe.arms.items()}
    for size in ("6x6", "32x32"):
        assert rules[f"{size}_standard"] is None
        assert rules[f"{size}_droppath"] == DropPath(rate=0.1, profile="linear", scale=True)
        assert rules[f"{size}_ours"] == ResidualDropPath(rate=0.1, profile="linear", frozen="output", mask="sample")
        assert rules[f"{size}_weights"] == ResidualDropPath(rate=0.1, profile="linear", frozen="weights")


@pytest.mark.parametrize("scale", ["cpu", "gpu", "paper"])
def test_claims_rest_on_ten_networks_of_each_algorithm(scale):
    assert recipe.config(scale, "32x32_ours").side_by_side >= 10
    for quantity in ("recurring_maps", "recurring_maps_branches", "feature_reuse", "feature_reuse_branches"):
        arms = [claim.check.arms for claim in recipe.claims_at(scale) if claim.check.quantity == quantity]
        assert {one[0] for one in arms if len(one) == 1} == {
            f"32x32_{name}" for name in ("standard", "droppath", "ours")
        }
        assert {one[1] for one in arms if len(one) == 2} == {"32x32_standard", "32x32_droppath"}


def test_each_network_is_the_one_that_an_ordinary_training_with_its_seed_gives(tmp_path):
    config = replace(TINY, rule=None)
    work(config, Bench(tmp_path / "both"))
    study = Study(config.network, "spiral", config.training, limit=config.limit)
    for number in (0, 1):
        alone = train(study, Bench(tmp_path / str(number), number)).net
        net = load_network(tmp_path / "both" / f"net-{number}.safetensors")
        for a, b in zip(net.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_networks_of_a_run_are_numbered_on_from_run_to_run(read, tmp_path):
    assert list(apart(0, read[0])) == [0, 1]
    assert list(apart(1, readings_of(TINY, tmp_path, seed=1))) == [2, 3]


def test_every_network_is_read_at_every_look_and_each_place_at_the_end(read):
    for one in apart(0, read[0]).values():
        for measure in ("recurring_maps", "recurring_maps_branches"):
            assert [row.step for row in one.rows if row.measure == measure] == [0, 4]
        for measure in ("accuracy", "lost", "feature_reuse", "non_monotonicity_normalised", "alike_share"):
            assert [row.step for row in one.rows if row.measure == measure] == [4]
        for measure in ("cka_to_input", "input_reconstruction", "alike_groups"):
            assert len(one.curve(measure)) == 7
        assert one.curve("input_reconstruction")[0] == pytest.approx(1)  # h_0 is linear in the input


def test_pictures_are_kept_of_the_first_network_alone(read):
    first, second = apart(0, read[0]).values()
    assert first.arrays["maps/4"].shape == (7, 6, 20, 20)
    assert first.arrays["weights/4"].shape == (6, 6, 6)
    assert first.arrays["distances"].shape == (7, 7)
    assert first.arrays["distances_branches"].shape == (6, 6)
    assert second.arrays == {}


def test_figures_are_drawn_of_small_networks_over_training(read):
    runs = {"6x6_ours": list(apart(0, read[0]).values())}
    drawn = recipe.figures["Node maps over training, 6x6_ours"](runs, "light")
    assert [axes.get_title(loc="left") for axes in drawn.axes] == ["before training", "after 4 steps"]
    for name in ("Spiral", "Blocks", "What each layer keeps of the input"):
        assert recipe.figures[name](runs, "dark").axes


def test_a_run_that_was_killed_reads_the_same(read, tmp_path, monkeypatch):
    look = Looks.__call__

    def killed(self, members, step):
        if step == 3:
            raise KeyboardInterrupt
        look(self, members, step)

    with monkeypatch.context() as patched:
        patched.setattr(Looks, "__call__", killed)
        with pytest.raises(KeyboardInterrupt):
            readings_of(TINY, tmp_path)
    again = readings_of(TINY, tmp_path)
    assert again.rows == read[0].rows
    assert {name: array.tobytes() for name, array in again.arrays.items()} == {
        name: array.tobytes() for name, array in read[0].arrays.items()
    }


def test_the_grid_spans_the_square_row_by_row():
    points = spiral_reading.grid(50)
    assert points.shape == (2500, 2)
    assert points[0].tolist() == [-1, -1]
    assert points[49].tolist() == [1, -1]
    assert points[-1].tolist() == [1, 1]


def test_streams_are_what_the_network_computes_and_branches_what_each_layer_adds():
    net, x = SpiralMLP(width=5, depth=3), torch.randn(4, 2)
    seen = spiral_reading.streams(net, x)
    torch.testing.assert_close(net.output(seen[-1]), net(x))
    torch.testing.assert_close(spiral_reading.branches(seen)[1], net.layers[1].branch(seen[1]))


def test_a_map_that_is_kept_is_the_nodes_own_spread_over_the_bytes():
    net = SpiralMLP(width=6, depth=6)
    kept = spiral_reading.pictures(net, 8)["maps/8"]
    own = spiral_reading.streams(net, spiral_reading.grid(20))[3][:, 2].detach().view(20, 20).numpy()
    own = (own - own.min()) / (own.max() - own.min()) * 255
    assert np.abs(kept[3, 2] - own).max() <= 255 / 35 / 2 + 1  # 36 shades


def test_deep_networks_are_shown_at_nine_layers_and_six_nodes():
    kept = spiral_reading.pictures(SpiralMLP(width=32, depth=32), 0)
    assert kept["maps_layers"].tolist() == [0, 4, 8, 12, 16, 20, 24, 28, 32]
    assert kept["maps_nodes"].tolist() == [0, 6, 12, 19, 25, 31]
    assert kept["weights/0"].shape == (8, 6, 6)


def test_a_network_that_is_lost_reads_nan_with_the_reason():
    net = SpiralMLP()
    with torch.no_grad():
        net.layers[2].branch[0].weight.fill_(torch.nan)
    data = load("spiral", limit=100, download=False)
    known = {row.measure: row.value for row in spiral_reading.knowledge(net, data.test, 0)}
    assert known["lost"] == 1
    rows = [*spiral_reading.recurring(net, 0), *spiral_reading.between(net, 0), *spiral_reading.each_place(net, 0)]
    lost = {row.measure for row in rows if np.isnan(row.value) and "no longer numbers" in row.note}
    assert {"feature_reuse", "recurring_maps_branches", "cka_to_input", "alike_groups", "alike_share"} <= lost
    assert spiral_reading.pictures(net, 0)["maps/0"].dtype == np.uint8


def test_a_run_takes_little_room_in_results(tmp_path):
    [job] = recipe.jobs("smoke", arms=["6x6_ours"])
    folder = perform(job, Runs(tmp_path / "runs"), progress=False)
    add(folder, recipe, tmp_path)
    assert (tmp_path / "residual_droppath" / "spiral.json").stat().st_size < 30_000
    assert kept(recipe, tmp_path)["smoke"]["6x6_ours"][0].readings.arrays
