"""Distances between places are means over samples and features."""

import numpy as np
import pytest

from winze.data import Batches, Preprocess, load
from winze.networks import MLP
from winze.observe.layer_distances import layer_distances


def test_distances_are_means_over_samples_and_features():
    digits = load("digits", limit=50)
    net, preprocess = MLP(64, width=8, depth=3), Preprocess.of(digits)
    one = net.layers[0](preprocess(digits.test_images).flatten(1))
    two = net.layers[1](one)
    found = layer_distances(net, Batches(*digits.test, 20, preprocess), ["layers.0", "layers.1", "output"])
    assert found[0, 1] == pytest.approx(float((one - two).abs().mean().detach()), rel=1e-5)
    assert found[0, 0] == 0
    assert np.isnan(found[0, 2])
