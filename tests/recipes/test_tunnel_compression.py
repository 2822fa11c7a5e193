"""Variances a feature, and pictures at two layers."""

import numpy as np
import pytest

from winze.lab.bench import Bench
from winze.readings import Readings
from winze.recipes.tunnel.compression import recipe, work


def read(within, between, widths):
    readings = Readings(conventions={"data": "own", "layers": {"": [1, 2, 3, 4]}, "layer_count": 5})
    probes = [0.5, 0.97, 0.97, 0.97]
    measures = {"probe": probes, "intra_variance": within, "inter_variance": between, "features": widths}
    for measure, values in measures.items():
        for index, value in enumerate(values):
            readings.add(measure, value, place=f"p{index}", index=index, total=4, data="own", split="test")
    return readings


def test_variances_are_compared_a_feature_between_the_start_of_the_tunnel_and_its_end():
    found = read([99, 8, 99, 1], [99, 4, 99, 2], [99, 20_000, 99, 1000])
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
