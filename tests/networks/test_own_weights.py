"""Networks that come trained: they load by name, are small, and get right what their files say."""

import json

import pytest
import torch
from scripts import script
from torch import nn

import winze
from winze import NoShortcut
from winze.cli.network import Wish, make_ready
from winze.data import Batches, Preprocess, load
from winze.lab import Data, Network, Study
from winze.lab.runs.job import plain
from winze.networks import NetworkError, all_trained, build, published, trained
from winze.networks.own_weights import FOLDER
from winze.observe.cut.network_file import pack
from winze.train import Epochs, Training


@pytest.fixture(scope="module")
def cifar10(real_data):
    return load("cifar10", limit=2000)


def test_three_come_with_winze_in_a_few_megabytes():
    assert all_trained() == ["winze/resnet20", "winze/vgg19x0.25", "winze/vit6x128"]
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 8e6


@pytest.mark.parametrize("name", all_trained())
def test_a_network_gets_right_what_its_file_says(name, cifar10):
    known, net = trained(name), build(name, pretrained=True).eval()
    assert known.network == name
    assert next(net.parameters()).dtype is torch.float32
    feed = Batches(*cifar10.test, 500, Preprocess(known.size[1:], known.mean, known.std, known.size[0]))
    with torch.no_grad():
        right = sum(int((net(x).argmax(1) == y).sum()) for x, y in feed) / len(cifar10.test_labels)
    spread = (known.accuracy * (1 - known.accuracy) / len(cifar10.test_labels)) ** 0.5
    assert abs(right - known.accuracy) < 4 * spread
    assert known.accuracy > 0.8


@pytest.mark.parametrize("name", all_trained())
def test_what_goes_in_is_told_as_of_published_networks(name):
    known, told = trained(name), published(name, build(name), pretrained=True)
    assert published(name, build(name)) is None
    assert (told.input_size, told.mean, told.std, told.classes) == (known.size, known.mean, known.std, 10)
    assert told.fixed == name.startswith("winze/vit")


def test_grey_images_go_in_as_colour_ones_of_its_size():
    ready = make_ready(Wish("winze/resnet20", pretrained=True), load("digits", limit=40), torch.device("cpu"))
    assert ready.preprocess.size == (32, 32)
    assert ready.preprocess.channels == 3
    assert ready.preprocess.mean == trained("winze/resnet20").mean


@pytest.mark.parametrize("name", all_trained())
def test_without_its_weights_a_network_takes_other_images_as_they_are(name, tmp_path):
    digits = load("digits", limit=40)
    ready = make_ready(Wish(name), digits, torch.device("cpu"))
    assert (ready.preprocess.size, ready.preprocess.channels) == ((8, 8), 1)
    torch.save(ready.net.state_dict(), tmp_path / "own.pt")
    again = make_ready(Wish(name, weights=tmp_path / "own.pt"), digits, torch.device("cpu"))
    assert again.preprocess.mean == Preprocess.of(digits).mean


def test_a_scan_finds_the_tunnel_of_the_thesis(cifar10):
    """Layer 8 of VGG-19 (table 5.2.1), though with a quarter of its channels, and worse features for others behind."""
    net, known = build("winze/vgg19x0.25", pretrained=True), trained("winze/vgg19x0.25")
    preprocess = Preprocess(known.size[1:], known.mean, known.std)
    train, test = (Batches(*part, 500, preprocess) for part in (cifar10.train, cifar10.test))
    other = load("tinyimagenet", size=32)
    ood = tuple(Batches(*part, 500, preprocess) for part in (other.train, other.test))
    scan = winze.scan(net, train, test, ood={"tinyimagenet": ood}, places="layers", costs=False, progress=False)
    assert 7 <= scan.tunnel(0.95).start.index + 1 <= 9
    best = scan.best_for("tinyimagenet")
    assert best.place.index + 1 < 9
    assert best.gain > 0.15


