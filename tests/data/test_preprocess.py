"""From stored bytes to network input."""

import json

import numpy as np
import pytest
import torch
from torchvision.transforms import v2

from winze.data import DataError, Preprocess, channel_statistics, load
from winze.data.dataset import Dataset
from winze.data.image_tensors import resize_square

GREY = torch.randint(0, 256, (5, 1, 28, 28), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
COLOUR = torch.randint(0, 256, (5, 3, 32, 48), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
IMAGENET = {"input_size": (3, 64, 64), "mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}


def tiny(images):
    labels = torch.arange(len(images)) % 2
    return Dataset("tiny", images, labels, images, labels, ("a", "b"), "here")


@pytest.mark.parametrize("size", [(64, 64), (16, 20), (32, 48)])
def test_resizing_and_normalising_agree_with_torchvision(size):
    ours = Preprocess(size, IMAGENET["mean"], IMAGENET["std"])(COLOUR)
    steps = [v2.ToDtype(torch.float32, scale=True), v2.Resize(size, antialias=True)]
    theirs = v2.Compose([*steps, v2.Normalize(IMAGENET["mean"], IMAGENET["std"])])(COLOUR)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


def test_grey_becomes_colour_by_repetition():
    out = Preprocess(None, (0.0,) * 3, (1.0,) * 3)(GREY)
    for channel in range(3):
        assert torch.equal(out[:, channel], GREY[:, 0].float() / 255)


def test_colour_becomes_grey_by_luma():
    out = Preprocess(None, (0.0,), (1.0,), channels=1)(COLOUR)
    expected = v2.functional.rgb_to_grayscale(COLOUR.double() / 255)
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=2e-4)


def test_padding_puts_black_around_and_changes_no_pixel():
    out = Preprocess((32, 32), (0.5,), (0.25,), channels=1, fit="pad")(GREY)
    assert torch.equal(out[:, :, 2:30, 2:30], (GREY.float() / 255 - 0.5) / 0.25)
    out[:, :, 2:30, 2:30] = -2.0
    assert (out == -2.0).all()


def test_an_odd_padding_puts_the_extra_line_at_the_end():
    out = Preprocess((31, 28), (0.0,), (1.0,), channels=1, fit="pad")(GREY + 1)
    assert torch.equal((out[0, 0] != 0).any(1).nonzero().flatten()[[0, -1]], torch.tensor([1, 28]))


def test_statistics_agree_with_float64():
    mean, std = channel_statistics(COLOUR)
    reference = COLOUR.double().div(255).transpose(0, 1).flatten(1)
    np.testing.assert_allclose(mean, reference.mean(1), rtol=1e-12)
    np.testing.assert_allclose(std, reference.std(1, correction=0), rtol=1e-12)


def test_a_set_normalised_by_its_own_statistics_is_standard():
    out = Preprocess.of(tiny(COLOUR))(COLOUR).transpose(0, 1).flatten(1)
    torch.testing.assert_close(out.mean(1), torch.zeros(3), rtol=0, atol=1e-5)
    torch.testing.assert_close(out.std(1, correction=0), torch.ones(3), rtol=0, atol=1e-5)


def test_own_statistics_follow_the_wanted_channels():
    assert Preprocess.of(tiny(GREY), channels=3).mean == Preprocess.of(tiny(GREY)).mean * 3
    grey = Preprocess.of(tiny(COLOUR), channels=1)
    assert grey(COLOUR).mean() == pytest.approx(0, abs=5e-3)
    assert grey(COLOUR).std(correction=0) == pytest.approx(1, abs=5e-3)


def test_a_constant_channel_is_only_centred():
    flat = torch.full((4, 1, 3, 3), 51, dtype=torch.uint8)
    out = Preprocess.of(tiny(flat))(flat)
    assert out.abs().max() < 1e-6


@pytest.mark.parametrize("size", [None, (32, 24)])
@pytest.mark.parametrize("fit", ["resize", "pad"])
def test_a_preprocessing_survives_json(size, fit):
    one = Preprocess(size, (0.1 + 0.2,), (1 / 3,), 1, fit)
    assert Preprocess.from_dict(json.loads(json.dumps(one.to_dict()))) == one


def test_a_timm_configuration_is_understood():
    import timm

    config = timm.create_model("resnet18", pretrained=False).pretrained_cfg
    assert Preprocess.from_config(config) == Preprocess((224, 224), tuple(config["mean"]), tuple(config["std"]))


def test_mnist_sized_digits_can_be_padded_for_a_colour_network():
    out = Preprocess.of(load("digits"), size=32, channels=3, fit="pad")(load("digits").test_images[:7])
    assert out.shape == (7, 3, 32, 32)
    assert out.dtype == torch.float32


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"channels": 2, "mean": (0.0,) * 2, "std": (1.0,) * 2}, "2 channels"),
        ({"mean": (0.0,)}, "1 means and 3 stds"),
        ({"std": (1.0, 1.0, 0.0)}, "must be positive"),
        ({"std": (1.0, 1.0, float("nan"))}, "must be positive"),
        ({"size": (0, 4)}, "at least one pixel"),
    ],
)
def test_impossible_preprocessings_are_refused(arguments, says):
    with pytest.raises(DataError, match=says):
        Preprocess(**({"size": None, "mean": (0.0,) * 3, "std": (1.0,) * 3} | arguments))


def test_padding_to_less_than_there_is_is_refused():
    with pytest.raises(DataError, match="cannot be padded to 20 x 20"):
        Preprocess((20, 20), (0.0,), (1.0,), channels=1, fit="pad")(GREY)


@pytest.mark.parametrize("key", ["input_size", "mean", "std"])
def test_a_configuration_that_lacks_something_says_what(key):
    with pytest.raises(DataError, match=f"lacks {key}"):
        Preprocess.from_config({name: value for name, value in IMAGENET.items() if name != key})


@pytest.mark.parametrize("stored", [{}, {"size": None}, {"size": 3, "mean": 1, "std": 1, "channels": 1, "fit": "pad"}])
def test_something_else_is_no_stored_preprocessing(stored):
    with pytest.raises(DataError, match="not a stored preprocessing"):
        Preprocess.from_dict(stored)


def test_what_is_no_preprocessing_is_shown_in_brief():
    with pytest.raises(DataError, match="not a stored preprocessing") as found:
        Preprocess.from_dict({"mean": [1.0] * 1000})
    assert len(str(found.value)) < 200


def test_points_need_no_preprocessing():
    with pytest.raises(DataError, match="spiral holds points"):
        Preprocess.of(load("spiral"))


def test_a_square_is_cut_from_the_centre_before_resizing():
    striped = torch.zeros((1, 1, 8, 24), dtype=torch.uint8)
    striped[..., 8:16] = 90
    assert (resize_square(striped, 4) == 90).all()


def test_loading_at_another_size_resizes():
    assert load("digits", size=12).shape == (1, 12, 12)


def test_a_single_channel_is_never_taken_for_channels_last():
    stored = torch.zeros(5, 8, 8, dtype=torch.uint8)[:, None].to(memory_format=torch.channels_last)
    ready = Preprocess(None, (0.5,), (0.5,), channels=1)(stored)
    assert ready.stride() == torch.empty(5, 1, 8, 8).stride()
