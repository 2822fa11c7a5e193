"""Numbers of maps between layers."""

import math
from dataclasses import replace

import numpy as np
import pytest

from winze.data import Preprocess, load
from winze.lab.bench import Bench
from winze.lab.study import Trained
from winze.networks import MLP
from winze.readings import Readings, ReadingsError
from winze.recipes.tunnel.numbers import OverMatrix
from winze.recipes.tunnel.similarity import l1_distances, late_over_early, recipe, within, within_over_across, work
from winze.train import History


def test_a_block_of_alike_layers_is_seen():
    cka = np.full((6, 6), 0.2)
    cka[2:, 2:] = 0.9
    np.fill_diagonal(cka, 1.0)
    assert within(cka) == pytest.approx(0.9)
    assert within_over_across(cka) == pytest.approx(0.7)


def test_steps_are_those_between_neighbours():
    far = np.abs(np.subtract.outer([0.0, 4.0, 5.0, 6.0, 7.0, 8.0], [0.0, 4.0, 5.0, 6.0, 7.0, 8.0]))
    assert late_over_early(far) == pytest.approx(0.25)


def test_distances_are_means_over_samples_and_features():
    digits = load("digits", limit=50)
    net = MLP(64, width=8, depth=3)
    trained = Trained(net, digits, Preprocess.of(digits), History((), 0, 0.0))
    x = trained.preprocess(digits.test_images).flatten(1)
    one = net.layers[0](x)
    two = net.layers[1](one)
    found = l1_distances(trained, ["layers.0", "layers.1", "output"])
    assert found[0, 1] == pytest.approx(float((one - two).abs().mean().detach()), rel=1e-5)
    assert found[0, 0] == 0
    assert np.isnan(found[0, 2])


def test_numbers_of_a_matrix_leave_the_output_out():
    readings = Readings(conventions={"layers": {"": [1, 2, 3]}, "layer_count": 3}, arrays={"cka": np.eye(3)})
    for index in range(3):
        readings.add("probe", 0.5, place=f"p{index}", index=index, total=3)
    assert OverMatrix("cka", lambda matrix: float(matrix.sum()))(readings) == 2
    with pytest.raises(ReadingsError, match="l1 was not read"):
        OverMatrix("l1", within)(readings)


@pytest.mark.parametrize(("probes", "want"), [((0.5, 0.9, 0.9, 0.9, 0.9), 12 + 8), ((0.5, 0.5, 0.5, 0.9, 0.9), None)])
def test_numbers_behind_the_start_are_of_hidden_places_there(probes, want):
    cka = np.arange(25.0).reshape(5, 5)
    conventions = {"data": "own", "layers": {"": [1, 2, 3, 4, 5]}, "layer_count": 5}
    readings = Readings(conventions=conventions, arrays={"cka": cka})
    for index, value in enumerate(probes):
        readings.add("probe", value, data="own", split="test", place=f"p{index}", index=index, total=5)
    readings.add("accuracy", 0.9, data="own", split="test")
    found = OverMatrix("cka", lambda matrix: float(matrix.diagonal().sum() - 10), behind=True)(readings)
    assert math.isnan(found) if want is None else found == want
    assert OverMatrix("cka", within, behind=True).measures == ("cka", "probe", "accuracy")


def test_networks_of_unequal_layers_are_read_without_distances(tmp_path):
    config = replace(
        recipe.config("smoke", "mlp8"),
        distances=False,
        training=replace(recipe.config("smoke", "mlp8").training, epochs=1),
    )
    bench = Bench(tmp_path)
    work(config, bench)
    assert "l1" not in bench.readings.arrays
    assert bench.readings.arrays["cka"].shape == (9, 9)
    assert not recipe.config("paper", "vgg19").distances
    assert recipe.config("paper", "mlp12").distances
