import numpy as np
import pytest
import torch
from nets import mlp
from samples import hooks_of, loader, pooled_of, rows
from torch import Tensor, nn

import winze

LAYERS = ["1", "3", "6"]


def relabelled(labels: Tensor) -> tuple[Tensor, Tensor]:
    return rows(len(labels))[0], labels


def spoiled(value: float, samples: int = 3) -> tuple[Tensor, Tensor]:
    x, y = rows(40)
    x[:samples, 0] = value
    return x, y


GOOD = rows(40)
NOTHING = torch.zeros(0, 12), torch.zeros(0, dtype=torch.long)
BAD_DATA = {
    "no samples": (NOTHING, "no samples"),
    "no batches": ([], "no samples"),
    "one class": (relabelled(torch.zeros(40, dtype=torch.long)), "at least 2 classes.*got 1"),
    "no class in common": (relabelled(torch.arange(40) % 3 + 3), "at least 2 classes.*got 0"),
    "float labels": (relabelled(torch.rand(40)), "row of integers.*float32"),
    "bool labels": (relabelled(torch.arange(40) % 2 == 0), "row of integers.*bool"),
    "negative labels": (relabelled(torch.arange(40) % 3 - 1), "start at 0, got -1"),
    "label columns": (relabelled(torch.zeros(40, 2, dtype=torch.long)), r"row of integers.*\(40, 2\)"),
    "fewer labels": ((rows(40)[0], rows(32)[1]), r"32 labels for input of shape \(40, 12\)"),
    "more labels": ((rows(32)[0], rows(40)[1]), r"40 labels for input of shape \(32, 12\)"),
    "fewer labels in a batch": ([(rows(8)[0], rows(7)[1])], r"7 labels for input of shape \(8, 12\)"),
    "an iterator": (iter(loader(GOOD, 16)), "iterator can be read only once"),
    "a generator": ((batch for batch in loader(GOOD, 16)), "iterator can be read only once"),
    "no labels": ([GOOD[0]], r"batches of \(x, y\)"),
}


@pytest.mark.parametrize("trouble", BAD_DATA)
@pytest.mark.parametrize("split", ["train", "test"])
def test_data_that_cannot_be_used_is_named_with_the_reason(trouble, split):
    data, reason = BAD_DATA[trouble]
    if "iter" in reason:
        data = iter(loader(GOOD, 16))
    net = mlp()
    train, test = (data, GOOD) if split == "train" else (GOOD, data)
    with pytest.raises(ValueError, match=reason) as caught:
        winze.scan(net, train, test, batch=8)
    assert "data" in str(caught.value)
    assert hooks_of(net) == 0


@pytest.mark.parametrize("trouble", ["no samples", "float labels", "an iterator", "fewer labels"])
def test_other_data_that_cannot_be_used_is_named(trouble):
    data, reason = BAD_DATA[trouble]
    if "iter" in reason:
        data = iter(loader(GOOD, 16))
    with pytest.raises(ValueError, match=f"textures.*{reason}"):
        winze.scan(mlp(), GOOD, GOOD, {"textures": (GOOD, data)}, batch=8)


def test_a_class_that_only_the_test_data_has_is_left_out_with_a_note():
    scan = winze.scan(mlp(), rows(60, 3), rows(60, 4), measures=["probe"])
    assert any("data test" in note and "1 of 4 classes" in note for note in scan.readings.conventions["notes"])
    assert scan.readings.conventions["samples"]["data"]["test"] == int((rows(60, 4)[1] < 3).sum())


def test_fewer_test_samples_than_classes_read_only_what_they_can():
    net, x, y = mlp(classes=10), rows(4)[0], torch.tensor([0, 5, 0, 9])
    scan = winze.scan(net, None, (x, y), places=LAYERS)
    features = pooled_of(net, "1", x)
    within = features[y == 0] - features[y == 0].mean(0)
    assert scan.curve("intra_variance")[0] == pytest.approx(float(within.square().sum(1).mean()) / 3, rel=1e-4)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize(("probe", "memory"), [("ridge", 1 << 30), ("adam", 1 << 30), ("adam", 1)])
def test_broken_train_features_raise_with_the_place_and_the_count(value, probe, memory):
    net = mlp()
    batch = ", one batch" if memory == 1 else ""  # of many that come again each epoch
    with pytest.raises(ValueError, match=f"data train, place '1'{batch}: 3 of 40 samples hold NaN or inf"):
        winze.scan(net, spoiled(value), GOOD, places=LAYERS, probe=probe, memory=memory)
    assert hooks_of(net) == 0


