"""Class structure, distances, norms, alignment and weight change against closed forms."""

import math

import pytest
import torch
from references import features, labels, nc1

from winze import measure


def simplex(classes: int = 4, each: int = 5) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Features in full collapse: every sample on its class mean, the means a simplex; and the matching weight."""
    arms = torch.eye(classes, dtype=torch.float64) - 1 / classes
    y = torch.arange(classes).repeat(each)
    return arms[y] + 3, y, 7 * arms


def test_full_collapse_reads_zero_by_every_sign() -> None:
    x, y, weight = simplex()
    signs = measure.neural_collapse(x, y, weight, (x - 3) @ weight.T)
    assert list(signs) == pytest.approx([0] * 5, abs=1e-12)


def test_full_collapse_of_unbalanced_classes_reads_zero_too() -> None:
    x, y, weight = simplex()
    signs = measure.neural_collapse(torch.cat([x, x[:1].repeat(9, 1)]), torch.cat([y, y[:1].repeat(9)]), weight)
    assert list(signs[:4]) == pytest.approx([0] * 4, abs=1e-12)


def test_the_nearest_mean_is_nearest_by_distance_and_has_samples() -> None:
    x, y = features(offset=3.0), labels() + 1
    moments = measure.Moments.of(x, y)
    means = torch.stack([x[y == c].double().mean(0) for c in range(1, 6)])
    want = torch.cdist(x.double(), means).argmin(1) + 1
    assert measure.nearest_mean(x, moments).tolist() == want.tolist()


def test_nc3_is_four_for_a_classifier_that_points_the_other_way() -> None:
    x, y, weight = simplex()
    assert measure.neural_collapse(x, y, -weight).nc3 == pytest.approx(4)


def test_nc4_is_the_share_of_samples_where_classifier_and_nearest_mean_differ() -> None:
    x, y, weight = simplex()
    logits = (x - 3) @ weight.T
    logits[:3] = logits[:3].roll(1, dims=1)
    assert measure.neural_collapse(x, y, logits=logits).nc4 == pytest.approx(3 / 20)


def test_nc2_sees_one_arm_that_is_longer_and_angles_that_are_not_those_of_a_simplex() -> None:
    means = torch.tensor([[2.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]]).double()
    means[1, 1], means[2, 1] = 1.0, -1.0
    arms = means - means.mean(0)
    norms = arms.norm(dim=1)
    cosine = torch.nn.functional.cosine_similarity(arms[:, None], arms[None], dim=2)
    signs = measure.neural_collapse(means.repeat(4, 1), torch.arange(3).repeat(4))
    assert signs.nc2_norm == pytest.approx(float(norms.std(correction=0) / norms.mean()))
    off = [abs(float(cosine[i, j]) + 0.5) for i in range(3) for j in range(3) if i != j]
    assert signs.nc2_angle == pytest.approx(sum(off) / 6)


def test_nc1_stays_small_when_classes_are_nearly_balanced() -> None:
    x, y, _ = simplex(4, 50)
    x = x + 0.01 * torch.randn(x.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    balanced, nearly = measure.neural_collapse(x, y).nc1, measure.neural_collapse(x[:-1], y[:-1]).nc1
    assert nearly == pytest.approx(balanced, rel=0.05)


@pytest.mark.parametrize(("classes", "width"), [(2, 1), (2, 40), (5, 40), (12, 5), (12, 12), (30, 29)])
def test_nc1_is_that_of_the_pseudoinverse_however_many_classes_there_are(classes: int, width: int) -> None:
    draw = torch.Generator().manual_seed(classes)
    y = torch.arange(20 * classes) % classes
    means = torch.logspace(-2, 1, classes, dtype=torch.float64)[:, None]
    means = means * torch.randn(classes, width, dtype=torch.float64, generator=draw)
    x = means[y] + torch.randn(len(y), width, dtype=torch.float64, generator=draw)
    assert measure.neural_collapse(x, y).nc1 == pytest.approx(nc1(x, y), rel=1e-7)


def test_signs_that_lack_their_input_say_so() -> None:
    x, y, _ = simplex()
    signs = measure.neural_collapse(x, y)
    assert math.isnan(signs.nc3)
    assert "weight" in signs.nc3.note
    assert math.isnan(signs.nc4)
    assert "logits" in signs.nc4.note


@pytest.mark.parametrize("read", [measure.class_variance, measure.neural_collapse])
def test_one_class_is_an_error_that_names_the_count(read: measure.class_variance) -> None:  # type: ignore[valid-type]
    with pytest.raises(ValueError, match="at least 2 classes, got 1 in 8 samples"):
        read(features(8, 3), torch.ones(8, dtype=torch.long))


def test_classes_without_samples_do_not_count() -> None:
    x, y = features(), labels()
    near, far = measure.class_variance(x, y), measure.class_variance(x, 3 * y + 2)
    assert list(near) == pytest.approx(list(far))


def test_class_variance_of_two_points_and_their_noise() -> None:
    x = torch.tensor([[0.0, 1.0], [0.0, -1.0], [4.0, 2.0], [4.0, -2.0]])
    assert measure.class_variance(x, torch.tensor([0, 0, 1, 1])) == (2.5, 16.0)


def test_class_variance_weighs_classes_and_not_samples() -> None:
    x = torch.tensor([[1.0], [-1.0], [1.0], [-1.0], [12.0], [8.0]])
    assert measure.class_variance(x, torch.tensor([0, 0, 0, 0, 1, 1])).intra == pytest.approx((1 + 4) / 2)


def test_distances_are_means_over_samples() -> None:
    x, y = torch.zeros(2, 2), torch.tensor([[3.0, 4.0], [0.0, 1.0]])
    assert measure.euclidean_distance(x, y) == pytest.approx(3)
    assert measure.l1_distance(x, y) == pytest.approx(4)


@pytest.mark.parametrize("order", [1, 2])
def test_distances_of_all_pairs_gathered_in_ragged_batches_are_those_of_the_whole(order: int) -> None:
    xs = [features(50, 6, seed=s) for s in range(3)] + [features(50, 4)]
    parts, other = measure.Distances(4, order), measure.Distances(4, order)
    parts.update([x[:20] for x in xs]).update([x[20:37] for x in xs])
    matrix = parts.merge(other.update([x[37:] for x in xs])).matrix()
    assert float(matrix[0, 2]) == pytest.approx(
        float((xs[0].double() - xs[2].double()).norm(p=order, dim=1).mean()), rel=1e-10
    )
    torch.testing.assert_close(matrix, measure.distances(xs, order), equal_nan=True)
    assert torch.equal(matrix[:3, :3], matrix[:3, :3].T)
    assert matrix.diagonal().tolist() == [0.0] * 4
    assert bool(matrix[3, :3].isnan().all())


def test_a_small_step_far_from_the_origin_keeps_its_length() -> None:
    x = torch.full((3, 4), 1000.0)
    assert measure.euclidean_distance(x, x + 0.25) == 0.5


def test_places_of_different_samples_have_no_distance() -> None:
    with pytest.raises(ValueError, match=r"\[3, 4\] samples"):
        measure.distances([torch.zeros(3, 2), torch.zeros(4, 2)])


def test_weight_norms_are_frobenius_norms_of_floating_tensors() -> None:
    state = {"w": torch.tensor([[3.0, 4.0]]), "steps": torch.tensor(7)}
    assert measure.weight_norms(state) == {"w": 5.0}


def test_weight_change_is_the_root_mean_square_per_weight() -> None:
    before = {"w": torch.zeros(2, 3), "b": torch.ones(2).bfloat16(), "steps": torch.tensor(1)}
    after = {"w": torch.full((2, 3), 0.25), "b": torch.ones(2).bfloat16(), "steps": torch.tensor(9)}
    assert measure.weight_change(before, after) == {"w": 0.25, "b": 0.0}


@pytest.mark.parametrize(
    ("after", "why"), [({"v": torch.zeros(2)}, r"\['v', 'w'\]"), ({"w": torch.zeros(3)}, r"w: shape \(2,\) before")]
)
def test_state_dicts_of_different_networks_are_refused(after: dict[str, torch.Tensor], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        measure.weight_change({"w": torch.zeros(2)}, after)


def aligned_pair(top: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    """A weight that reads exactly the directions of its features, in their order of size."""
    turn = torch.linalg.qr(torch.randn(10, 10, dtype=torch.float64))[0]
    sizes = torch.linspace(3, 1, 10, dtype=torch.float64)
    left = torch.linalg.qr(torch.randn(40, 10, dtype=torch.float64))[0]
    out = torch.linalg.qr(torch.randn(12, 10, dtype=torch.float64))[0]
    return out * sizes @ turn, left * sizes @ turn


def test_a_weight_that_reads_its_input_directions_in_order_is_aligned() -> None:
    found = measure.alignment(*aligned_pair(), top=6)
    torch.testing.assert_close(found.matrix, torch.eye(6, dtype=torch.float64), atol=1e-6, rtol=0)
    assert (found.diagonal, found.subspace) == pytest.approx((1, 1))


def test_a_weight_that_reads_them_in_reverse_shares_the_subspace_but_not_the_diagonal() -> None:
    weight, x = aligned_pair()
    u, _, v = torch.linalg.svd(weight, full_matrices=False)
    reverse = u * torch.linspace(1, 3, 10, dtype=torch.float64) @ v
    found = measure.alignment(reverse, x, top=10)
    assert found.subspace == pytest.approx(1)
    assert found.diagonal == pytest.approx(0, abs=1e-6)


def test_alignment_from_moments_is_alignment_from_features() -> None:
    weight, x = torch.randn(7, 20), features(offset=2.0)
    moments = measure.Moments(20)
    for part in x.split(64):
        moments.update(part)
    u = torch.linalg.svd(x.double(), full_matrices=False)[2][:5]
    v = torch.linalg.svd(weight.double(), full_matrices=False)[2][:5]
    found = measure.alignment_of(weight, moments, top=5)
    torch.testing.assert_close(found.matrix, (v @ u.T).abs(), atol=1e-8, rtol=0)
    assert found.diagonal == pytest.approx(measure.alignment(weight, x, top=5).diagonal)


def test_fewer_directions_than_asked_for_are_said() -> None:
    found = measure.alignment(torch.randn(4, 20), features())
    assert found.matrix.shape == (4, 4)
    assert found.diagonal.note == "top 4 of 15 asked for"
    assert "all 0" in measure.alignment(torch.zeros(4, 20), features()).subspace.note


def test_a_weight_of_another_width_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a weight of out x 20"):
        measure.alignment(torch.randn(4, 19), features())
