"""Ranks against closed forms."""

import math

import pytest
import torch
from references import features

from winze import measure


def flat_spectrum(k: int, d: int = 12) -> torch.Tensor:
    """2k samples at plus and minus the k first axes: a covariance with k equal eigenvalues."""
    axes = torch.eye(d, dtype=torch.float64)[:k]
    return torch.cat([axes, -axes])


@pytest.mark.parametrize("k", [1, 2, 7, 12])
def test_a_flat_spectrum_of_k_directions_has_rank_k_by_every_count(k: int) -> None:
    x = flat_spectrum(k)
    assert measure.numerical_rank(x) == k
    assert measure.effective_rank(x) == pytest.approx(math.log(k))
    assert measure.effective_rank(x, exp=True) == pytest.approx(k)
    assert measure.participation_ratio(x) == pytest.approx(k)


def test_numerical_rank_counts_variances_above_the_threshold_and_not_singular_values() -> None:
    x = flat_spectrum(3) * torch.tensor([1.0, 0.04, 0.03] + [0.0] * 9, dtype=torch.float64)
    assert measure.numerical_rank(x) == 2  # variances 1, 1.6e-3, 0.9e-3
    assert measure.numerical_rank(x, threshold=1e-2) == 1


def test_numerical_rank_does_not_count_the_mean() -> None:
    x = flat_spectrum(2)
    assert measure.numerical_rank(x + 100 * torch.eye(12)[5]) == 2


def test_effective_rank_of_float32_features_without_full_rank_has_no_noise_floor() -> None:
    x = features(2000, 3).float() @ torch.randn(3, 200)
    exact = x.double() - x.double().mean(0)
    share = torch.linalg.svdvals(exact).square()
    share = share / share.sum()
    moments = measure.Moments(200)
    for part in x.split(128):
        moments.update(part)
    assert measure.effective_rank_of(moments.spectrum()) == pytest.approx(
        float(torch.special.entr(share).sum()), rel=1e-7
    )


def test_spectrum_is_the_eigenvalues_of_the_covariance() -> None:
    x = features(dtype=torch.float64)
    want = torch.linalg.eigvalsh(torch.cov(x.T, correction=0)).flip(0)
    torch.testing.assert_close(measure.spectrum(x), want)
    torch.testing.assert_close(measure.Moments.of(x).spectrum(), want)


def test_spectrum_of_fewer_samples_than_features_has_one_value_a_sample() -> None:
    x = features(6, 20, dtype=torch.float64)
    assert measure.spectrum(x).shape == measure.Moments.of(x).spectrum().shape == (6,)


def test_matrix_rank_counts_singular_values_relative_to_the_first() -> None:
    x = torch.diag(torch.tensor([10.0, 0.6, 0.4]))
    assert measure.matrix_rank(x) == 2
    assert measure.matrix_rank(x, relative=0.01) == 3
    assert measure.matrix_rank(torch.zeros(3, 3)) == 0


def test_feature_maps_are_read_as_one_row_a_sample() -> None:
    x = torch.randn(40, 3, 2, 2)
    assert measure.effective_rank(x) == measure.effective_rank(x.flatten(1))


@pytest.mark.parametrize("n", [0, 1])
def test_too_few_samples_are_named(n: int) -> None:
    with pytest.raises(ValueError, match=f"at least 2 samples, got {n}"):
        measure.numerical_rank(torch.zeros(n, 3))


@pytest.mark.parametrize(
    ("x", "word"), [(torch.zeros(3), "3,"), (torch.zeros(3, 2).long(), "int64"), (torch.zeros(3, 0), "no features")]
)
def test_what_is_not_features_is_named(x: torch.Tensor, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        measure.numerical_rank(x)


def test_a_value_keeps_its_note_when_copied_and_pickled() -> None:
    import copy
    import pickle

    value = measure.missing("why")
    assert copy.deepcopy(value).note == pickle.loads(pickle.dumps(value)).note == "why"
