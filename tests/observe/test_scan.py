import copy
import json
import math

import numpy as np
import pandas
import pytest
import torch
from nets import ResidualMLP, ResNet, mlp, vgg
from samples import hooks_of, images, lively, loader, outputs_of, pooled_of, rows, taught
from sklearn.linear_model import Ridge
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import winze
from winze.observe.passes.feed import Feed
from winze.observe.passes.probes import trained_probes
from winze.observe.passes.reader import Reader
from winze.observe.places.find_places import find_spots
from winze.observe.places.pooling import sampled

PLACES = ["stem", "blocks.0", "blocks.1", "blocks.2", "head"]


def references(features: Tensor, labels: Tensor) -> dict[str, float]:
    """Each measure of one place from the whole feature matrix at once, by NumPy in float64."""
    h, y = features.detach().double().numpy(), labels.numpy()
    energy = np.linalg.svd(h - h.mean(0), compute_uv=False) ** 2
    share = energy / energy.sum()
    share = share[share > 0]
    means = np.stack([h[y == c].mean(0) for c in np.unique(y)])
    count = len(means)
    arms = means - means.mean(0)
    sizes = np.linalg.norm(arms, axis=1)
    cosines = (arms @ arms.T / np.outer(sizes, sizes))[~np.eye(count, dtype=bool)]
    within = sum((h[y == c] - m).T @ (h[y == c] - m) for c, m in zip(np.unique(y), means, strict=True)) / len(h)
    return {
        "numerical_rank": float((energy > 1e-3 * energy[0]).sum()),
        "effective_rank": -(share * np.log(share)).sum(),
        "participation_ratio": energy.sum() ** 2 / np.square(energy).sum(),
        "intra_variance": np.mean([np.square(h[y == c] - m).sum(1).mean() for c, m in enumerate(means)]),
        "inter_variance": np.square(means[:, None] - means[None]).sum() / (count * (count - 1)),
        "nc1": np.trace(within @ np.linalg.pinv(arms.T @ arms / count, rcond=1e-10, hermitian=True)) / count,
        "nc2_norm": sizes.std() / sizes.mean(),
        "nc2_angle": np.abs(cosines + 1 / (count - 1)).mean(),
        "sample_norm": np.linalg.norm(h, axis=1).mean(),
        "frobenius_norm": np.linalg.norm(h),
        "features": float(h.shape[1]),
    }


def unbiased_hsic(x: np.ndarray, y: np.ndarray) -> float:
    """Song et al., 2012, in its plain form on Gram matrices without diagonals."""
    n = len(x)
    x, y = x - x.mean(0), y - y.mean(0)
    k, m = x @ x.T, y @ y.T
    np.fill_diagonal(k, 0)
    np.fill_diagonal(m, 0)
    crossed = (k @ m).sum() * 2 / (n - 2)
    return ((k * m).sum() + k.sum() * m.sum() / ((n - 1) * (n - 2)) - crossed) / (n * (n - 3))


def minibatch_cka(places: list[Tensor], batch: int) -> np.ndarray:
    """CKA of all pairs as the ratio of mean HSICs, batches weighted by their samples."""
    parts = [[part.double().numpy() for part in place.split(batch)] for place in places]
    weights = [len(part) for part in parts[0]]

    def mean_hsic(a: list[np.ndarray], b: list[np.ndarray]) -> float:
        return float(np.average([unbiased_hsic(p, q) for p, q in zip(a, b, strict=True)], weights=weights))

    hsic = np.array([[mean_hsic(a, b) for b in parts] for a in parts])
    size = np.sqrt(hsic.diagonal())
    return hsic / np.outer(size, size)


def assert_reads_as_the_references(scan: winze.Scan, features: list[Tensor], labels: Tensor, tolerance: float) -> None:
    for place, matrix in zip(scan.places, features, strict=True):
        for measure, expected in references(matrix, labels).items():
            least = tolerance if measure == "nc2_angle" else 0  # the mean of what cosines lack: absolute
            found = scan.curve(measure)[place.index]
            assert found == pytest.approx(expected, rel=tolerance, abs=least), (place.name, measure)


