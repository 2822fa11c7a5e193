"""Numbers of maps between layers."""

from dataclasses import replace

import numpy as np
import pytest

from winze.lab.bench import Bench
from winze.readings import Point
from winze.recipes.tunnel._work import read_distances
from winze.recipes.tunnel.similarity import late_over_early, recipe, within_over_across
from winze.train import Epochs

SMOKE = recipe.config("smoke", Point(network="mlp8"))


def test_a_block_of_similar_layers_is_seen():
    cka = np.full((6, 6), 0.2)
    cka[2:, 2:] = 0.9
    np.fill_diagonal(cka, 1.0)
    assert within_over_across(cka) == pytest.approx(0.7)


def test_steps_are_those_between_neighbours():
    far = np.abs(np.subtract.outer([0.0, 4.0, 5.0, 6.0, 7.0, 8.0], [0.0, 4.0, 5.0, 6.0, 7.0, 8.0]))
    assert late_over_early(far) == pytest.approx(0.25)


def test_networks_of_unequal_layers_are_read_without_distances(tmp_path):
    bench = Bench(tmp_path)
    read_distances(replace(SMOKE, distances=False, training=replace(SMOKE.training, length=Epochs(1))), bench)
    assert "l1" not in bench.readings.arrays
    assert bench.readings.arrays["cka"].shape == (9, 9)
    distances = {name: recipe.config("paper", Point(network=name)).distances for name in ("mlp12", "vgg19", "resnet34")}
    assert distances == {"mlp12": True, "vgg19": False, "resnet34": False}
