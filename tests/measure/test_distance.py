"""Feature reuse, recurring maps and what is kept of the input, against NumPy and closed forms."""

import math

import numpy as np
import pytest
import torch
from references import features

from winze import measure


def line(*points: float) -> torch.Tensor:
    """The distances of places that lie on one line."""
    spots = torch.tensor(points, dtype=torch.float64)
    return (spots[:, None] - spots[None]).abs()


def test_a_stream_that_only_moves_on_reuses_nothing_and_is_monotone() -> None:
    onward = line(0, 1, 3, 4, 9, 10)
    assert measure.feature_reuse(onward) == 0
    assert measure.non_monotonicity(onward) == 0


def test_a_stream_that_goes_to_and_fro_reuses_everything() -> None:
    to_and_fro = line(0, 5, 0.1, 5.1, 0.2, 5.2)
    assert measure.feature_reuse(to_and_fro) == 1
    assert measure.non_monotonicity(to_and_fro) > 0.5


def test_reuse_counts_places_whose_nearest_earlier_one_is_far_before() -> None:
    # the nearest before 4 is place 1 (three back), the nearest before 5 is place 4, of 2 and 3 the one just before
    apart = line(0, 10, 20, 30, 11, 12)
    assert measure.feature_reuse(apart) == pytest.approx(1 / 4)
    assert measure.feature_reuse(apart, gap=3) == pytest.approx(1 / 3)
    assert measure.feature_reuse(apart, gap=4) == 0


def test_of_equally_near_places_the_latest_counts() -> None:
    assert measure.feature_reuse(line(0, 2, 1)) == 0


@pytest.mark.parametrize("seed", range(3))
def test_reuse_is_what_the_sentence_says(seed: int) -> None:
    """Closer to a far earlier place than to all those between: every pair is looked at."""
    table = measure.distances([features(50, 4, seed=10 * seed + i) for i in range(9)])
    told = [
        any(all(table[i, j] < table[k, j] for k in range(i + 1, j)) for i in range(j - 1)) for j in range(2, len(table))
    ]
    assert measure.feature_reuse(table) == pytest.approx(np.mean(told))


def test_non_monotonicity_is_the_share_of_falls_walking_away_from_each_place() -> None:
    table = measure.distances([features(50, 4, seed=i) for i in range(7)]).numpy()
    steps = [
        step
        for i in range(7)
        for walk in (table[i, i + 1 :], table[i, :i][::-1])
        for step in np.diff(walk)
    ]  # fmt: skip
    falls = -sum(step for step in steps if step < 0)
    assert measure.non_monotonicity(torch.from_numpy(table)) == pytest.approx(falls / np.abs(steps).sum())


@pytest.mark.parametrize("read", [measure.feature_reuse, measure.non_monotonicity])
def test_places_without_a_distance_read_nan_with_a_reason(read) -> None:
    value = read(measure.distances([features(9, 3), features(9, 4), features(9, 3)]))
    assert math.isnan(value)
    assert "width" in value.note


def test_equal_places_have_no_walk() -> None:
    value = measure.non_monotonicity(torch.zeros(4, 4))
    assert math.isnan(value)
    assert "equally far" in value.note


@pytest.mark.parametrize("read", [measure.feature_reuse, measure.non_monotonicity])
def test_too_few_places_are_an_error(read) -> None:
    with pytest.raises(ValueError, match="at least 3 places, got 2"):
        read(torch.zeros(2, 2))


def test_a_gap_without_a_place_between_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        measure.feature_reuse(line(0, 1, 2), gap=1)


def test_alike_nodes_are_those_whose_correlation_is_large() -> None:
    x = torch.randn(200, 6).double()
    x[:, 3] = -2 * x[:, 0] + 5
    x[:, 4] = x[:, 0] + 0.1 * x[:, 0].std() * x[:, 5] / x[:, 5].std()
    found = measure.alike_nodes(x)
    size = np.abs(np.corrcoef(x.numpy().T))[np.triu_indices(6, 1)]
    assert found.pairs == (size > 0.95).sum() == 3
    assert found.share == pytest.approx(3 / 15)
    assert found.groups == 4


