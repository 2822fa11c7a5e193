"""CKA of every place of one network with every place of another."""

import copy

import numpy as np
import pytest
import torch
from nets import ResNet, mlp
from samples import hooks_of, images, lively, loader, pooled_of, rows
from torch import nn
from torch.nn.functional import interpolate
from torch.utils.data import DataLoader, TensorDataset

import winze
from winze.measure import minibatch_cka


class Broken(nn.Module):
    def forward(self, x):
        return x.index_fill(0, torch.tensor([0]), torch.nan)


def test_each_pair_is_minibatch_cka_of_the_features_of_both():
    net, other, (x, y) = lively(ResNet()), lively(ResNet(width=4)), images(40)
    found = winze.cka_between(
        net, other, (x, y), places=["stem", "blocks.0", "blocks.2"], other_places=["stem", "blocks.1"], batch=16
    )
    rows_of, columns = [place.name for place in found.places], [place.name for place in found.other_places]
    assert columns == ["stem", "blocks.1"]
    assert found.cka.shape == (len(rows_of), 2)
    expected = [
        [float(minibatch_cka(pooled_of(net, a, x), pooled_of(other, b, x), batch=16)) for b in columns] for a in rows_of
    ]
    np.testing.assert_allclose(found.cka, expected, atol=1e-5)
    assert (found.n, found.notes) == (40, [])


def test_a_network_beside_itself_is_what_its_scan_says():
    net, test = lively(ResNet()), images(40)
    found = winze.cka_between(net, net, test, batch=16)
    np.testing.assert_allclose(found.cka, winze.scan(net, None, test, measures=["cka"], batch=16).cka, atol=1e-9)
    assert found.places == found.other_places


def test_networks_that_share_modules_are_told_apart():
    net, (x, y) = mlp(), rows(40)
    shorter = nn.Sequential(*list(net)[:4])
    found = winze.cka_between(net, shorter, (x, y), places=["1"], other_places=["1", "3"])
    alone = winze.cka_between(net, copy.deepcopy(shorter), (x, y), places=["1"], other_places=["1", "3"])
    np.testing.assert_array_equal(found.cka, alone.cka)
    assert found.cka[0, 0] == pytest.approx(1)


def test_a_shuffled_loader_gives_both_the_same_samples():
    net = mlp()
    shuffled = DataLoader(TensorDataset(*rows(60)), 20, shuffle=True)
    np.testing.assert_allclose(winze.cka_between(net, copy.deepcopy(net), shuffled).cka.diagonal(), 1, atol=1e-9)


def test_the_other_network_may_have_the_samples_in_its_own_size():
    net, other, (x, y) = lively(ResNet()), lively(ResNet()), images(40)
    larger = interpolate(x, size=12)
    found = winze.cka_between(net, other, loader((x, y), 20), other_data=loader((larger, y), 20), places="blocks.2")
    expected = minibatch_cka(pooled_of(net, "blocks.2", x), pooled_of(other, "blocks.2", larger), batch=20)
    assert found.cka[0, -1] == pytest.approx(float(expected), abs=1e-5)


def changed(y, at):
    y = y.clone()
    y[at] = (y[at] + 1) % 3
    return y


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (
            lambda x, y: (x, changed(y, 27)),
            r"batch 2, sample 8: label \d in data, \d in other_data.*turn shuffling off",
        ),
        (lambda x, y: (x[:40], y[:40]), "other_data ends before batch 3"),
        (lambda x, y: (torch.cat([x, x]), torch.cat([y, y])), "data ends before batch 4"),
        (lambda x, y: (x[:50], y[:50]), "batch 3: 20 samples in data, 10 in other_data"),
        (lambda x, y: loader((x, y), 30), "batch 1: 20 samples in data, 30 in other_data"),
    ],
)
def test_other_samples_or_another_order_of_them_are_named(other, says):
    x, y = rows(60)
    with pytest.raises(ValueError, match=says):
        winze.cka_between(mlp(), mlp(), (x, y), other_data=other(x, y), batch=20)


@pytest.mark.parametrize("which", ["net", "other"])
def test_features_that_are_no_numbers_name_network_and_place(which):
    good, bad = mlp(), nn.Sequential(nn.Linear(12, 8), Broken(), nn.Linear(8, 3))
    nets = (bad, good) if which == "net" else (good, bad)
    with pytest.raises(ValueError, match=rf"^{which} \(Sequential\), place '\d': 3 of 60 samples hold NaN"):
        winze.cka_between(*nets, rows(60), batch=20)


def test_a_dead_place_reads_nan_and_says_why():
    dead = mlp()
    nn.init.zeros_(dead[2].weight)
    found = winze.cka_between(mlp(), dead, rows(60), places=["1"], other_places=["1", "2"])
    assert np.isnan(found.cka).tolist() == [[False, True]]
    (note,) = found.notes
    assert note.startswith("other (Sequential), place '2': ")


def test_both_networks_are_left_as_they_were():
    net, other = ResNet().train(), ResNet().train()
    other.stem.eval()
    before = copy.deepcopy([net.state_dict(), other.state_dict()])
    modes = [m.training for each in (net, other) for m in each.modules()]
    winze.cka_between(net, other, images(20))
    torch.testing.assert_close([net.state_dict(), other.state_dict()], before, rtol=0, atol=0)
    assert [m.training for each in (net, other) for m in each.modules()] == modes
    assert hooks_of(net) == hooks_of(other) == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"pool": "max"}, "pool must be"),
        ({"batch": 0}, "batch must be at least 1, got 0"),
        ({"other_places": "nowhere"}, "nearest names"),
    ],
)
def test_an_option_that_makes_no_sense_is_named(options, says):
    with pytest.raises(ValueError, match=says):
        winze.cka_between(mlp(), mlp(), rows(30), **options)


def test_networks_on_two_devices_are_refused():
    with pytest.raises(ValueError, match="net is on cpu, other on meta: move one of them"):
        winze.cka_between(mlp(), mlp().to("meta"), rows(30))
