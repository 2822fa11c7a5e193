"""The sets that are always there, the list of all sets, and the data set itself."""

import subprocess
import sys
from math import pi

import numpy as np
import pytest
import torch
from tiny import write_cifar10, write_dtd, write_folder, write_mnist

from winze.data import DataError, available, load, spiral
from winze.data.dataset import Dataset
from winze.data.sources.catalog import ALIASES, CATALOG


def test_digits_are_split_as_agreed():
    data = load("digits")
    assert (len(data.train_labels), len(data.test_labels), data.shape) == (1347, 450, (1, 8, 8))


def test_digits_hold_every_sample_of_scikit_learn_once():
    from sklearn.datasets import load_digits

    data, bunch = load("digits"), load_digits()
    images = torch.cat([data.train_images, data.test_images])[:, 0].flatten(1).double().mul(16 / 255).round()
    ours = np.c_[images.numpy(), torch.cat([data.train_labels, data.test_labels]).numpy()]
    theirs = np.c_[bunch.data, bunch.target]
    np.testing.assert_array_equal(ours[np.lexsort(ours.T)], theirs[np.lexsort(theirs.T)])


def test_digits_are_stratified():
    data = load("digits")
    share = torch.bincount(data.test_labels) / (torch.bincount(data.test_labels) + torch.bincount(data.train_labels))
    assert (share - 450 / 1797).abs().max() < 0.005


def test_digits_are_the_same_every_time():
    assert torch.equal(load("digits").test_images, load("digits").test_images)


def test_the_spiral_has_two_equal_arms():
    data = load("spiral")
    assert data.train_images.shape == (16384, 2)
    assert torch.bincount(data.train_labels).tolist() == [8192, 8192]


@pytest.mark.parametrize("arm", [0, 1])
def test_every_point_of_the_spiral_lies_on_its_arm(arm):
    points, labels = spiral(500)
    x, y = points[labels == arm].double().T
    radius = torch.hypot(x, y)
    angle = torch.atan2(x, y) - arm * pi
    turns = angle / (2 * pi) - radius
    assert (turns - turns.round()).abs().max() < 1e-4
    assert radius.max() <= 1


def test_the_second_arm_is_the_first_one_turned_by_half():
    points, labels = spiral(300)
    first, second = (points[labels == arm] for arm in (0, 1))
    assert torch.cdist(first.double(), -second.double()).amin(1).max() < 1e-6


def test_the_spirals_radius_is_uniform():
    points, _ = spiral(8192)
    radius = points.norm(dim=1)
    assert radius.mean() == pytest.approx(0.5, abs=0.01)
    assert radius.std() == pytest.approx(12**-0.5, abs=0.01)


def test_another_seed_draws_another_spiral():
    assert not torch.equal(spiral(10, seed=0)[0], spiral(10, seed=1)[0])


def test_the_arms_are_mixed_in_order():
    labels = load("spiral").train_labels
    assert 0.4 < labels[:1000].float().mean() < 0.6


def test_every_known_set_is_listed_once():
    assert [entry.name for entry in available()] == list(CATALOG)


def test_every_other_name_leads_to_a_known_set():
    assert set(ALIASES.values()) <= set(CATALOG)


def test_the_listing_finds_what_is_there_and_says_where(tmp_path, monkeypatch):
    monkeypatch.setenv("WINZE_DATA", str(tmp_path))
    write_mnist(tmp_path)
    write_dtd(tmp_path)
    listed = {entry.name: entry for entry in available()}
    assert (listed["mnist"].found, listed["mnist"].train) == (str(tmp_path / "mnist"), 40)
    assert (listed["dtd"].train, listed["dtd"].test, listed["dtd"].shape) == (30, 30, (3, 32, 32))
    assert listed["cifar10"].found is None
    assert str(tmp_path / "cifar10") in listed["cifar10"].looked
    assert listed["cifar10"].downloads
    assert not listed["tinyimagenet"].downloads


def test_the_listing_gives_the_sizes_that_loading_gives(tmp_path):
    write_cifar10(tmp_path)
    listed = next(entry for entry in available(tmp_path) if entry.name == "cifar10")
    data = load("cifar10", root=tmp_path)
    sizes = (len(data.train_labels), len(data.test_labels), len(data.classes), data.shape)
    assert (listed.train, listed.test, listed.classes, listed.shape) == sizes


def test_the_listing_decodes_nothing(tmp_path, monkeypatch):
    write_cifar10(tmp_path)
    write_mnist(tmp_path)
    monkeypatch.setattr("winze.data.sources.sheets._tiles", None)
    monkeypatch.setattr("winze.data.sources.source.Part.read", None)
    assert all(entry.problem is None for entry in available(tmp_path))