def offset_mlp() -> nn.Sequential:
    """An MLP whose hidden features have a mean of 100 times their spread."""
    net = mlp()
    with torch.no_grad():
        net[0].bias.fill_(150.0)
        net[2].bias.add_(100.0)
    return net


# Numbers


def test_every_number_agrees_with_float64_on_the_same_features():
    net, data = lively(ResNet()), images(90)
    scan = winze.scan(net, images(60, seed=1), data, places=PLACES, batch=32)
    assert_reads_as_the_references(scan, [pooled_of(net, name, data[0]) for name in PLACES], data[1], 1e-5)


def test_cka_agrees_with_float64_on_the_same_features():
    net, data = lively(ResNet()), images(96)
    scan = winze.scan(net, None, data, places=PLACES, batch=32, measures=["cka"])
    expected = minibatch_cka([pooled_of(net, name, data[0]) for name in PLACES], 32)
    np.testing.assert_allclose(scan.cka, expected, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_networks_of_other_precision_read_as_their_own_features(dtype):
    net = lively(ResNet()).to(dtype)
    x, y = images(60)
    scan = winze.scan(net, images_as(images(60, seed=1), dtype), (x.to(dtype), y), places=PLACES, batch=60)
    features = [pooled_of(net, name, x.to(dtype)) for name in PLACES]
    assert_reads_as_the_references(scan, features, y, 1e-5)
    np.testing.assert_allclose(scan.cka, minibatch_cka(features, 60), atol=1e-5)


def images_as(data: tuple[Tensor, Tensor], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    return data[0].to(dtype), data[1]


def test_a_mean_of_a_hundred_times_the_spread_loses_no_digits():
    net, data = offset_mlp(), rows(128)
    features = [outputs_of(net, name, data[0]) for name in ("0", "1", "2")]
    assert all(bool(h.mean(0).norm() > 90 * h.std(0).norm()) for h in features)
    scan = winze.scan(net, rows(60, seed=1), data, places=["0", "1", "2"], batch=128)
    assert_reads_as_the_references(scan, features, data[1], 1e-5)
    np.testing.assert_allclose(scan.cka, minibatch_cka(features, 128), atol=1e-5)


def test_probes_agree_with_a_scikit_learn_pipeline():
    net, train, test = lively(ResNet()), images(400, seed=1), images(400)
    scan = winze.scan(net, train, test, places=PLACES, measures=["probe"])
    held, targets = np.arange(400) % 10 == 9, np.eye(3)[train[1]]

    def fitted(features: np.ndarray, rows: np.ndarray, penalty: float) -> Pipeline:
        return make_pipeline(StandardScaler(), Ridge(penalty * rows.sum())).fit(features[rows], targets[rows])

    for place, value in zip(scan.places, scan.curve("probe"), strict=True):
        features, others = (pooled_of(net, place.name, x).numpy() for x, _ in (train, test))
        predicted = [fitted(features, ~held, penalty).predict(features[held]) for penalty in winze.measure.PENALTIES]
        penalty = winze.measure.PENALTIES[int(np.argmin([np.square(p - targets[held]).mean() for p in predicted]))]
        chosen = fitted(features, held | True, penalty).predict(others).argmax(1)
        assert value == pytest.approx(float((chosen == test[1].numpy()).mean()), abs=0.003)


def test_a_stored_probe_head_gives_the_stored_correctness():
    net, test = lively(ResNet()), images(80)
    scan = winze.scan(net, images(90, seed=1), test, measures=["probe"])
    arrays = scan.readings.arrays
    for place in scan.places:
        weight, bias = (torch.from_numpy(arrays[f"probe/data/{place.index}/{p}"]).double() for p in ("weight", "bias"))
        right = (pooled_of(net, place.name, test[0]) @ weight.T + bias).argmax(1) == test[1]
        assert arrays["correct/data"][place.index].tolist() == right.tolist()
        assert scan.curve("probe")[place.index] == pytest.approx(float(right.double().mean()))


def test_the_networks_own_accuracy_is_read():
    net, (x, y) = lively(ResNet()), images(80)
    scan = winze.scan(net, None, (x, y), measures=["norm"])
    (row,) = scan.readings.select(measure="accuracy").rows
    assert row.value == pytest.approx(float((net(x).argmax(1) == y).double().mean()))
    assert row.low < row.value < row.high


def test_accuracy_is_missing_with_a_reason_where_outputs_do_not_match_labels():
    (row,) = winze.scan(ResNet(classes=7), None, images(20), measures=["norm"]).readings.select(measure="accuracy").rows
    assert math.isnan(row.value)
    assert "7 outputs" in row.note
    assert "3 classes" in row.note


def test_a_layer_that_is_dead_reads_nan_with_a_reason():
    net = mlp()
    with torch.no_grad():
        net[2].weight.zero_()
    scan = winze.scan(net, rows(60, seed=1), rows(60), places=["1", "3", "4"], measures=["rank", "cka"])
    assert np.isnan(scan.curve("effective_rank")).tolist() == [False, True, True]
    assert np.isnan(scan.cka.diagonal()).tolist() == [False, True, True]
    notes = [row.note for row in scan.readings.select(measure="effective_rank").rows]
    assert [bool(note) for note in notes] == [False, True, True]


# Batches and loaders


def test_features_overwritten_in_place_are_read_before():
    net, data = lively(vgg()), images(64)
    scan = winze.scan(net, None, data, places=["0", "1", "2"], batch=64)
    features = [pooled_of(net, name, data[0]) for name in ("0", "1", "2")]
    assert not torch.equal(features[1], features[2])
    assert_reads_as_the_references(scan, features, data[1], 1e-5)
    np.testing.assert_allclose(scan.cka, minibatch_cka(features, 64), atol=1e-5)


@pytest.mark.parametrize("samples", [65, 66, 67])
def test_a_ragged_last_batch_counts_every_sample_once(samples):
    net, data = mlp(), rows(samples)
    scan = winze.scan(net, rows(61, seed=1), data, places="layers", batch=32)
    features = [pooled_of(net, place.name, data[0]) for place in scan.places]
    assert_reads_as_the_references(scan, features, data[1], 1e-5)
    assert np.isfinite(scan.cka).all()
    assert {row.n for row in scan.readings.rows if row.measure != "features"} == {samples}


def test_batches_of_one_sample_can_be_read():
    net, data = lively(ResNet()), images(12)
    single = winze.scan(net, images(20, seed=1), loader(data, 1), measures=["rank"])
    whole = winze.scan(net, images(20, seed=1), data, measures=["rank"])
    np.testing.assert_allclose(single.curve("effective_rank"), whole.curve("effective_rank"), rtol=1e-5)


def test_the_batch_size_changes_neither_ranks_nor_probes():
    net, train, test = lively(ResNet()), images(200, seed=1), images(100)
    one, other = (winze.scan(net, train, test, batch=batch) for batch in (33, 100))
    for measure in ("numerical_rank", "effective_rank", "intra_variance", "nc1", "sample_norm"):
        np.testing.assert_allclose(one.curve(measure), other.curve(measure), rtol=1e-5)
    for index in range(3):
        weight = f"probe/data/{index}/weight"
        np.testing.assert_allclose(one.readings.arrays[weight], other.readings.arrays[weight], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("probe", ["ridge", "adam"])
def test_a_loader_reads_as_the_same_pair_of_tensors(probe):
    net, train, test = lively(ResNet()), images(70, seed=1), images(50)
    pair = winze.scan(net, train, test, batch=16, probe=probe)
    batches = winze.scan(net, DataLoader(TensorDataset(*train), 16), loader(test, 16), batch=16, probe=probe)
    pandas.testing.assert_frame_equal(pair.table, batches.table)
    np.testing.assert_array_equal(pair.cka, batches.cka)


def test_batches_of_keyword_arguments_reach_the_network():
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.head = nn.Linear(12, 6), nn.Linear(6, 3)

        def forward(self, *, values: Tensor, scale: Tensor) -> Tensor:
            return self.head(torch.relu(self.layer(values)) * scale[:, None])

    net, (x, y) = Named(), rows(60)
    batches = [({"values": a, "scale": torch.full((len(a),), 2.0)}, b) for a, b in loader((x, y), 16)]
    scan = winze.scan(net, batches, batches, places=["layer", "head"])
    assert_reads_as_the_references(scan, [net.layer(x), net(values=x, scale=torch.full((60,), 2.0))], y, 1e-5)


def test_several_positional_arguments_reach_the_network():
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(12, 3)

        def forward(self, x: Tensor, shift: Tensor) -> Tensor:
            return self.layer(x + shift)

    net, (x, y) = Two(), rows(40)
    batches = [((a, 0 * a + 1), b) for a, b in loader((x, y), 16)]
    scan = winze.scan(net, None, batches, places="layer", measures=["norm"])
    assert scan.curve("sample_norm")[0] == pytest.approx(float(net.layer(x + 1).detach().norm(dim=1).mean()), rel=1e-5)


def test_a_shuffled_loader_whose_order_changes_between_passes_is_refused_where_passes_must_agree():
    net, data = mlp(), rows(200)
    shuffled = DataLoader(TensorDataset(*data), 50, shuffle=True, generator=torch.Generator())
    with pytest.raises(ValueError, match="order"):
        winze.scan(net, data, shuffled, places="layers", memory=1)


# Options


@pytest.mark.parametrize("pool", ["mean", "flatten", 2, 3])
def test_a_pool_takes_features_as_said(pool):
    net, (x, y) = lively(ResNet()), images(40)
    scan = winze.scan(net, None, (x, y), places="blocks.?", pool=pool, measures=["rank", "norm"])
    for place in scan.places:
        out = outputs_of(net, place.name, x).double()
        features = {
            "mean": lambda out: out.mean((2, 3)),
            "flatten": lambda out: out.flatten(1),
        }.get(str(pool), lambda out: nn.functional.adaptive_avg_pool2d(out, pool).flatten(1))(out)
        expected = references(features, y)
        for measure in ("effective_rank", "sample_norm", "features"):
            assert scan.curve(measure)[place.index] == pytest.approx(expected[measure], rel=1e-5)


def test_a_grid_takes_vectors_behind_feature_maps_as_they_are():
    scan = winze.scan(vgg(), None, images(40), places="layers", pool=2, measures=["norm"])
    assert scan.curve("features").tolist() == [4 * 4, 4 * 6, 8, 3]


def test_the_class_token_is_the_first():
    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 6)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x).mean(1)

    net, x = Tokens(), torch.randn(40, 5, 4)
    scan = winze.scan(net, None, (x, torch.arange(40) % 3), places="layer", pool="token", measures=["norm"])
    assert scan.curve("sample_norm")[0] == pytest.approx(
        float(net.layer(x).detach()[:, 0].norm(dim=1).mean()), rel=1e-5
    )


def test_wide_features_are_drawn_once_and_for_all():
    net, (x, y) = lively(ResNet()), images(60)
    scan = winze.scan(net, images(60, seed=1), (x, y), pool="flatten", max_features=50, batch=13)
    assert scan.curve("features").tolist() == [384.0, 192.0, 192.0]
    for place in scan.places:
        features = sampled(outputs_of(net, place.name, x).flatten(1), 50, place.index)
        assert features.shape == (60, 50)
        assert scan.curve("effective_rank")[place.index] == pytest.approx(references(features, y)["effective_rank"])


def test_a_trained_probe_sees_all_features_while_ranks_see_the_drawn_ones():
    net = lively(ResNet())
    scan = winze.scan(net, images(60, seed=1), images(60), pool="flatten", max_features=50, probe="adam")
    assert scan.readings.arrays["probe/data/0/weight"].shape == (3, 384)
    assert len(scan.readings.arrays["spectrum/0"]) == 50


@pytest.mark.parametrize("probe", ["ridge", "adam"])
def test_places_read_in_groups_read_as_in_one_pass(probe):
    net, train, test, places = mlp(), rows(60, seed=1), rows(60), ["1", "3", "6"]
    whole, groups = (
        winze.scan(net, train, test, {"other": (test, train)}, places=places, probe=probe, embed="pca", memory=memory)
        for memory in (1 << 30, 1)
    )
    keys = ["data", "measure", "index"]
    one, other = (scan.table.sort_values(keys, ignore_index=True) for scan in (whole, groups))
    pandas.testing.assert_frame_equal(one, other, rtol=1e-5)
    assert whole.readings.arrays.keys() == groups.readings.arrays.keys()
    for key, array in whole.readings.arrays.items():
        np.testing.assert_allclose(array, groups.readings.arrays[key], rtol=1e-3, atol=1e-4, err_msg=key)


MEASURED = {
    "probe": {"probe"},
    "rank": {"numerical_rank", "effective_rank", "participation_ratio"},
    "cka": set(),
    "variance": {"intra_variance", "inter_variance"},
    "collapse": {"nc1", "nc2_norm", "nc2_angle", "nc3", "nc4"},
    "norm": {"sample_norm", "frobenius_norm"},
}


@pytest.mark.parametrize("measure", MEASURED)
def test_one_measure_alone_reads_nothing_else_and_the_same(measure):
    net, train, test = lively(ResNet()), images(60, seed=1), images(60)
    whole, alone = winze.scan(net, train, test), winze.scan(net, train, test, measures=[measure])
    assert {row.measure for row in alone.readings.rows} == MEASURED[measure] | {"accuracy", "features"}
    assert ("cka" in alone.readings.arrays) == (measure == "cka")
    for name in MEASURED[measure]:
        assert alone.readings.select(measure=name).rows == whole.readings.select(measure=name).rows


def test_the_tunnel_is_the_same_with_probes_alone():
    train, test = images(60, seed=1), images(60)
    net = taught(ResNet(), train)
    assert winze.scan(net, train, test, measures=["probe"]).tunnel(0.9) == winze.scan(net, train, test).tunnel(0.9)


def test_cka_needs_no_train_data():
    scan = winze.scan(lively(ResNet()), None, images(60), measures=["cka"])
    assert scan.cka.shape == (3, 3)
    assert scan.cka.diagonal() == pytest.approx(1)


def test_without_train_data_all_but_probes_is_read():
    scan = winze.scan(lively(ResNet()), None, images(60))
    assert scan.readings.conventions["measures"] == ["cka", "collapse", "norm", "rank", "variance"]


@pytest.mark.parametrize("method", ["pca", "tsne"])
def test_embeddings_of_places_hold_one_point_per_sample(method):
    scan = winze.scan(lively(ResNet()), None, images(40), measures=["norm"], embed=method)
    assert scan.readings.arrays["embedding/2"].shape == (40, 2)
    assert scan.readings.arrays["embedding/labels"].tolist() == images(40)[1].tolist()
    assert np.isfinite(scan.readings.arrays["embedding/2"]).all()


@pytest.mark.parametrize("method", ["pca", "tsne"])
def test_samples_with_the_same_features_lie_at_one_point(method):
    from winze.observe.passes.embedding import embed_places

    same = torch.randn(1, 16).expand(40, 16)
    assert (embed_places([0], [same], method)[0] == np.zeros((40, 2))).all()


# The network is left as it was


def test_a_scan_leaves_state_modes_gradients_and_random_numbers_alone():
    net = ResNet()
    net.train()
    net.blocks[1].eval()
    for parameter in net.parameters():
        parameter.grad = torch.ones_like(parameter)
    before, modes = copy.deepcopy(net.state_dict()), [m.training for m in net.modules()]
    rng = torch.get_rng_state(), np.random.get_state()[1].copy()
    for probe in ("ridge", "adam"):
        winze.scan(net, images(40, seed=1), images(40), probe=probe, pool="flatten", max_features=20)
    torch.testing.assert_close(net.state_dict(), before, rtol=0, atol=0)
    assert [m.training for m in net.modules()] == modes
    assert all(p.requires_grad and bool((p.grad == 1).all()) for p in net.parameters())
    assert torch.equal(rng[0], torch.get_rng_state())
    assert np.array_equal(rng[1], np.random.get_state()[1])
    assert hooks_of(net) == 0


class Fragile(nn.Module):
    """Fails, or leaves a layer out, once it has seen a large number."""

    def __init__(self, skips: bool) -> None:
        super().__init__()
        self.first, self.second, self.skips = nn.Linear(12, 6), nn.Linear(6, 3), skips

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        if float(x.abs().max()) < 1e6:
            return self.second(x)
        if self.skips:
            return x[:, :3]
        raise RuntimeError("too large")


def late_trouble(n: int = 40) -> tuple[Tensor, Tensor]:
    x, y = rows(n)
    x[-3:] *= 1e9
    return x, y


@pytest.mark.parametrize("probe", ["ridge", "adam"])
def test_hooks_go_and_modes_come_back_when_the_network_raises(probe):
    net = Fragile(skips=False).train()
    with pytest.raises(RuntimeError, match="too large"):
        winze.scan(net, late_trouble(), rows(40), places=["first", "second"], batch=16, probe=probe)
    with pytest.raises(RuntimeError, match="too large"):
        winze.scan(net, rows(40), late_trouble(), places=["first", "second"], batch=16, probe=probe)
    assert hooks_of(net) == 0
    assert all(m.training for m in net.modules())
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("measure", ["cka", "rank", "probe"])
def test_a_place_that_some_batches_do_not_reach_raises(measure):
    net = Fragile(skips=True)
    with pytest.raises(ValueError, match="'second'"):
        winze.scan(net, rows(40), late_trouble(), places=["first", "second"], batch=16, measures=[measure])
    assert hooks_of(net) == 0


# Other data


def test_other_data_is_probed_by_its_own_labels():
    net, other = lively(ResNet()), (images(200, 5, seed=3), images(100, 5, seed=4))
    scan = winze.scan(net, images(60, seed=1), images(60), {"five": other})
    alone = winze.scan(net, *other, name="five", measures=["probe"])
    np.testing.assert_array_equal(scan.curve("probe", "five"), alone.curve("probe"))
    assert scan.readings.arrays["correct/five"].shape == (3, 100)
    assert {row.measure for row in scan.readings.rows if row.data == "five"} == {"probe"}


def test_other_data_uses_the_classes_that_both_parts_have_and_says_so():
    net = lively(ResNet())
    (x, y), (u, v) = images(200, 5, seed=3), images(100, 5, seed=4)
    train, test = (x[y != 1], y[y != 1]), (u[v != 4], v[v != 4])
    scan = winze.scan(net, images(60, seed=1), images(60), {"part": (train, test)}, measures=["probe", "norm"])
    common = torch.tensor([0, 2, 3])
    few = [(a[torch.isin(b, common)], torch.searchsorted(common, b[torch.isin(b, common)])) for a, b in (train, test)]
    alone = winze.scan(net, *few, measures=["probe"])
    np.testing.assert_allclose(scan.curve("probe", "part"), alone.curve("probe"))
    notes = scan.readings.conventions["notes"]
    assert any("part train" in note and "1 of 4 classes" in note for note in notes)
    assert any("part test" in note and "1 of 4 classes" in note for note in notes)
    assert scan.readings.conventions["samples"]["part"] == {"train": len(few[0][1]), "test": len(few[1][1])}


def test_the_best_place_for_other_data_is_the_top_of_its_curve():
    net, other = lively(ResNet()), (images(200, 5, seed=3), images(100, 5, seed=4))
    scan = winze.scan(net, images(60, seed=1), images(60), {"five": other}, places=PLACES)
    curve, best = scan.curve("probe", "five"), scan.best_for("five")
    assert best.place == scan.places[int(curve.argmax())]
    assert (best.accuracy, best.last) == (curve.max(), curve[-1])
    assert best.gain == pytest.approx(curve.max() - curve[-1])
    assert best.rho == pytest.approx((curve.max() - curve[-1]) / curve.max())
    assert best.kappa == (np.flatnonzero(curve >= 0.99 * curve.max())[0] + 1) / 5


# The result


def test_the_tunnel_starts_where_probes_reach_the_networks_own_accuracy():
    net = taught(ResNet(), images(200, seed=1))
    scan = winze.scan(net, images(200, seed=1), images(100), places=PLACES)
    own = float(scan.readings.arrays["correct/network"].mean())
    found = scan.tunnel(0.9)
    expected = int(np.flatnonzero(scan.curve("probe") >= 0.9 * own - 1e-9)[0])
    assert found.start == scan.places[expected]
    assert found.reference == pytest.approx(own)
    assert found.share == (expected + 1) / 5
    assert found.low.index <= expected


def test_outputs_that_are_not_one_row_a_sample_are_no_logits():
    class Folded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x).flatten(0, 1)

    scan = winze.scan(Folded(), None, (torch.randn(40, 5, 4), torch.arange(40) % 3), places="layer", measures=["norm"])
    (row,) = scan.readings.select(measure="accuracy").rows
    assert math.isnan(row.value)
    assert "logits" in row.note


