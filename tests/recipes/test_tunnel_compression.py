"""Variances a feature, and pictures at two layers."""

import numpy as np
import pytest

from winze.lab.bench import Bench
from winze.readings import Readings
from winze.recipes.tunnel.compression import recipe, work


def read(within, between, widths):
    readings = Readings(conventions={"data": "own", "layers": {"": list(range(1, 9))}, "layer_count": 9})
    for measure, values in (("intra_variance", within), ("inter_variance", between), ("features", widths)):
        for index, value in enumerate(values):
            readings.add(measure, value, place=f"p{index}", index=index, total=8, data="own", split="test")
    return readings


def test_variances_are_compared_a_feature_between_layer_7_and_the_last_hidden_one():
    found = read([0] * 6 + [8, 1], [0] * 6 + [4, 2], [0] * 6 + [20_000, 1000])
    numbers = {name: recipe.quantities[name](found) for name in recipe.quantities if "variance" in name}
    assert numbers == {  # of 20,000 features 8,000 were read
        "variance_within_classes_kept": pytest.approx((1 / 1000) / (8 / 8000)),
        "variance_between_classes_kept": pytest.approx((2 / 1000) / (4 / 8000)),
        "variance_within_over_between_kept": pytest.approx(0.25),
    }


def test_samples_are_pictured_at_the_layers_asked_for(tmp_path):
    bench = Bench(tmp_path)
    work(recipe.config("smoke", "vgg19"), bench)
    arrays = bench.readings.arrays
    assert sorted(name for name in arrays if name.startswith("embedding/")) == [
        "embedding/6",
        "embedding/9",
        "embedding/labels",
    ]
    assert arrays["embedding/6"].shape == (100, 2)
    assert len(np.unique(arrays["embedding/labels"])) == 10
