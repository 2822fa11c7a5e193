"""CKA: its laws, its accumulator, and the bugs others have."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from references import cka, features, gram
from references import hsic1 as ref_hsic1
from torch import Tensor

from winze.measure import CKA, hsic1, linear_cka, minibatch_cka

Places = list[Tensor]


def places(n: int = 200, offset: float = 0.0, dtype: torch.dtype = torch.float32) -> Places:
    """Three related places, the last with more features than a batch has samples."""
    x = features(n, 12, offset, torch.float64)
    y = torch.tanh((x - x.mean(0)) @ torch.randn(12, 9, generator=torch.Generator().manual_seed(1)).double())
    z = torch.cat([x, y], 1) @ torch.randn(21, 70, generator=torch.Generator().manual_seed(2)).double()
    return [x.to(dtype), (y + offset * y.std(0)).to(dtype), (z + offset * z.std(0)).to(dtype)]


def gathered(tensors: Places, sizes: list[int], **options: bool | int) -> CKA:
    accumulator = CKA(len(tensors), **options)  # type: ignore[arg-type]
    for batch in zip(*(tensor.split(sizes) for tensor in tensors), strict=True):
        accumulator.update(list(batch))
    return accumulator


@pytest.mark.parametrize("offset", [0, 10, 100])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("unbiased", [True, False])
def test_all_pairs_agree_with_float64_at_any_offset(offset: float, dtype: torch.dtype, unbiased: bool) -> None:
    xs = places(offset=offset, dtype=dtype)
    sizes = [50, 50, 50, 45, 5]
    matrix = gathered(xs, sizes, unbiased=unbiased).matrix()
    for i, j in itertools.product(range(3), repeat=2):
        want = cka(list(xs[i].split(sizes)), list(xs[j].split(sizes)), unbiased)
        assert float(matrix[i, j]) == pytest.approx(want, abs=1e-9)


@pytest.mark.parametrize("unbiased", [True, False])
def test_one_batch_is_the_full_cka(unbiased: bool) -> None:
    xs = places()
    matrix = gathered(xs, [200], unbiased=unbiased).matrix()
    assert float(matrix[0, 2]) == pytest.approx(linear_cka(xs[0], xs[2], unbiased), abs=1e-12)


def test_features_and_gram_form_agree() -> None:
    x, y = features(30, 5), features(30, 200, seed=3)
    assert linear_cka(x, y) == pytest.approx(cka([x], [y], unbiased=False), abs=1e-12)
    assert linear_cka(y, x) == pytest.approx(linear_cka(x, y), abs=1e-12)


def test_cka_with_a_rotated_and_scaled_self_is_one_but_not_with_a_stretched_one() -> None:
    x = features(dtype=torch.float64)
    turn = torch.linalg.qr(torch.randn(20, 20, dtype=torch.float64))[0]
    assert linear_cka(x, -3 * x @ turn) == pytest.approx(1)
    assert linear_cka(x, x @ torch.randn(20, 20, dtype=torch.float64)) < 0.95


def test_hsic1_is_the_mean_over_all_quadruples() -> None:
    x, y = features(7, 3, dtype=torch.float64), features(7, 4, dtype=torch.float64, seed=5)
    k, l = x @ x.T, y @ y.T  # noqa: E741
    parts = [hsic1(k[s][:, s], l[s][:, s]) for s in map(list, itertools.combinations(range(7), 4))]
    assert sum(parts) / len(parts) == pytest.approx(hsic1(k, l), rel=1e-10)
    assert hsic1(k, l) == pytest.approx(ref_hsic1(k.numpy(), l.numpy()), rel=1e-12)


def test_the_accumulated_hsic_is_hsic1() -> None:
    xs = places()
    want = ref_hsic1(gram(xs[0]), gram(xs[1]))
    assert float(gathered(xs, [200]).hsic()[0, 1]) == pytest.approx(want, rel=1e-10)


def test_a_negative_unbiased_estimate_is_not_clamped() -> None:
    g = torch.Generator().manual_seed(3)
    values = [float(minibatch_cka(*torch.randn(2, 24, 6, generator=g), batch=8)) for _ in range(20)]
    assert min(values) < -0.01
    assert max(values) > 0.01


def test_every_batch_counts_and_not_the_last_alone() -> None:
    xs = places()
    whole = gathered(xs, [50] * 4).matrix()
    assert (whole - gathered([x[150:] for x in xs], [50]).matrix()).abs().max() > 1e-3
    flipped = gathered([x.flip(0) for x in xs], [50] * 4).matrix()
    torch.testing.assert_close(whole, flipped)


@pytest.mark.parametrize("last", [1, 2, 3])
@pytest.mark.parametrize("unbiased", [True, False])
def test_a_last_batch_of_a_few_samples_is_filled_from_the_one_before_and_weighs_its_own_number(
    last: int, unbiased: bool
) -> None:
    xs = places(100 + last)
    accumulator = gathered(xs, [50, 50, last], unbiased=unbiased)
    got = accumulator.matrix()[0, 1]
    total = accumulator.hsic()[0, 1] * (100 + last)
    first = gathered([x[:100] for x in xs], [50, 50], unbiased=unbiased).hsic()[0, 1] * 100
    four = gathered([x[-4:] for x in xs], [4], unbiased=unbiased).hsic()[0, 1] * last
    assert math.isfinite(got)
    assert float(total) == pytest.approx(float(first + four), rel=1e-9)


def test_asking_in_the_middle_of_the_stream_changes_nothing() -> None:
    xs = places(103)
    asked = CKA(3)
    for batch in zip(*(x.split([50, 2, 51]) for x in xs), strict=True):
        asked.update(list(batch)).matrix()
    torch.testing.assert_close(asked.matrix(), gathered(xs, [50, 53]).matrix())


@settings(max_examples=30)
@given(sizes=st.lists(st.integers(0, 9), min_size=1, max_size=6), at=st.integers(0, 6))
def test_samples_that_come_one_by_one_join_the_next_batch(sizes: list[int], at: int) -> None:
    n = sum(sizes)
    xs = [x[:n] for x in places(60)]
    accumulator = gathered(xs, sizes)
    assert accumulator.n == n
    if n < 4:
        with pytest.raises(ValueError, match=f"at least 4 samples, got {n}"):
            accumulator.matrix()
        return
    joined, waiting = [], 0
    for size in sizes:
        waiting += size
        if waiting >= 4:
            joined.append(waiting)
            waiting = 0
    if not waiting:
        torch.testing.assert_close(accumulator.matrix(), gathered(xs, joined).matrix())
    cut = sum(sizes[:at])
    halves = gathered([x[:cut] for x in xs], sizes[:at] or [0])
    halves.merge(gathered([x[cut:] for x in xs], sizes[at:] or [0]))
    assert halves.n == n
    assert bool(torch.isfinite(halves.matrix()).all())


@settings(max_examples=25)
@given(at=st.integers(0, 5))
def test_two_halves_merged_equal_the_whole(at: int) -> None:
    xs, sizes = places(100), [20, 20, 20, 20, 20]
    halves = gathered([x[: 20 * at] for x in xs], sizes[:at] or [0])
    halves.merge(gathered([x[20 * at :] for x in xs], sizes[at:] or [0]))
    torch.testing.assert_close(halves.matrix(), gathered(xs, sizes).matrix())


def test_constant_places_read_nan_on_the_diagonal_too_and_leave_the_others_alone() -> None:
    xs = places()
    accumulator = gathered([*xs, torch.full((200, 4), 0.1)], [50] * 4)
    matrix = accumulator.matrix()
    assert bool(matrix[3].isnan().all())
    assert bool(matrix[:, 3].isnan().all())
    torch.testing.assert_close(matrix[:3, :3], gathered(xs, [50] * 4).matrix())
    assert [bool(note) for note in accumulator.notes()] == [False, False, False, True]
    assert "constant" in accumulator.notes()[3]


def test_a_place_that_varies_by_rounding_only_has_no_hsic_at_all() -> None:
    still = torch.full((200, 4), 3.0)
    still[::2] = torch.nextafter(still[::2], torch.tensor(4.0))
    accumulator = gathered([*places(), still], [50] * 4)
    assert accumulator.hsic()[3].tolist() == [0.0] * 4
    assert "constant" in accumulator.notes()[3]


def test_broken_samples_mark_their_place_and_leave_the_others_alone() -> None:
    xs = places()
    xs[1][7, 0] = torch.inf
    accumulator = gathered(xs, [50] * 4)
    assert bool(accumulator.matrix()[1].isnan().all())
    assert not bool(accumulator.matrix()[[0, 2]][:, [0, 2]].isnan().any())
    assert accumulator.notes() == ["", "1 of 200 samples hold NaN or inf", ""]


def test_samples_that_are_all_equally_far_apart_have_no_unbiased_cka() -> None:
    assert "no structure" in minibatch_cka(torch.eye(6), features(6, 3), batch=6).note
    assert "no structure" in linear_cka(torch.eye(6), features(6, 3), unbiased=True).note


@pytest.mark.parametrize("unbiased", [True, False])
def test_the_diagonal_is_exactly_one(unbiased: bool) -> None:
    assert gathered(places(), [64, 64, 72], unbiased=unbiased).matrix().diagonal().tolist() == [1.0] * 3


def test_two_networks_give_a_rectangle_of_the_square() -> None:
    xs = places()
    square = gathered(xs, [100, 100]).matrix()
    accumulator = CKA(1, 2)
    for a, b, c in zip(*(x.split(100) for x in xs), strict=True):
        accumulator.update([a], [b, c])
    torch.testing.assert_close(accumulator.matrix(), square[:1, 1:])
    assert len(accumulator.notes()) == 3


def test_features_fed_place_by_place_may_be_overwritten_afterwards() -> None:
    xs = places(103)
    want = gathered(xs, [50, 50, 3]).matrix()
    accumulator = CKA(3)
    for batch in zip(*(x.split([50, 50, 3]) for x in xs), strict=True):
        for index in (2, 0, 1):
            features = batch[index].clone()
            accumulator.place(index, features)
            features.zero_()
        accumulator.close_batch()
    torch.testing.assert_close(accumulator.matrix(), want)


def test_a_large_batch_is_cut_into_equal_pieces() -> None:
    xs = places()
    torch.testing.assert_close(gathered(xs, [200], largest=60).matrix(), gathered(xs, [50] * 4).matrix())


def test_a_dropped_batch_leaves_no_trace() -> None:
    xs = places()
    accumulator = gathered([x[:100] for x in xs], [100])
    with pytest.raises(ValueError, match="place 1: 99 samples in a batch of 100"):
        accumulator.update([xs[0][100:], xs[1][101:], xs[2][100:]])
    accumulator.update([x[100:] for x in xs])
    torch.testing.assert_close(accumulator.matrix(), gathered(xs, [100, 100]).matrix())


def test_a_batch_in_inference_mode_can_be_followed_by_one_outside() -> None:
    xs = places()
    accumulator = CKA(3)
    with torch.inference_mode():
        accumulator.update([x[:100].clone() for x in xs])
    accumulator.update([x[100:] for x in xs])
    torch.testing.assert_close(accumulator.matrix(), gathered(xs, [100, 100]).matrix())


def test_no_features_are_kept_beyond_three_samples_a_place() -> None:
    accumulator = gathered(places(), [50] * 4)
    assert [tuple(tail.shape) for tail in accumulator._tail] == [(3, 12), (3, 9), (3, 70)]
    assert not accumulator._held


def test_misuse_is_named() -> None:
    x = features(10, 3)
    accumulator = CKA(2)
    accumulator.place(0, x)
    with pytest.raises(ValueError, match="place 0 of 2 came twice"):
        accumulator.place(0, x)
    with pytest.raises(ValueError, match="place 2 of 2 is unknown"):
        accumulator.place(2, x)
    with pytest.raises(ValueError, match=r"without places \[1\]"):
        accumulator.close_batch()
    with pytest.raises(ValueError, match="expected 2 and 0 places, got 1, 0"):
        accumulator.update([x])
    with pytest.raises(ValueError, match="same samples"):
        linear_cka(x, x[1:])
    with pytest.raises(ValueError, match="at least 4 samples, got 3"):
        linear_cka(x[:3], x[:3], unbiased=True)
    with pytest.raises(ValueError, match="few: CKA needs at least 4 samples, got 3"):
        CKA(1, name="few").update([x[:3]]).matrix()
    with pytest.raises(ValueError, match="at least 4 samples, got 3"):
        hsic1(torch.eye(3), torch.eye(3))
    with pytest.raises(ValueError, match="another estimator"):
        CKA(2).merge(CKA(2, unbiased=False))


def wide(offset: float, scale: float = 1.0) -> list[torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    hidden = torch.randn(60, 5, generator=draw)
    return [
        scale * (hidden @ torch.randn(5, width, generator=draw) + torch.randn(60, width, generator=draw))
        + offset * torch.randn(width, generator=draw)
        for width in (5000, 9000, 40)
    ]


@pytest.mark.parametrize("offset", [0.0, 9.0, 11.0, 100.0, 1e4])
def test_products_of_many_features_in_float32_keep_seven_digits(offset):
    features = wide(offset)
    exact = CKA(3).update([tensor.double() for tensor in features]).matrix()
    torch.testing.assert_close(CKA(3).update(features).matrix(), exact, rtol=0, atol=1e-6)


def test_many_features_beyond_the_range_of_float32_products_are_taken_in_float64():
    small, large = (CKA(3).update(wide(0.0, scale)).matrix() for scale in (1.0, 1e25))
    torch.testing.assert_close(small, large, rtol=0, atol=1e-6)


def test_samples_of_many_features_that_are_no_numbers_are_counted():
    features = wide(0.0)
    features[1][[0, 7], 3] = torch.nan
    assert CKA(3).update(features).notes() == ["", "2 of 60 samples hold NaN or inf", ""]
