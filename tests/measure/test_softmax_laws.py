"""Propositions P1 to P7 on softmax, rank and alignment; matrices have samples as columns."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from winze.measure import aligned_norm, alignment, column_softmax, singular_gap, singular_gap_bound

quick = settings(max_examples=40, derandomize=True)
seeds = st.integers(0, 10**6)
sizes = st.integers(2, 20)
scales = st.floats(-2, 4).map(lambda exponent: 10**exponent)


def drawn(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@quick
@given(seed=seeds, n=st.sampled_from([5, 10, 20, 50]))
def test_p1_a_matrix_of_rank_two_has_a_softmax_of_full_rank(seed, n):
    angles = 2 * math.pi * torch.rand(n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    rows = torch.stack([angles.cos(), angles.sin()], 1)
    plane = rows @ rows.T
    assert torch.linalg.matrix_rank(plane) == 2
    nearest = (plane - 2 * torch.eye(n)).max()
    c = 40 / max(1e-9, float(1 - nearest))  # so large that every row's own entry wins
    torch.testing.assert_close(column_softmax(plane, c), torch.eye(n, dtype=torch.float64), rtol=0, atol=1e-9)
    assert torch.linalg.matrix_rank(column_softmax(plane, c)) == n


@quick
@given(seed=seeds, n=sizes, scale=scales)
def test_p2_inner_products_of_columns_bound_the_gap_of_singular_values(seed, n, scale):
    columns = column_softmax(drawn(seed, n, n), scale)
    assert -1e-12 <= singular_gap(columns) <= singular_gap_bound(columns) + 1e-9


@quick
@given(n=sizes)
def test_p2_is_tight_at_both_ends(n):
    equal = torch.zeros(n, n, dtype=torch.float64)
    equal[0] = 1
    torch.testing.assert_close(singular_gap_bound(equal), singular_gap(equal))
    torch.testing.assert_close(singular_gap(equal), torch.tensor(math.sqrt(n), dtype=torch.float64))
    assert singular_gap(torch.eye(n)) == 0


def test_p2_would_see_a_bound_that_is_too_low():
    """Columns that are no probabilities break it, so the law does say something."""
    matrix = torch.tensor([[3.0, 0.0], [0.0, 0.1]])
    assert singular_gap(matrix) > singular_gap_bound(matrix)


@quick
@given(seed=seeds, n=sizes)
def test_p3_at_high_temperature_columns_are_uniform(seed, n):
    soft = column_softmax(torch.outer(drawn(seed, n).sin(), drawn(seed + 1, n).sin()), 1e-12)
    torch.testing.assert_close(soft, torch.full_like(soft, 1 / n), rtol=0, atol=1e-11)


@quick
@given(seed=seeds, n=sizes)
def test_p3_at_low_temperature_the_largest_entries_are_left_and_their_rank_is_two_at_most(seed, n):
    outer = torch.outer(drawn(seed, n).sin(), drawn(seed + 1, n).sin())
    top = outer.topk(2, dim=0).values
    one_hot = F.one_hot(outer.argmax(0), n).T.double()
    soft = column_softmax(outer, 40 / float((top[0] - top[1]).min()))
    torch.testing.assert_close(soft, one_hot, rtol=0, atol=1e-9)
    assert torch.linalg.matrix_rank(one_hot) <= 2


@quick
@given(seed=seeds, out=sizes, inner=sizes, samples=sizes)
def test_p4_no_product_is_larger_than_that_of_aligned_factors(seed, out, inner, samples):
    weight, features = drawn(seed, out, inner), drawn(seed + 1, inner, samples)
    product = weight @ features
    assert torch.linalg.matrix_norm(product) <= aligned_norm(weight, features) * (1 + 1e-12)
    assert torch.linalg.matrix_norm(product, 2) <= (
        torch.linalg.matrix_norm(weight, 2) * torch.linalg.matrix_norm(features, 2) * (1 + 1e-12)
    )


@quick
@given(seed=seeds, n=sizes)
def test_p4_turning_the_features_to_what_the_weight_reads_attains_the_bound(seed, n):
    weight, features = drawn(seed, n, n), drawn(seed + 1, n, n)
    _, strength, right = torch.linalg.svd(features)
    turned = torch.linalg.svd(weight)[2].T @ (strength[:, None] * right)
    torch.testing.assert_close(torch.linalg.matrix_norm(weight @ turned), aligned_norm(weight, features))
    assert alignment(weight, turned.T, top=n).diagonal > 1 - 1e-5


@quick
@given(seed=seeds, n=st.integers(2, 10), depth=st.integers(2, 8))
def test_p5_of_aligned_layers_the_largest_singular_values_multiply(seed, n, depth):
    product, tops = torch.eye(n, dtype=torch.float64), []
    for layer in range(depth):
        weight = drawn(seed + layer, n, n)
        tops.append(float(torch.linalg.matrix_norm(weight, 2)))
        own, strength, _ = torch.linalg.svd(weight)
        product = (own * strength) @ torch.linalg.svd(product)[0].T @ product
    grown = float(torch.linalg.matrix_norm(product, 2))
    assert grown == pytest.approx(math.prod(tops), rel=1e-9)
    assert grown >= min(tops) ** depth * (1 - 1e-9)


@quick
@given(seed=seeds, n=sizes, temperature=st.floats(1e2, 1e6))
def test_p6_at_high_temperature_loss_and_gradient_forget_the_logits(seed, n, temperature):
    logits = drawn(seed, 1, n).requires_grad_()
    label = torch.tensor([seed % n])
    loss = F.cross_entropy(logits / temperature, label)
    (slope,) = torch.autograd.grad(loss, logits)
    reach = 2 * float(logits.detach().abs().max()) / temperature
    assert abs(float(loss.detach()) - math.log(n)) <= reach
    expected = 1 / n - F.one_hot(label, n).double()
    assert float((temperature * slope - expected).abs().max()) <= reach


@quick
@given(seed=seeds, n=sizes, temperature=st.floats(0.1, 1e3))
def test_p7_cross_entropy_has_no_gradient_along_a_common_shift(seed, n, temperature):
    logits = drawn(seed, 6, n).requires_grad_()
    labels = torch.arange(6) % n
    (slope,) = torch.autograd.grad(F.cross_entropy(logits / temperature, labels), logits)
    torch.testing.assert_close(slope.sum(1), torch.zeros(6, dtype=torch.float64), rtol=0, atol=1e-14)
    assert torch.linalg.matrix_rank(slope) <= n - 1
