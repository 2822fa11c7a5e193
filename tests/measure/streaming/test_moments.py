"""Moments: any split, merged, is the whole."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from references import features, labels

from winze.measure import Moments

PARTS = ("mean", "scatter", "counts", "class_means", "class_scatter", "norm_sum")


def same(a: Moments, b: Moments, relative: float = 1e-9) -> None:
    assert a.n == b.n
    for part in PARTS:
        torch.testing.assert_close(getattr(a, part), getattr(b, part), rtol=relative, atol=relative)


@settings(max_examples=40)
@given(
    cuts=st.lists(st.integers(0, 60), max_size=5),
    offset=st.sampled_from([0.0, 100.0]),
    joined=st.lists(st.booleans(), min_size=6, max_size=6),
)
def test_any_split_merged_or_streamed_is_the_whole(cuts: list[int], offset: float, joined: list[bool]) -> None:
    x, y = features(60, 8, offset), labels(60, 4)
    ends = [0, *sorted(cuts), 60]
    parts = Moments(8, 4)
    for start, end, merge in zip(ends, ends[1:], joined, strict=False):
        if merge:
            parts.merge(Moments(8, 4).update(x[start:end], y[start:end]))
        else:
            parts.update(x[start:end], y[start:end])
    same(parts, Moments.of(x, y, 4))


def test_every_batch_counts_and_not_the_last_alone() -> None:
    x = features(dtype=torch.float64)
    moments = Moments(20)
    for part in x.split(50):
        moments.update(part)
    torch.testing.assert_close(moments.covariance(), torch.cov(x.T, correction=0))
    assert moments.n == 300


def test_merging_leaves_the_other_as_it_was() -> None:
    a, b = Moments.of(features(seed=1)), Moments.of(features(seed=2))
    before = b.scatter.clone()
    joint = a.merged(b)
    assert (a.n, b.n, joint.n) == (300, 300, 600)
    assert torch.equal(b.scatter, before)


def test_batches_with_very_different_means_lose_nothing() -> None:
    x = torch.cat([features(100, 5, dtype=torch.float64), features(100, 5, dtype=torch.float64) + 1e6])
    moments = Moments(5)
    for part in x.split(25):
        moments.update(part)
    torch.testing.assert_close(moments.covariance(), torch.cov(x.T, correction=0), rtol=1e-9, atol=1e-9)


def test_a_class_that_has_collapsed_shows_scatter_of_its_own_size() -> None:
    y = labels(300, 3)
    x = torch.randn(3, 6, dtype=torch.float64)[y] * 1e3 + torch.randn(300, 6, dtype=torch.float64) * 1e-4
    moments = Moments(6, 3)
    for part, label in zip(x.split(32), y.split(32), strict=True):
        moments.update(part, label)
    want = torch.stack([(x[y == c] - x[y == c].mean(0)).square().sum() for c in range(3)])
    torch.testing.assert_close(moments.class_scatter, want, rtol=1e-6, atol=0)


def test_memory_does_not_grow_with_samples() -> None:
    moments = Moments(4, 2)
    for _ in range(20):
        moments.update(torch.randn(50, 4), torch.randint(2, (50,)))
    held = [value for value in (*vars(moments).values(), *moments.sums.tensors) if isinstance(value, torch.Tensor)]
    assert sum(value.numel() for value in held) == 4 + 16 + 2 + 2 * 4 + 2 + 1 + 1


def test_a_batch_larger_than_a_piece_is_taken_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = features(), labels()
    whole = Moments.of(x, y, 5)
    monkeypatch.setattr("winze.measure.streaming.moments.ELEMENTS", 20 * 70)
    same(Moments.of(x, y, 5), whole)


def test_a_batch_in_inference_mode_can_be_followed_by_one_outside() -> None:
    x = features()
    moments = Moments(20)
    with torch.inference_mode():
        moments.update(x[:100].clone())
    same(moments.update(x[100:]), Moments.of(x))


@pytest.mark.parametrize(
    ("label", "why"),
    [
        (torch.tensor([0, 1, 5]), "labels run from 0 to 5, expected 0 to 2"),
        (torch.tensor([0, -1, 2]), "labels run from -1"),
        (torch.tensor([0, 1]), "expected 3 integer labels"),
        (torch.tensor([0.0, 1.0, 2.0]), "expected 3 integer labels"),
        (None, "come together"),
    ],
)
def test_labels_that_do_not_fit_are_named(label: torch.Tensor | None, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Moments(4, 3).update(torch.zeros(3, 4), label)


def test_the_place_is_named_in_errors() -> None:
    with pytest.raises(ValueError, match=r"layer1\.0: expected 4 features, got 5"):
        Moments(4, name="layer1.0").update(torch.zeros(3, 5))
    with pytest.raises(ValueError, match=r"layer1\.0: needs at least 2 samples, got 0"):
        Moments(4, name="layer1.0").spectrum()


def test_broken_samples_of_all_batches_are_counted() -> None:
    moments = Moments(4, name="layer2")
    for _ in range(3):
        x = torch.randn(10, 4)
        x[2, 1] = torch.nan
        moments.update(x)
    with pytest.raises(ValueError, match="layer2: 3 of 30 samples hold NaN or inf"):
        moments.covariance()


def test_moments_of_other_shapes_do_not_merge() -> None:
    with pytest.raises(ValueError, match="cannot merge 5 features"):
        Moments(4).merge(Moments(5))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_labels_on_a_gpu_serve_features_on_the_cpu() -> None:
    x, y = features(200, 5), labels(200, 4)
    for _ in range(20):
        busy = torch.randn(2000, 2000, device="cuda")
        late = (y.cuda() + 0 * (busy @ busy)[:200, 0]).long()
        assert torch.equal(Moments.of(x, late, 4).counts, Moments.of(x, y, 4).counts)


def unsettled(*args: object) -> None:
    raise torch.linalg.LinAlgError("linalg.eigh: The algorithm failed to converge")


def test_a_spectrum_whose_routine_does_not_converge_is_read_from_singular_values(monkeypatch):
    moments = Moments.of(features(30, 5))
    want = moments.spectrum()
    monkeypatch.setattr("torch.linalg.eigvalsh", unsettled)
    torch.testing.assert_close(moments.spectrum(), want)


def test_a_spectrum_that_runs_out_of_memory_is_not_tried_again(monkeypatch):
    moments = Moments.of(features(30, 5))
    monkeypatch.setattr("torch.linalg.eigvalsh", lambda matrices: torch.empty(1 << 50))
    monkeypatch.setattr("torch.linalg.svd", lambda matrices: pytest.fail("tried again"))
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        moments.spectrum()


def test_a_routine_that_does_not_converge_says_so_by_its_own_error():
    with pytest.raises(torch.linalg.LinAlgError):
        torch.linalg.eigvalsh(torch.full((3, 3), torch.nan, dtype=torch.float64))
