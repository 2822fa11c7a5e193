"""torchvision's own sets: through its real classes on tiny files, and through stand-ins for every name."""

from urllib.error import URLError

import numpy as np
import pytest
import torch
from PIL import Image
from tiny import idx_bytes, labels_of, random_images, write_dtd
from torchvision import datasets

from winze.data import CorruptDataError, MissingDataError, available, load
from winze.data.sources.search import cache
from winze.data.sources.torchvision import ORIGINALS


def write_torchvision_mnist(root):
    raw = root / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for stem in ("train", "t10k"):
        (raw / f"{stem}-images-idx3-ubyte").write_bytes(idx_bytes(random_images(40, 28, 28)))
        (raw / f"{stem}-labels-idx1-ubyte").write_bytes(idx_bytes(labels_of(40, 10)))


def write_torchvision_dtd(root):
    base = root / "dtd" / "dtd"
    for number, name in enumerate(("banded", "dotted")):
        (base / "images" / name).mkdir(parents=True)
        for image in range(4):
            picture = Image.new("RGB", (30 + image, 20), (100 * number, 50, 50))
            picture.save(base / "images" / name / f"{image}.jpg", quality=95)
    (base / "labels").mkdir()
    for split, images in (("train", (0, 1)), ("test", (2, 3))):
        lines = [f"{name}/{image}.jpg\n" for name in ("banded", "dotted") for image in images]
        (base / "labels" / f"{split}1.txt").write_text("".join(lines))


def write_torchvision_caltech(root):
    for name in ("BACKGROUND_Google", "anchor", "ant"):  # the first is no class: torchvision takes it out
        folder = root / "caltech101" / "101_ObjectCategories" / name
        folder.mkdir(parents=True)
        for image in range(1, 5):
            Image.new("L", (20, 30), 9).save(folder / f"image_{image:04}.jpg")
    (root / "caltech101" / "Annotations").mkdir()


def test_torchvisions_mnist_files_are_read(tmp_path):
    write_torchvision_mnist(tmp_path)
    data = load("mnist", root=tmp_path)
    np.testing.assert_array_equal(data.train_images[:, 0], random_images(40, 28, 28))
    assert data.classes[0] == "0 - zero"


def test_torchvisions_textures_are_read_and_cut_to_squares(tmp_path):
    write_torchvision_dtd(tmp_path)
    data = load("dtd", root=tmp_path, size=16)
    assert data.classes == ("banded", "dotted")
    assert data.shape == (3, 16, 16)
    red = data.test_images[:, 0].float().mean((1, 2))
    assert ((red - 100 * data.test_labels).abs() < 3).all()


def test_torchvisions_caltech_has_one_part_and_is_halved(tmp_path):
    write_torchvision_caltech(tmp_path)
    data = load("caltech101", root=tmp_path, size=8)
    assert torch.bincount(data.train_labels).tolist() == torch.bincount(data.test_labels).tolist() == [2, 2]
    assert data.classes == ("anchor", "ant")


def test_the_small_files_come_first_and_the_original_by_its_full_name(tmp_path):
    write_dtd(tmp_path)
    write_torchvision_dtd(tmp_path)
    assert load("dtd", root=tmp_path).classes[0] == "texture 0"
    assert load("torchvision/dtd", root=tmp_path, size=8).classes[0] == "banded"


def test_a_damaged_original_is_named(tmp_path):
    write_torchvision_mnist(tmp_path)
    (tmp_path / "MNIST" / "raw" / "train-images-idx3-ubyte").write_bytes(b"\0\0\x08\x03")
    with pytest.raises(CorruptDataError, match="torchvision's MNIST"):
        load("mnist", root=tmp_path)


