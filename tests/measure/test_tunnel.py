"""The tunnel and its conventions."""

import math
import sys

import numpy as np
import pytest
import torch

from winze.measure import best_place, kappa, rho, tunnel, tunnel_start
from winze.place import Place

PLACES = [Place(i, 4, f"layer{i}") for i in range(4)]


def hits(*shares: float, n: int = 200) -> torch.Tensor:
    """Correctness of places with these accuracies, each right on its own random samples."""
    g = torch.Generator().manual_seed(0)
    return torch.stack([torch.randperm(n, generator=g) < round(share * n) for share in shares])


@pytest.mark.parametrize(
    ("curve", "reference", "threshold", "want"),
    [
        ([0.5, 0.94, 0.96, 1.0], 1.0, 0.95, 2),
        ([0.5, 0.95, 0.96, 1.0], 1.0, 0.95, 1),
        ([0.4508, 0.46], 0.46, 0.98, 0),  # as floats, 0.98 x 0.46 is above 0.4508
        ([0.5, 0.7, 0.6, 0.8], None, 0.95, 3),
        ([0.5, 0.6], 0.9, 0.95, None),
        ([math.nan, 0.9, 0.9], 0.9, 0.95, 1),
    ],
)
def test_the_start_is_the_first_place_that_reaches_the_threshold(
    curve: list[float], reference: float | None, threshold: float, want: int | None
) -> None:
    assert tunnel_start(curve, reference, threshold) == want


def test_runs_are_averaged_before_the_threshold() -> None:
    runs = np.array([[1.0, 0.8, 1.0], [0.0, 1.0, 1.0]])
    assert tunnel_start(runs, 1.0, 0.9) == 1
    assert tunnel_start(torch.tensor(runs), 1.0, 0.95) == 2


def test_a_tunnel_keeps_its_start_and_counts_from_one() -> None:
    found = tunnel(PLACES, hits(0.5, 0.97, 1.0, 1.0))
    assert found.start == PLACES[1]
    assert found.share == 0.5
    assert found.accuracy == pytest.approx(0.97)
    assert (found.threshold, found.reference, found.reason) == (0.95, 1.0, "")


def test_a_tunnel_of_some_places_has_the_share_of_the_whole_network() -> None:
    assert tunnel(PLACES[1:3], hits(0.99, 1.0)).share == 0.5


def test_a_tunnel_that_no_place_reaches_is_none_with_the_reason() -> None:
    found = tunnel(PLACES, hits(0.2, 0.5, 0.6, 0.55), reference=0.9)
    assert found.start is None
    assert math.isnan(found.share)
    assert found.reason == "no place reaches 0.95 x 0.9000; the best, 'layer2', has 0.6000"
    assert found.high is None


def test_clear_steps_have_an_interval_of_one_place() -> None:
    found = tunnel(PLACES, hits(0.3, 0.5, 1.0, 1.0))
    assert found.low == found.start == found.high == PLACES[2]


def test_a_place_on_the_threshold_widens_the_interval() -> None:
    found = tunnel(PLACES, hits(0.5, 0.94, 0.96, 1.0))
    assert (found.low, found.high) == (PLACES[1], PLACES[3])


def test_places_that_err_on_the_same_samples_as_the_network_have_a_narrower_interval() -> None:
    right = hits(0.5)[0]
    alike = torch.stack([hits(0.2)[0] & right, right, right, right])
    known = tunnel(PLACES, alike, right, threshold=0.99)
    fixed = tunnel(PLACES, alike, 0.5, threshold=0.99)
    assert known.low == known.high == PLACES[1]
    assert fixed.high is None


def test_several_runs_share_the_resample() -> None:
    runs = torch.stack([hits(0.5, 0.97, 1.0, 1.0), hits(0.5, 0.91, 1.0, 1.0)])
    assert tunnel(PLACES, runs, runs[:, 3]).start == PLACES[2]


def test_the_same_seed_gives_the_same_interval() -> None:
    right = hits(0.5, 0.94, 0.96, 1.0)
    assert tunnel(PLACES, right, resamples=50, seed=3) == tunnel(PLACES, right, resamples=50, seed=3)


def test_kappa_is_the_share_of_depth_to_the_first_place_near_the_best() -> None:
    assert kappa([0.5, 0.9, 0.991, 1.0]) == 0.75
    assert kappa([0.5, 0.96, 0.991, 1.0], eta=0.95) == 0.5
    assert kappa([1.0, 0.2]) == 0.5


def test_rho_is_the_share_of_the_best_that_the_last_place_loses() -> None:
    assert rho([0.4, 0.8, 0.6]) == pytest.approx(0.25)
    assert rho([0.4, 0.8]) == 0
    assert math.isnan(rho([0.0, 0.0]))


def test_the_best_place_is_the_earliest_of_equals() -> None:
    assert best_place(PLACES, [0.1, 0.7, math.nan, 0.7]) == PLACES[1]


@pytest.mark.parametrize("read", [tunnel_start, kappa, rho])
@pytest.mark.parametrize("curve", [[], [math.nan, math.nan]])
def test_a_curve_without_numbers_is_refused(read: object, curve: list[float]) -> None:
    with pytest.raises(ValueError, match="expected values by place"):
        read(curve)  # type: ignore[operator]


@pytest.mark.parametrize("threshold", [0.0, -1.0, 1.5, math.nan])
def test_a_threshold_that_is_no_share_is_refused(threshold: float) -> None:
    with pytest.raises(ValueError, match="threshold above 0 and of at most 1"):
        tunnel_start([0.5, 1.0], threshold=threshold)
    with pytest.raises(ValueError, match="threshold above 0 and of at most 1"):
        tunnel(PLACES, hits(0.5, 0.6, 0.7, 1.0), threshold=threshold)


def test_curves_and_references_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="correctness of 4 places"):
        tunnel(PLACES, hits(0.5, 1.0))
    with pytest.raises(ValueError, match="does not fit"):
        tunnel(PLACES, hits(0.5, 0.6, 0.7, 1.0), torch.ones(7, dtype=torch.bool))
    with pytest.raises(ValueError, match="finite reference"):
        tunnel_start([0.5], math.nan)
    with pytest.raises(ValueError, match="3 values for 4 places"):
        best_place(PLACES, [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="eta"):
        kappa([0.5, 0.6], eta=1.2)


@pytest.mark.parametrize("most", [1, 3, 1000])
def test_resamples_drawn_together_are_those_drawn_one_by_one(most, monkeypatch) -> None:
    monkeypatch.setattr(sys.modules["winze.measure.tunnel"], "AT_ONCE", most)
    places = [Place(i, 6, str(i)) for i in range(6)]
    chance = torch.rand(7, 100, generator=torch.Generator().manual_seed(0))
    correct = chance < torch.tensor([0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.92])[:, None]
    rng, starts = np.random.default_rng(3), []
    for _ in range(200):
        share = correct.double().numpy()[:, rng.integers(0, 100, 100)].mean(1)
        starts.append(next((i for i in range(6) if share[i] >= 0.9 * share[6] - 1e-9), 6))
    low, high = np.quantile(starts, [0.025, 0.975], method="inverted_cdf").astype(int)
    found = tunnel(places, correct[:6], correct[6], 0.9, resamples=200, seed=3)
    assert low < high
    assert [found.low, found.high] == [places[i] if i < 6 else None for i in (low, high)]
