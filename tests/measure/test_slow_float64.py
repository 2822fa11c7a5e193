"""On a GPU with few float64 units, products over a batch are float32; readings stay within 1e-5 of float64."""

from collections.abc import Iterator

import pytest
import torch
from references import cka, class_variance, effective_rank, features, labels, nc1, participation_ratio
from sklearn.linear_model import Ridge as Reference
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from winze import measure
from winze.measure import CKA, CentredBatch, Moments
from winze.measure import features as room
from winze.measure.probes import probe as adam
from winze.measure.streaming import gram, sums

BATCH = 64
Y = labels(640)


@pytest.fixture(autouse=True)
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (room, sums, gram, adam):
        monkeypatch.setattr(module, "is_slow_in_float64", lambda device: True)


class Products(TorchDispatchMode):
    """Counts the multiplications of matrix products in float64, and in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.work = {torch.float64: 0, torch.float32: 0}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(name in str(func) for name in ("bmm", "aten.mm", "addmm")):
            a, b = [each for each in args if isinstance(each, Tensor)][-2:]
            self.work[a.dtype] += a.numel() * b.shape[-1]
        return func(*args, **(kwargs or {}))


def rows(offset: float = 0.0) -> Tensor:
    return features(640, 20, offset) + features(5, 20, seed=9)[Y] / 4


def batches(x: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    return zip(x.split(BATCH), Y.split(BATCH), strict=True)


def moments(x: Tensor) -> Moments:
    found = Moments(x.shape[1], 5)
    for part, y in batches(x):
        found.update(part, y)
    return found


@pytest.mark.parametrize("offset", [0, 10, 100])
@pytest.mark.parametrize("size", [1e-25, 1.0, 1e15])
def test_moments_in_float32_products_read_as_in_float64(offset: float, size: float) -> None:
    x = rows(offset) * size
    found = moments(x)
    intra, inter = class_variance(x, Y)
    spectrum = found.spectrum()
    assert measure.rank.effective_rank_of(spectrum) == pytest.approx(effective_rank(x), rel=1e-6)
    assert measure.rank.participation_ratio_of(spectrum) == pytest.approx(participation_ratio(x), rel=1e-6)
    assert measure.variance.class_variance_of(found) == pytest.approx((intra, inter), rel=1e-6)
    assert measure.collapse.neural_collapse_of(found).nc1 == pytest.approx(nc1(x, Y), rel=1e-5)


def test_collapse_is_read_where_classes_are_tight() -> None:
    x = 10 * features(5, 20, seed=3)[Y] + features(640, 20) * 1e-2
    assert measure.collapse.neural_collapse_of(moments(x)).nc1 == pytest.approx(nc1(x, Y), rel=1e-5)


@pytest.mark.parametrize("offset", [0, 100])
@pytest.mark.parametrize("size", [1e-25, 1.0])
def test_cka_in_float32_products_reads_as_in_float64(offset: float, size: float) -> None:
    x, y = rows(offset) * size, features(640, 30, seed=7) + rows()[:, :1]
    pair = CKA(1, 1)
    for a, b in zip(x.split(BATCH), y.split(BATCH), strict=True):
        pair.update([a], [b])
    assert float(pair.matrix()[0, 0]) == pytest.approx(cka(x.split(BATCH), y.split(BATCH), unbiased=True), abs=1e-6)


@pytest.mark.parametrize("offset", [0, 100])
def test_ridge_probes_are_those_of_scikit_learn(offset: float) -> None:
    x, penalty = rows(offset), 1e-2
    probe = measure.ridge(moments(x), None, [penalty])
    z = x.double()
    scaled = ((z - z.mean(0)) / z.std(0, correction=0)).numpy()
    wanted = Reference(alpha=penalty * len(x)).fit(scaled, torch.eye(5)[Y].double().numpy())
    scores = torch.from_numpy(wanted.predict(scaled))
    torch.testing.assert_close(probe.scores(x), scores, rtol=0, atol=2e-5)
    answers = measure.answers_at_once([probe], CentredBatch(x[None]))[0]
    assert (answers == scores.argmax(1)).double().mean() > 0.998


def test_the_work_of_a_batch_is_float32() -> None:
    x, y = features(256, 128), labels(256, 5)
    found, pairs = Moments(128, 5).update(x, y), CKA(2)
    with Products() as products:
        found.update(x, y)
        pairs.update([x, x])
    assert products.work[torch.float64] < 0.1 * products.work[torch.float32]
    assert products.work[torch.float32] >= 256 * 128**2


def test_tf32_and_autocast_do_not_reach_the_products() -> None:
    x = rows(100)
    wanted = moments(x).scatter
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        with torch.autocast("cpu", torch.bfloat16):
            assert torch.equal(moments(x).scatter, wanted)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)