def stand_in(kind, calls, fail=None):
    """A class that behaves as torchvision's of that kind: arrays in its layout, or images one by one."""
    grey, layout = kind in ("MNIST", "FashionMNIST", "USPS"), "NCHW" if kind in ("SVHN", "STL10") else "NHWC"
    arrays = grey or kind in ("CIFAR10", "CIFAR100", "SVHN", "STL10")

    class StandIn:
        def __init__(self, root, download=False, **arguments):
            calls.append((root, download, arguments))
            if fail is not None and download:
                raise fail
            self.numbers = [0, 1, 0, 1]
            if arrays:
                pixels = random_images(4, 8, 8) if grey else random_images(4, 8, 8, 3)
                self.data = pixels.transpose(0, 3, 1, 2) if layout == "NCHW" else pixels
            setattr(self, "labels" if layout == "NCHW" else "targets" if arrays else "_labels", self.numbers)
            self.classes = ["first", "second"]
            marker = ORIGINALS[next(name for name in ORIGINALS if ORIGINALS[name].kind == kind)].marker
            if download:
                from pathlib import Path

                (Path(root) / marker).mkdir(parents=True, exist_ok=True)

        def __len__(self):
            return len(self.numbers)

        def __getitem__(self, row):
            return Image.new("RGB", (50, 40), (row, 0, 0)), self.numbers[row]

    return StandIn


@pytest.mark.parametrize("name", ORIGINALS)
def test_every_original_is_downloaded_once_and_read_from_then_on(monkeypatch, name):
    calls = []
    kind = ORIGINALS[name].kind
    monkeypatch.setattr(datasets, kind, stand_in(kind, calls))
    first = load(name, size=8)
    assert (cache() / "torchvision" / name).is_dir()
    assert any(download for _, download, _ in calls)
    calls.clear()
    again = load(name, size=8)
    assert not any(download for _, download, _ in calls)
    assert torch.equal(first.train_images, again.train_images)
    assert first.shape[1:] == (8, 8)
    assert next(entry for entry in available() if entry.name == name).found == first.found


@pytest.mark.parametrize("name", ORIGINALS)
def test_torchvision_really_has_the_class_and_its_arguments(name):
    import inspect

    known = inspect.signature(getattr(datasets, ORIGINALS[name].kind).__init__).parameters
    for arguments in (ORIGINALS[name].train, ORIGINALS[name].test or {}):
        assert set(arguments) <= set(known)
    assert "download" in known or "kwargs" in known


def test_a_failed_download_says_where_it_looked_and_leaves_nothing_that_looks_whole(tmp_path, monkeypatch):
    monkeypatch.setenv("WINZE_DATA", str(tmp_path / "mine"))
    monkeypatch.setattr(datasets, "CIFAR10", stand_in("CIFAR10", [], fail=URLError("no\nnetwork")))
    for _ in range(2):
        with pytest.raises(MissingDataError) as caught:
            load("cifar10")
        message = str(caught.value)
        assert "\n" not in message
        for part in (
            tmp_path / "mine" / "cifar10",
            cache() / "cifar10",
            "cifar-10-batches-py",
            "no network",
            "WINZE_DATA",
        ):
            assert str(part) in message
    assert not (cache() / "torchvision" / "cifar10").exists()
    assert next(entry for entry in available() if entry.name == "cifar10").found is None


@pytest.mark.parametrize("name", ["tinyimagenet", "tinyimagenet100", "imagenet", "cinic10"])
def test_sets_without_a_download_say_where_to_put_them(name, tmp_path):
    with pytest.raises(MissingDataError, match=rf"{tmp_path}/{name}.*no download.*holds {name}/"):
        load(name, root=tmp_path)


def test_missing_data_is_a_missing_file_too(tmp_path):
    with pytest.raises(FileNotFoundError):
        load("cifar100", root=tmp_path, download=False)


def test_downloads_can_be_switched_off(monkeypatch, tmp_path):
    calls = []
    monkeypatch.setattr(datasets, "SVHN", stand_in("SVHN", calls))
    with pytest.raises(MissingDataError, match="switched off"):
        load("svhn", root=tmp_path, download=False)
    assert calls == []
    assert list(tmp_path.iterdir()) == []
