"""NC3 and NC4 of the linear layer that a network ends in."""

import math

import numpy as np
import pytest
import torch
from nets import ResNet, mlp
from samples import hooks_of, images, outputs_of, rows
from torch import Tensor, nn
from torch.nn import functional as F

import winze
from winze.measure import ClassMeans, neural_collapse, self_duality
from winze.measure.streaming import moments_table
from winze.observe.passes.last_layer import OutputLayer


def nc(scan: winze.Scan, measure: str) -> winze.readings.Row:
    (row,) = scan.readings.select(measure=measure).rows
    return row


def by_hand(net: ResNet, train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor]) -> tuple[float, float]:
    """Both signs in NumPy, from what goes into the head."""
    inside = [outputs_of(net, "blocks", x).double().mean((2, 3)).numpy() for x, _ in (train, test)]
    old, means = (
        np.stack([h[y.numpy() == c].mean(0) for c in range(3)]) for h, (_, y) in zip(inside, (train, test), strict=True)
    )
    arms, weight = means - means.mean(0), net.head.weight.detach().double().numpy()
    nc3 = np.square(weight / np.linalg.norm(weight) - arms / np.linalg.norm(arms)).sum()
    nearest = np.linalg.norm(inside[1][:, None] - old[None], axis=2).argmin(1)
    with torch.no_grad():
        return nc3, (net.eval()(test[0]).argmax(1).numpy() != nearest).mean()


@pytest.mark.parametrize("gathered", [None, 40])
@pytest.mark.parametrize("probe", ["ridge", "adam"])
@pytest.mark.parametrize("places", [None, "layers", ["stem"]])
def test_both_signs_are_those_worked_out_by_hand(
    probe: str, places: list[str] | None, gathered: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if gathered is not None:  # as on a GPU
        monkeypatch.setattr(moments_table, "DEVICES", ("cpu",))
        monkeypatch.setattr(moments_table, "GATHERED", gathered)
    net, train, test = ResNet(), images(90, seed=1), images(50, seed=2)
    nc3, nc4 = by_hand(net, train, test)
    scan = winze.scan(net, train, test, places=places, batch=16, probe=probe, measures=["probe", "collapse"])
    assert nc(scan, "nc3").value == pytest.approx(nc3, rel=1e-6)
    assert nc(scan, "nc4").value == pytest.approx(nc4)
    assert 0 < nc4 < 1
    assert {nc(scan, sign).place for sign in ("nc3", "nc4")} == {"head"}
    assert {"nc3", "nc4"} <= set(scan.table["measure"])
    assert hooks_of(net) == 0


def test_the_signs_survive_saving(tmp_path) -> None:
    scan = winze.scan(mlp(), rows(60, seed=1), rows(40, seed=2))
    scan.save(tmp_path)
    assert nc(winze.Scan.load(tmp_path), "nc3") == nc(scan, "nc3")


def test_without_train_data_only_the_fourth_is_missing() -> None:
    scan = winze.scan(mlp(), None, rows(40), measures=["collapse"])
    assert nc(scan, "nc3").value > 0
    assert math.isnan(nc(scan, "nc4").value)
    assert "train data" in nc(scan, "nc4").note


class Bent(nn.Sequential):
    """A network whose last layer is not what it returns."""

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(super().forward(x))


def test_a_network_that_does_not_end_in_a_linear_layer_says_so() -> None:
    scan = winze.scan(Bent(*mlp()), rows(60, seed=1), rows(40, seed=2))
    for sign in ("nc3", "nc4"):
        assert math.isnan(nc(scan, sign).value)
        assert nc(scan, sign).note == "the network does not end in a linear layer"


def test_outputs_that_are_other_classes_have_no_sign() -> None:
    scan = winze.scan(mlp(classes=5), rows(60, seed=1), rows(40, seed=2))
    assert nc(scan, "nc3").note == "the network has 5 outputs, the data 3 classes"


@pytest.mark.parametrize("name", ["logits", "other"])
def test_of_a_dict_of_outputs_only_the_logits_are_the_networks_answer(name: str) -> None:
    class Answers(nn.Sequential):
        def forward(self, x: Tensor) -> dict[str, Tensor]:
            return {"features": x, name: super().forward(x)}

    plain, data = mlp(), rows(40, seed=2)
    own = winze.scan(plain, None, data).readings
    told = winze.scan(Answers(*plain), None, data).readings
    assert ("correct/network" in told.arrays) == (name == "logits")
    if name == "logits":
        assert np.array_equal(told.arrays["correct/network"], own.arrays["correct/network"])


def test_a_watch_reads_them_too() -> None:
    watch = winze.Watch(mlp(), rows(40, seed=2), train=rows(60, seed=1), measures=("collapse",))
    whole = winze.scan(watch.net, rows(60, seed=1), rows(40, seed=2))
    for sign in ("nc3", "nc4"):
        assert watch.readings.select(measure=sign).rows[0].value == pytest.approx(nc(whole, sign).value)


def test_class_means_of_batches_merge_into_the_whole() -> None:
    x, y = rows(60)
    x = x + 100
    halves = [ClassMeans(12, 3), ClassMeans(12, 3)]
    for i in range(0, 60, 7):
        halves[i % 2].update(x[i : i + 7], y[i : i + 7])
    whole = halves[0].merge(halves[1])
    weight = torch.randn(3, 12)
    assert whole.n == 60
    torch.testing.assert_close(whole.mean, x.double().mean(0))
    assert self_duality(whole, weight) == pytest.approx(neural_collapse(x, y, weight).nc3, rel=1e-9)


def test_class_means_count_nan() -> None:
    x, y = rows(20)
    x[3] = math.nan
    with pytest.raises(ValueError, match="features: 1 of 20 samples hold NaN"):
        self_duality(ClassMeans(12, 3).update(x, y), torch.ones(3, 12))


def test_layers_of_other_widths_are_not_watched_since_their_results_would_stay_in_memory() -> None:
    net = mlp(classes=3)
    with OutputLayer(net, 3).watching():
        assert hooks_of(net) == 1
    assert hooks_of(net) == 0