def test_streamed_trained_probes_equal_those_on_kept_features():
    net, data = mlp(), rows(60)
    reader = Reader(net, find_spots(net, data[0][:2], "layers"))
    feed = Feed(data, "train")
    kept, streamed = (trained_probes(reader, feed, 3, memory) for memory in (1 << 30, 1))
    for one, other in zip(kept, streamed, strict=True):
        torch.testing.assert_close(one.weight, other.weight, rtol=1e-4, atol=1e-5)


def test_a_saved_scan_comes_back_the_same(tmp_path):
    net = lively(ResNet())
    scan = winze.scan(net, images(60, seed=1), images(60), {"five": (images(60, 5), images(60, 5))}, embed="pca")
    scan.save(tmp_path / "scan")
    back = winze.Scan.load(tmp_path / "scan")
    pandas.testing.assert_frame_equal(back.table, scan.table)
    assert back.readings.conventions == scan.readings.conventions
    assert back.readings.arrays.keys() == scan.readings.arrays.keys()
    for key, array in scan.readings.arrays.items():
        np.testing.assert_array_equal(array, back.readings.arrays[key])
    assert (back.places, back.tunnel(0.9), back.best_for("five")) == (
        scan.places,
        scan.tunnel(0.9),
        scan.best_for("five"),
    )


