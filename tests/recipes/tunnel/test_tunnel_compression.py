"""Variances per feature, and embeddings at two layers."""

import numpy as np
import pytest

from winze.lab.bench import Bench
from winze.readings import Point, Readings
from winze.recipes.tunnel.compression import between, recipe, within


def read(intra, inter, widths):
    readings = Readings(conventions={"data": "own", "layers": {"": [1, 2, 3, 4]}, "layer_count": 5})
    probes = [0.5, 0.97, 0.97, 0.97]
    measures = {"probe": probes, "intra_variance": intra, "inter_variance": inter, "features": widths}
    for measure, values in measures.items():
        for index, value in enumerate(values):
            readings.add(measure, value, place=f"p{index}", index=index, total=4, data="own", split="test")
    return readings


def test_variances_are_compared_per_feature_between_the_start_of_the_tunnel_and_its_end():
    found = read([99, 8, 99, 1], [99, 4, 99, 2], [99, 20_000, 99, 1000])  # of 20,000 features 8,000 were read
    assert within(found) == pytest.approx((1 / 1000) / (8 / 8000))
    assert between(found) == pytest.approx((2 / 1000) / (4 / 8000))
    assert (within / between)(found) == pytest.approx(0.25)


def test_samples_are_embedded_at_the_layers_asked_for(tmp_path):
    bench = Bench(tmp_path)
    recipe.work(recipe.config("smoke", Point(network="vgg19")), bench)
    arrays = bench.readings.arrays
    assert sorted(name for name in arrays if name.startswith("embedding/")) == [
        "embedding/17",
        "embedding/6",
        "embedding/labels",
    ]
    assert arrays["embedding/6"].shape == (300, 2)
    assert len(np.unique(arrays["embedding/labels"])) == 10