def test_groups_are_connected_through_others() -> None:
    angles = torch.tensor([0.0, 0.3, 0.6, 1.57])  # cos .3 = .955: neighbours are alike, the first and third are not
    across = torch.linalg.qr(features(40, 2, seed=1).double() - features(40, 2, seed=1).double().mean(0))[0]
    nodes = across @ torch.stack([angles.cos(), angles.sin()]).double()
    found = measure.alike_nodes(nodes)
    assert (found.pairs, found.groups) == (2, 2)


def test_a_constant_node_is_like_no_other() -> None:
    x = torch.randn(50, 3)
    x[:, 1] = 7
    assert measure.alike_nodes(x).groups == 2
    assert math.isnan(measure.alike_nodes(torch.ones(50, 3)).pairs)
    assert "constant" in measure.alike_nodes(torch.ones(50, 3)).share.note


def test_a_map_recurs_where_an_earlier_place_shows_it_and_one_between_does_not() -> None:
    a, b, c, d = (column[:, None] for column in torch.randn(80, 4).double().T)
    assert measure.recurring_maps([a, b, -a]) == 1
    assert measure.recurring_maps([a, b, a + b]) == 0
    assert measure.recurring_maps([a, a, a]) == 0
    # of the third place one node of two comes again, of the fourth both: a and c, each with a gap
    pairs = [torch.cat(two, 1) for two in ((a, c), (b, d), (3 * a + 1, d), (c, a))]
    assert measure.recurring_maps(pairs) == pytest.approx(3 / 4)


@pytest.mark.parametrize("seed", range(2))
def test_recurring_maps_are_what_the_sentence_says(seed: int) -> None:
    """All triples of places are looked at, with NumPy's correlations."""
    draw = np.random.default_rng(seed)
    places = [draw.normal(size=(12, 5)) for _ in range(6)]
    told = []
    for last in range(2, 6):
        for node in range(5):
            best = [
                max(abs(np.corrcoef(places[last][:, node], other)[0, 1]) for other in places[k].T) for k in range(last)
            ]
            told.append(any(best[i] > 0.6 and best[k] < 0.5 for k in range(1, last) for i in range(k)))
    assert 0 < np.mean(told) < 1
    found = measure.recurring_maps([torch.from_numpy(place) for place in places], above=0.6, below=0.5)
    assert found == pytest.approx(np.mean(told))


def test_a_map_that_wavers_about_a_bound_does_not_recur() -> None:
    a, b = torch.linalg.qr(torch.randn(60, 2).double())[0].T[:, :, None]
    a, b = a - a.mean(), b - b.mean()
    near = 0.92 * a / a.norm() + 0.39 * b / b.norm()
    assert measure.recurring_maps([a, near, a]) == 0
    assert measure.recurring_maps([a, near, a], below=0.95) == 1


def test_two_places_cannot_recur_nor_bounds_cross() -> None:
    with pytest.raises(ValueError, match="at least 3 places"):
        measure.recurring_maps([features(9, 2), features(9, 2)])
    with pytest.raises(ValueError, match="must not be higher"):
        measure.recurring_maps([features(9, 2)] * 3, above=0.5)


@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_a_reconstruction_is_numpys_least_squares(offset: float) -> None:
    x, y = features(90, 6, offset, torch.float64), features(90, 3, seed=8).double()
    y[:, 0] += 2 * x[:, 1] - 200
    design = np.column_stack([x.numpy(), np.ones(90)])
    _, left, _, _ = np.linalg.lstsq(design, y.numpy(), rcond=None)
    whole = ((y - y.mean(0)) ** 2).sum()
    assert measure.linear_reconstruction(x, y) == pytest.approx(1 - left.sum() / float(whole), abs=1e-9)


def test_a_linear_map_keeps_all_and_one_direction_keeps_its_part() -> None:
    x = features(60, 2, dtype=torch.float64)
    assert measure.linear_reconstruction(x @ torch.randn(2, 7).double() + 3, x) == pytest.approx(1)
    x = torch.linalg.qr(x - x.mean(0))[0]
    x -= x.mean(0)
    assert measure.linear_reconstruction(x[:, :1], x) == pytest.approx(0.5)


def test_constant_features_reconstruct_nothing_and_say_so() -> None:
    value = measure.linear_reconstruction(torch.ones(20, 3), features(20, 2))
    assert math.isnan(value)
    assert "constant" in value.note
    assert "target" in measure.linear_reconstruction(features(20, 2), torch.ones(20, 3)).note
    with pytest.raises(ValueError, match="same samples"):
        measure.linear_reconstruction(features(20, 2), features(19, 2))