@pytest.mark.parametrize("probe", ["ridge", "adam"])
@pytest.mark.parametrize("sample", [9, slice(None)])
def test_broken_train_features_are_counted_over_all_samples(sample, probe):
    x, y = rows(40)
    x[sample] = float("nan")  # the tenth chooses the penalty of a ridge probe
    broken = 1 if sample == 9 else 40
    with pytest.raises(ValueError, match=f"data train, place '1': {broken} of 40 samples hold NaN or inf"):
        winze.scan(mlp(), (x, y), GOOD, places=LAYERS, probe=probe, batch=16)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_broken_test_features_raise_with_the_place_and_the_count(value):
    net = mlp()
    with pytest.raises(ValueError, match="data test, place '1': 3 of 40 samples hold NaN or inf"):
        winze.scan(net, GOOD, spoiled(value), places=LAYERS)
    assert hooks_of(net) == 0


def test_broken_features_of_other_data_raise_with_the_place():
    with pytest.raises(ValueError, match="textures test, place '1': 3 of 40 samples hold NaN or inf"):
        winze.scan(mlp(), GOOD, GOOD, {"textures": (GOOD, spoiled(float("nan")))}, places=LAYERS)


def test_broken_features_from_one_layer_on_name_that_layer():
    net = mlp()
    with torch.no_grad():
        net[4].bias[0] = float("inf")
    with pytest.raises(ValueError, match="place '5': 40 of 40"):
        winze.scan(net, None, GOOD, places=["1", "3", "5", "6"])


BAD_OPTIONS = {
    "measure": ({"measures": ["rnak"]}, "measures are probe, rank.*rnak"),
    "no measure": ({"measures": []}, "got none"),
    "probe": ({"probe": "lasso"}, "ridge, adam, got 'lasso'"),
    "pool": ({"pool": "max"}, "pool must be one of 'mean'.*'max'"),
    "grid of none": ({"pool": 0}, "grid size from 1, got 0"),
    "grid of yes": ({"pool": True}, "got True"),
    "grid on vectors": ({"pool": 2}, r"needs a feature map, got \(.*8\)"),
    "token on vectors": ({"pool": "token"}, r"token.*got \(.*8\)"),
    "place": ({"places": "layers.1"}, "no module 'layers.1' is called in this network; the nearest names"),
    "no places": ({"places": []}, "places="),
    "embedding": ({"embed": "mds"}, "embed must be one of pca"),
    "batch": ({"batch": 0}, "batch"),
    "most features": ({"max_features": 0}, "max_features"),
    "memory": ({"memory": 0}, "memory"),
}


@pytest.mark.parametrize("trouble", BAD_OPTIONS)
def test_an_option_that_makes_no_sense_is_named(trouble):
    options, reason = BAD_OPTIONS[trouble]
    net = mlp().train()
    with pytest.raises(ValueError, match=reason):
        winze.scan(net, GOOD, GOOD, **{"places": LAYERS, **options})
    assert hooks_of(net) == 0
    assert all(module.training for module in net.modules())


def test_input_that_the_network_does_not_take_is_said_to_be_so():
    with pytest.raises(ValueError, match="Sequential does not take"):
        winze.scan(mlp(inputs=5), GOOD, GOOD)


def test_probes_without_train_data_are_refused():
    with pytest.raises(ValueError, match="probes need train data"):
        winze.scan(mlp(), None, GOOD, measures=["probe"])


def test_unknown_other_data_is_named_with_what_there_is():
    scan = winze.scan(mlp(), GOOD, GOOD, {"textures": (GOOD, GOOD)}, places=LAYERS, measures=["probe"])
    with pytest.raises(ValueError, match=r"'texture'.*data, textures"):
        scan.best_for("texture")


def test_a_scan_without_probes_has_no_tunnel_and_says_why():
    scan = winze.scan(mlp(), GOOD, GOOD, places=LAYERS, measures=["rank"])
    with pytest.raises(ValueError, match=r"did not measure 'probe'.*rank"):
        scan.tunnel()


@pytest.mark.parametrize("threshold", [0.0, -0.5, 1.01, 95, float("nan")])
def test_a_threshold_that_is_no_share_is_refused(threshold):
    scan = winze.scan(mlp(), GOOD, GOOD, places=LAYERS, measures=["probe"])
    with pytest.raises(ValueError, match=f"threshold above 0 and of at most 1.*got {threshold}"):
        scan.tunnel(threshold)


def test_too_few_samples_for_cka_name_the_data():
    with pytest.raises(ValueError, match="own test: CKA needs at least 4 samples, got 3"):
        winze.scan(mlp(), None, rows(3), measures=["cka"], places=LAYERS, name="own")


def test_a_scan_without_probes_knows_no_best_place_and_says_what_it_has():
    scan = winze.scan(mlp(), GOOD, GOOD, places=LAYERS, measures=["rank"])
    with pytest.raises(ValueError, match=r"did not measure 'probe'"):
        scan.best_for("data")


def test_a_scan_without_cka_says_so():
    with pytest.raises(ValueError, match="did not measure 'cka'"):
        winze.scan(mlp(), GOOD, GOOD, places=LAYERS, measures=["rank"]).cka  # noqa: B018


def test_a_folder_that_holds_no_scan_is_refused(tmp_path):
    with pytest.raises((ValueError, FileNotFoundError), match=str(tmp_path)):
        winze.Scan.load(tmp_path)