def test_the_same_scan_twice_is_the_same_to_the_last_bit():
    net, train, test = lively(ResNet()), images(60, seed=1), images(60)
    one, other = (winze.scan(net, train, test, probe="adam", pool="flatten", max_features=50) for _ in range(2))
    pandas.testing.assert_frame_equal(one.table, other.table, check_exact=True)
    np.testing.assert_array_equal(one.cka, other.cka)


def test_the_table_is_tidy():
    table = winze.scan(lively(ResNet()), images(60, seed=1), images(60)).table
    assert " ".join(table.columns) == "step data split place index total measure value low high n note"
    assert not table.duplicated(["data", "split", "place", "measure"]).any()
    assert table[table.measure == "probe"].place.tolist() == ["blocks.0", "blocks.1", "blocks.2"]


def test_conventions_are_recorded():
    data = images(60, seed=1), images(50), {"five": (images(30, 5), images(20, 5))}
    scan = winze.scan(lively(ResNet()), *data, pool=2, batch=25, max_features=40, name="toy")
    told = json.loads(json.dumps(dict(scan.readings.conventions)))
    assert told["network"] == "ResNet"
    assert (told["data"], told["ood"]) == ("toy", ["five"])
    assert told["places"] == ["blocks.0", "blocks.1", "blocks.2"]
    assert (told["pool"], told["probe"], told["batch"]) == (2, "ridge", 25)
    assert (told["dtype"], told["device"]) == ("float32", "cpu")
    assert told["samples"] == {"toy": {"train": 60, "test": 50}, "five": {"train": 30, "test": 20}}
    assert told["cka"] == {"estimator": "unbiased minibatch", "batch": 25}
    assert told["rank"]["threshold"] == 1e-3
    assert told["rank"]["max_features"] == 40


def test_the_batch_size_of_a_loader_is_the_one_recorded():
    scan = winze.scan(lively(ResNet()), None, loader(images(50), 20), measures=["cka"])
    assert scan.readings.conventions["cka"]["batch"] == 20
    assert scan.readings.conventions["batch"] == 20


def test_native_networks_are_read_at_their_junctions():
    net, data = ResidualMLP(), rows(60)
    scan = winze.scan(net, rows(60, seed=1), data, batch=60)
    features = [pooled_of(net, f"blocks.{i}", data[0]) for i in range(4)]
    assert_reads_as_the_references(scan, features, data[1], 1e-5)


def test_a_stream_that_does_not_know_its_length_has_probes_too():
    class Stream:
        def __init__(self, *batches):
            self.batches = batches

        def __iter__(self):
            return iter(self.batches)

    net, train, test = ResidualMLP(), rows(60), rows(40)
    whole = winze.scan(net, train, test, measures=("probe",))
    streamed = winze.scan(net, Stream(train), Stream(test), measures=("probe",))
    assert np.array_equal(streamed.curve("probe"), whole.curve("probe"))
