"""The Fréchet distance against SciPy's matrix root and closed forms; neighbours against scikit-learn."""

import numpy as np
import pytest
import torch
from scipy.linalg import sqrtm
from sklearn.neighbors import KNeighborsClassifier

from winze.measure import frechet_distance, knn_accuracy


def rows(seed, n=400, d=6, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    mixed = torch.randn(d, d, generator=generator, dtype=torch.float64)
    return scale * torch.randn(n, d, generator=generator, dtype=torch.float64) @ mixed


@pytest.mark.parametrize("seed", range(4))
def test_the_distance_is_that_of_scipys_matrix_root(seed):
    one, other = rows(seed).numpy(), 1 + rows(seed + 10, n=300).numpy()
    c1, c2 = np.cov(one.T), np.cov(other.T)
    expected = ((one.mean(0) - other.mean(0)) ** 2).sum() + np.trace(c1 + c2 - 2 * sqrtm(c1 @ c2).real)
    assert frechet_distance(torch.tensor(one), torch.tensor(other)) == pytest.approx(expected, rel=1e-8)


def test_equal_features_have_no_distance_and_a_shift_has_its_square():
    x = rows(0)
    assert frechet_distance(x, x) == pytest.approx(0, abs=1e-9)
    assert frechet_distance(x, x + 2) == pytest.approx(6 * 4, rel=1e-9)


def test_scaling_by_a_moves_the_deviations_apart():
    x = rows(1)
    trace = float(((x - x.mean(0)) ** 2).sum() / (len(x) - 1))
    moved = float((2 * x.mean(0)).square().sum())
    assert frechet_distance(x, 3 * x) == pytest.approx(moved + 4 * trace, rel=1e-8)


def test_features_with_fewer_samples_than_dimensions_are_compared_too():
    assert frechet_distance(rows(2, n=4), rows(3, n=5)) > 0


def test_one_sample_has_no_covariance():
    found = frechet_distance(rows(0, n=1), rows(1))
    assert np.isnan(found)
    assert found.note == "a covariance needs two samples"


def test_dimensions_that_differ_are_named():
    with pytest.raises(ValueError, match="6 and of 5 dimensions"):
        frechet_distance(rows(0), rows(1, d=5))


@pytest.mark.parametrize("neighbours", [1, 5, 20])
def test_an_even_vote_is_that_of_scikit_learn(neighbours):
    generator = torch.Generator().manual_seed(0)
    y, z = (torch.randint(0, 2, (n,), generator=generator) for n in (300, 120))
    x, t = rows(0, 300) + y[:, None], rows(0, 120) + z[:, None]
    unit = [one / one.norm(dim=1, keepdim=True) for one in (x, t)]
    reference = KNeighborsClassifier(neighbours, algorithm="brute").fit(unit[0], y)
    votes = reference.predict_proba(unit[1])
    ties = (votes[:, 0] == votes[:, 1]).sum()
    found = knn_accuracy(x, y, t, z, neighbours, temperature=None)
    assert abs(found - reference.score(unit[1], z)) <= ties / 120


def test_a_sample_among_the_train_samples_knows_its_class_at_a_low_temperature():
    x, y = rows(0), torch.arange(400) % 7
    assert knn_accuracy(x, y, x, y, neighbours=20, temperature=1e-3) == 1


@pytest.mark.parametrize("neighbours", [0, 401])
def test_numbers_of_neighbours_that_cannot_be_are_named(neighbours):
    x, y = rows(0), torch.arange(400) % 2
    with pytest.raises(ValueError, match="between 1 and the 400 train samples"):
        knn_accuracy(x, y, x, y, neighbours)