def test_a_damaged_set_is_listed_with_its_problem(tmp_path):
    (write_mnist(tmp_path) / "train-labels-idx1-ubyte.gz").write_bytes(b"nothing")
    listed = next(entry for entry in available(tmp_path) if entry.name == "mnist")
    assert "train-labels-idx1-ubyte.gz" in listed.problem
    assert listed.found == str(tmp_path / "mnist")


@pytest.mark.parametrize("name", ["DTD", "dtd10_32", "textures", "Dtd"])
def test_other_spellings_lead_to_the_same_set(tmp_path, name):
    write_dtd(tmp_path)
    assert load(name, root=tmp_path).found == str(tmp_path / "dtd10_32")


def test_winzes_cache_is_looked_in_after_the_named_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    write_mnist(tmp_path / "winze")
    assert load("mnist").found == str(tmp_path / "winze" / "mnist")
    monkeypatch.setenv("WINZE_DATA", str(tmp_path / "mine"))
    assert load("mnist").found == str(tmp_path / "winze" / "mnist")
    write_mnist(tmp_path / "mine")
    assert load("mnist").found == str(tmp_path / "mine" / "mnist")


def test_an_imagenet_folder_is_found_by_name(tmp_path):
    write_folder(tmp_path / "imagenet", ("train", "val"))
    assert load("imagenet", root=tmp_path, size=4).shape == (3, 4, 4)
    assert next(entry for entry in available(tmp_path) if entry.name == "imagenet").classes == 1000


def test_a_data_set_moves_to_a_device_as_a_whole():
    tensors = (*load("digits").to("meta").train, *load("digits").to("meta").test)
    assert {tensor.device.type for tensor in tensors} == {"meta"}


IMAGES, LABELS = torch.zeros((4, 1, 2, 2), dtype=torch.uint8), torch.tensor([0, 1, 0, 1])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"classes": ("a",)}, "1 class; at least two are needed"),
        ({"train_images": IMAGES[:3]}, "3 samples but 4 labels"),
        ({"test_images": IMAGES[:0], "test_labels": LABELS[:0]}, "test: no samples"),
        ({"train_labels": LABELS + 1}, "labels run from 1 to 2"),
        ({"train_labels": LABELS - 1}, "labels run from -1 to 0"),
        ({"train_images": IMAGES[:, 0]}, "images are"),
        ({"train_images": IMAGES.expand(-1, 2, -1, -1)}, "1 or 3"),
        ({"train_images": IMAGES.float()}, "uint8 images or float32 points"),
        ({"test_images": IMAGES[..., :1]}, "train samples have shape"),
    ],
)
def test_samples_and_labels_that_do_not_fit_make_no_data_set(change, says):
    good = dict(zip(("train_images", "train_labels", "test_images", "test_labels"), (IMAGES, LABELS) * 2, strict=True))
    with pytest.raises(DataError, match=says):
        Dataset(**({"name": "toy", "classes": ("a", "b"), "found": "here"} | good | change))


def test_importing_the_room_imports_nothing_heavy():
    code = (
        "import sys, winze.data; print(sorted({'sklearn', 'torchvision', 'PIL', 'pandas', 'timm'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_small_images_can_be_padded_to_a_size_instead_of_stretched():
    plain, padded, stretched = load("digits"), load("digits", size=12, fit="pad"), load("digits", size=12)
    assert torch.equal(padded.test_images[:, :, 2:10, 2:10], plain.test_images)
    assert padded.test_images.shape == stretched.test_images.shape
    assert padded.test_images[:, :, :2].max() == 0
    assert not torch.equal(padded.test_images, stretched.test_images)


def test_images_that_are_too_large_to_be_padded_are_resized():
    assert torch.equal(load("digits", size=6, fit="pad").train_images, load("digits", size=6).train_images)


def test_digit_sums_are_pairs_of_digits_labelled_by_the_last_digit_of_their_sum():
    digits, sums = load("digits"), load("digit_sums", limit=40)
    for images, labels, singles, names in (
        (*sums.train, digits.train_images, digits.train_labels),
        (*sums.test, digits.test_images, digits.test_labels),
    ):
        assert images.shape[1:] == (1, 8, 16)
        for image, label in zip(images, labels, strict=True):
            halves = [(singles == image[..., cut]).flatten(1).all(1) for cut in (slice(0, 8), slice(8, 16))]
            left, right = (set(names[half].tolist()) for half in halves)
            assert any((a + b) % 10 == int(label) for a in left for b in right)


def test_digit_sums_cannot_be_read_off_the_pixels_by_a_linear_classifier():
    from sklearn.linear_model import RidgeClassifier

    sums = load("digit_sums[0-4]", limit=2000)
    flat = [(x.flatten(1).numpy() / 255.0, y.numpy()) for x, y in (sums.train, sums.test)]
    assert RidgeClassifier().fit(*flat[0]).score(*flat[1]) < 0.35
