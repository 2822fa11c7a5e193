"""Labelled points in the plane."""

import pytest
import torch

from winze.data import DataError, plane, spiral
from winze.data.plane import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_points_are_balanced_mixed_and_the_same_for_one_seed(kind):
    points, labels = plane(kind, 200, noise=0.05, seed=3)
    again = plane(kind, 200, noise=0.05, seed=3)
    assert points.shape == (200, 2)
    assert points.dtype == torch.float32
    assert torch.equal(points, again[0])
    assert torch.equal(labels, again[1])
    assert not torch.equal(points, plane(kind, 200, noise=0.05, seed=4)[0])
    assert abs(int(labels.sum()) - 100) <= 15
    assert 20 < int(labels[:100].sum()) < 80


def test_the_spiral_is_the_one_of_the_recipes():
    points, labels = plane("spiral", 64, seed=0)
    assert torch.equal(points, spiral(32, 0)[0])
    assert torch.equal(labels, spiral(32, 0)[1])


def test_gaussians_may_have_more_classes():
    assert plane("gaussians", 90, classes=3)[1].bincount().tolist() == [30, 30, 30]


def test_classes_of_xor_are_opposite_corners():
    points, labels = plane("xor", 100)
    assert torch.equal(labels == 0, points.prod(1) > 0)


@pytest.mark.parametrize("given", [("ring",), ("moons", 1), ("moons", 20, -1.0), ("moons", 20, 0.0, 3)])
def test_what_cannot_be_drawn_is_refused(given):
    with pytest.raises(DataError):
        plane(*given)