def test_other_names_have_no_weights_and_are_told_which_have():
    with pytest.raises(NetworkError, match=r"winze/vgg13 has no published weights; .*: winze/resnet20, winze/vgg19x0"):
        build("winze/vgg13", pretrained=True)


def test_another_number_of_classes_does_not_fit():
    with pytest.raises(NetworkError, match=r"output\.weight is 10x64 in the file, 7x64 in the network"):
        build("winze/resnet20", 7, pretrained=True)


def finished(folder, network, seed=0):
    """The settings of a run as a run's folder holds them."""
    study = Study(network, Data("digits"), Training(Epochs(3), 128))
    (folder / "run.json").write_text(json.dumps({"config": plain(study), "seed": seed}))


def test_a_run_is_packed_in_half_precision_and_judged_as_it_is_loaded(tmp_path, monkeypatch):
    weights = script("weights")
    monkeypatch.setattr(weights, "FOLDER", tmp_path / "files")
    torch.manual_seed(0)
    net = build("winze/resnet20x0.25", 10, channels=1)
    (tmp_path / "net.safetensors").write_bytes(pack(net, {"name": "winze/resnet20x0.25", "options": {"channels": 1}}))
    finished(tmp_path, Network("winze/resnet20x0.25"), seed=4)
    path, known = weights.packed(tmp_path)
    assert path.name == "resnet20x0.25.safetensors"
    assert (known.classes, known.options, known.size, known.made["seed"]) == (10, {"channels": 1}, (1, 8, 8), 4)
    monkeypatch.setattr("winze.networks.own_weights.FOLDER", tmp_path / "files")
    loaded = build("winze/resnet20x0.25", pretrained=True)
    for one, other in zip(loaded.parameters(), net.parameters(), strict=True):
        assert torch.equal(one, other.half().float())
    assert weights.accuracy(loaded.eval(), load("digits"), Preprocess.of(load("digits"))) == known.accuracy
    ready = make_ready(Wish("winze/resnet20x0.25", pretrained=True), load("digits", limit=40), torch.device("cpu"))
    assert build(ready.spec)(torch.zeros(1, 1, 8, 8)).shape == (1, 10)


def test_options_of_a_run_are_packed_and_rules_are_refused(tmp_path, monkeypatch):
    weights = script("weights")
    monkeypatch.setattr(weights, "FOLDER", tmp_path / "files")
    options = {"channels": 1, "stem": "thesis"}
    net = build("winze/resnet20x0.25", 10, **options)
    (tmp_path / "net.safetensors").write_bytes(pack(net, {"name": "winze/resnet20x0.25", "options": options}))
    finished(tmp_path, Network("winze/resnet20x0.25", {"stem": "thesis"}))
    weights.packed(tmp_path)
    monkeypatch.setattr("winze.networks.own_weights.FOLDER", tmp_path / "files")
    assert build("winze/resnet20x0.25", pretrained=True)(torch.zeros(2, 1, 8, 8)).shape == (2, 10)
    finished(tmp_path, Network("winze/resnet20x0.25", rule=NoShortcut()))
    with pytest.raises(ValueError, match="only plain networks of our own"):
        weights.packed(tmp_path)


def test_weights_beyond_half_precision_are_refused(tmp_path, monkeypatch):
    weights = script("weights")
    monkeypatch.setattr(weights, "FOLDER", tmp_path)
    net = build("winze/resnet20x0.25", 10, channels=1)
    nn.init.constant_(net.output.bias, 1e6)
    (tmp_path / "net.safetensors").write_bytes(pack(net, {"name": "winze/resnet20x0.25", "options": {"channels": 1}}))
    finished(tmp_path, Network("winze/resnet20x0.25"))
    with pytest.raises(ValueError, match=r"beyond half precision are output\.bias"):
        weights.packed(tmp_path)
    assert not list(tmp_path.glob("resnet*"))