def test_a_network_without_places_says_what_to_do():
    with pytest.raises(ValueError, match="places="):
        winze.scan(nn.Flatten(), GOOD, GOOD)


def test_other_data_of_the_datas_own_name_is_refused() -> None:
    with pytest.raises(ValueError, match="'data', which is the name of the data itself"):
        winze.scan(mlp(), GOOD, GOOD, ood={"data": (GOOD, GOOD)})
    assert winze.scan(mlp(), GOOD, GOOD, name="own", ood={"data": (GOOD, GOOD)}, places=LAYERS).curve("probe").size == 3


def test_features_without_numbers_are_named_where_only_cka_is_read() -> None:
    with pytest.raises(ValueError, match=r"data test, place '1': 3 of 40 samples hold NaN"):
        winze.scan(mlp(), None, spoiled(float("nan")), measures=["cka"], places=LAYERS)


def test_outputs_without_numbers_are_no_choice_of_a_class() -> None:
    class Lost(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = mlp()

        def forward(self, x: Tensor) -> Tensor:
            out = self.net(x)
            return torch.where(x[:, :1] > 0, out, torch.nan)

    lost = int((GOOD[0][:, 0] <= 0).sum())
    assert 0 < lost < 40
    (row,) = winze.scan(Lost(), GOOD, GOOD).readings.select(measure="accuracy").rows
    assert np.isnan(row.value)
    assert f"NaN for {lost} of 40 samples" in row.note


def test_a_report_is_not_written_over_a_folder(tmp_path):
    net, (x, y) = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), (torch.randn(40, 4), torch.arange(40) % 2)
    scan = winze.scan(net, (x, y), (x, y), measures=["probe"], costs=False, progress=False)
    with pytest.raises(IsADirectoryError, match=r"is a folder: name the page, such as .*report\.html"):
        scan.report(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", [torch.uint8, torch.float64, torch.int64])
def test_samples_of_a_type_that_the_network_does_not_take_are_named_with_the_fix(kind):
    x, y = GOOD
    with pytest.raises(ValueError, match=r"data train: .* does not take .*; pass x.to\(torch.float32\)"):
        winze.scan(mlp(), (x.to(kind), y), GOOD)
    with pytest.raises(ValueError, match=r"data test: .* does not take .*; pass x.to\(torch.float32\)"):
        winze.Watch(mlp(), (x.to(kind), y))


def test_samples_of_a_shape_that_the_network_does_not_take_are_named():
    x, y = GOOD
    with pytest.raises(ValueError, match=r"data test: Sequential does not take float32 \[2, 9\]"):
        winze.scan(mlp(), (x[:, :9], y), (x[:, :9], y))


@pytest.mark.parametrize(
    "laid",
    [
        lambda array: array.astype(array.dtype.newbyteorder(">")),
        lambda array: array[::-1][::-1],
        lambda array: np.asfortranarray(np.broadcast_to(array, array.shape)),
    ],
    ids=["big-endian", "reversed", "read-only"],
)
def test_arrays_are_read_however_they_lie_in_memory(laid):
    torch.manual_seed(0)
    net, (x, y) = mlp(), GOOD
    expected = winze.scan(net, GOOD, GOOD).curve("probe")
    given = laid(x.numpy()), laid(y.numpy())
    assert winze.scan(net, given, given).curve("probe").tolist() == expected.tolist()


class Listing(torch.utils.data.Dataset):
    """Samples whose labels are not what the dataset lists."""

    def __init__(self, **listed):
        vars(self).update(listed)

    def __len__(self):
        return 40

    def __getitem__(self, i):
        return GOOD[0][i], GOOD[1][i]


@pytest.mark.parametrize(
    "listed", [{"targets": GOOD[1] + 7}, {"labels": [0, 1]}, {"targets": torch.arange(40)}, {"labels": ["a", "b", "c"]}]
)
def test_labels_that_a_dataset_lists_count_only_where_its_samples_have_them(listed):
    torch.manual_seed(0)
    net = mlp()
    expected = winze.scan(net, GOOD, GOOD)
    for data in (Listing(**listed), torch.utils.data.DataLoader(Listing(**listed), 16)):
        found = winze.scan(net, data, data)
        assert found.readings.conventions.class_count == expected.readings.conventions.class_count == 3
        assert found.curve("probe").tolist() == expected.curve("probe").tolist()


def test_complex_features_are_refused_by_name() -> None:
    class Wave(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wave = nn.Linear(12, 8, dtype=torch.complex64)
            self.head = nn.Linear(8, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.wave(x.to(torch.complex64)).abs())

    with pytest.raises(ValueError, match="wave: the features are complex numbers"):
        winze.scan(Wave(), rows(90, seed=1), rows(90))
    assert [place.name for place in winze.scan(Wave(), rows(90, seed=1), rows(90), places="head").places] == ["head"]
