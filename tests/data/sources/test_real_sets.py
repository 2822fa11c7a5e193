"""The real sets, compared with what their documentation says. They need WINZE_DATA."""

import os

import numpy as np
import pytest
import torch

from winze.data import MissingDataError, available, channel_statistics, load

ROOT = os.environ.get("WINZE_DATA", "")
pytestmark = pytest.mark.skipif(not ROOT, reason="WINZE_DATA is not set")

COUNTS = {  # name: train, test, classes, shape, as `load` gives them
    "mnist": (60000, 10000, 10, (1, 28, 28)),
    "fashion_mnist": (60000, 10000, 10, (1, 28, 28)),
    "usps": (7291, 2007, 10, (1, 16, 16)),
    "cifar10": (50000, 10000, 10, (3, 32, 32)),
    "tinyimagenet": (5000, 500, 10, (3, 64, 64)),
    "tinyimagenet100": (30000, 5000, 100, (3, 64, 64)),
    "dtd": (600, 600, 10, (3, 32, 32)),
    "caltech101": (1515, 1515, 101, (3, 32, 32)),
    "pets": (925, 925, 37, (3, 32, 32)),
}
BALANCED = {  # samples a class in train and in test
    "fashion_mnist": (6000, 1000),
    "cifar10": (5000, 1000),
    "tinyimagenet": (500, 50),
    "tinyimagenet100": (300, 50),
    "dtd": (60, 60),
    "caltech101": (15, 15),
    "pets": (25, 25),
}
STATISTICS = {  # published train mean and std
    "mnist": ((0.1307,), (0.3081,)),
    "fashion_mnist": ((0.2860,), (0.3530,)),
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
}
LOADED, LISTED = {}, {}


def real(name):
    if name not in LOADED:
        # the hundred classes are decoded in part: their counts come from `available`
        LOADED[name] = load("tinyimagenet100[0-9]" if name == "tinyimagenet100" else name, root=ROOT)
    return LOADED[name]


@pytest.fixture(scope="module", autouse=True)
def _forget():
    yield
    LOADED.clear()


@pytest.mark.parametrize("name", COUNTS)
def test_the_listing_counts_what_the_documentation_counts(name):
    if not LISTED:
        LISTED.update({entry.name: entry for entry in available(ROOT)})
    listing = LISTED[name]
    assert listing.problem is None
    assert (listing.train, listing.test, listing.classes, listing.shape) == COUNTS[name]


@pytest.mark.parametrize("name", [name for name in COUNTS if name != "tinyimagenet100"])
def test_a_loaded_set_has_the_documented_sizes(name):
    data = real(name)
    assert (len(data.train_labels), len(data.test_labels), len(data.classes), data.shape) == COUNTS[name]


@pytest.mark.parametrize("name", BALANCED)
def test_every_class_has_its_share(name):
    for labels, each in zip((real(name).train_labels, real(name).test_labels), BALANCED[name], strict=True):
        assert set(torch.bincount(labels).tolist()) == {each}


def test_mnist_has_the_published_histogram():
    published = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert torch.bincount(real("mnist").train_labels).tolist() == published


@pytest.mark.parametrize("name", STATISTICS)
def test_channel_statistics_are_the_published_ones(name):
    mean, std = channel_statistics(real(name).train_images)
    np.testing.assert_allclose((mean, std), STATISTICS[name], atol=6e-5)


@pytest.mark.parametrize("name", COUNTS)
def test_images_and_labels_have_the_promised_types(name):
    data = real(name)
    assert data.train_images.dtype == data.test_images.dtype == torch.uint8
    assert data.train_labels.dtype == data.test_labels.dtype == torch.int64


@pytest.mark.parametrize("name", COUNTS)
def test_every_image_of_a_real_set_shows_something(name):
    images = real(name).test_images.flatten(1)
    assert (images.amax(1) > images.amin(1)).float().mean() > 0.999


def test_human_answers_agree_with_the_cifar10_labels():
    counts = np.load(os.path.join(ROOT, "cifar10", "test_human_counts.npy"))  # noqa: PTH118
    agreement = (counts.argmax(1) == real("cifar10").test_labels.numpy()).mean()
    assert agreement == pytest.approx(0.9921, abs=5e-5)


def test_tinyimagenet_keeps_its_ten_common_classes_and_says_so():
    data = real("tinyimagenet")
    assert data.classes[:3] == ("goldfish", "jellyfish", "sulphur butterfly")
    assert any("10 common" in note for note in data.notes)


def test_test_only_sets_are_halved_and_say_so():
    for name in ("dtd", "caltech101", "pets"):
        assert any("half and half" in note for note in real(name).notes)


def test_a_nearest_neighbour_knows_most_usps_digits():
    # images and labels in step: 95 % is out of reach for any wrong pairing
    data = real("usps")
    train, test = data.train_images.flatten(1).float(), data.test_images.flatten(1).float()[:300]
    guess = data.train_labels[torch.cdist(test, train).argmin(1)]
    assert (guess == data.test_labels[:300]).float().mean() > 0.9


def test_a_colour_classifier_beats_chance_on_every_colour_set():
    # mean colours of halves of the image and a nearest class mean: weak, yet far from chance where labels fit
    for name in ("cifar10", "tinyimagenet", "tinyimagenet100", "dtd", "caltech101"):
        data = real(name)
        train, test = (
            torch.nn.functional.adaptive_avg_pool2d(x.float(), 2).flatten(1) for x, _ in (data.train, data.test)
        )
        means = torch.stack([train[data.train_labels == label].mean(0) for label in range(len(data.classes))])
        hits = (torch.cdist(test, means).argmin(1) == data.test_labels).float().mean()
        assert hits > 1.5 / len(data.classes), name


def test_a_class_of_test_only_data_is_halved_alike_alone_and_in_company():
    alone, whole = load("dtd[2,5]", root=ROOT), real("dtd")
    rows = (whole.train_labels == 5).nonzero().flatten()
    assert torch.equal(alone.train_images[alone.train_labels == 1], whole.train_images[rows])


def test_the_original_is_not_mistaken_for_the_small_files():
    with pytest.raises(MissingDataError, match="dtd/dtd"):
        load("torchvision/dtd", root=ROOT, download=False)
