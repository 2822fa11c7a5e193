"""Autoencoders and Inception from files on this machine: what is found, what is said where nothing is."""

import pytest
import torch
from torch import nn

from winze.networks import NetworkError
from winze.networks.inception import FIDELITY, TORCHVISION, MissingWeightsError, inception
from winze.networks.latents import FACTOR, Latents, kl_autoencoder


class Halving(nn.Module):
    def encode(self, images):
        return images[:, :, ::2, ::2]

    def decode(self, latents):
        return latents.repeat_interleave(2, 2).repeat_interleave(2, 3)


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setattr(torch.hub, "_hub_dir", None)
    monkeypatch.delenv("WINZE_WEIGHTS", raising=False)
    return tmp_path


def test_latents_are_scaled_and_decoded_back():
    images = torch.randn(5, 3, 4, 4).repeat_interleave(2, 2).repeat_interleave(2, 3)
    latents = Latents(Halving(), batch=2)
    z = latents.encode(images)
    assert torch.allclose(z, FACTOR * images[:, :, ::2, ::2])
    assert torch.allclose(latents.decode(z), images, atol=1e-6)


def test_what_is_no_autoencoder_is_named():
    with pytest.raises(NetworkError, match="Linear has no encode"):
        Latents(nn.Linear(2, 2))
    with pytest.raises(NetworkError, match="must be positive, not 0"):
        Latents(Halving(), factor=0)


def test_a_kl_autoencoder_is_read_from_its_folder(tmp_path):
    diffusers = pytest.importorskip("diffusers")
    torch.manual_seed(0)
    small = diffusers.AutoencoderKL(block_out_channels=(32, 32), down_block_types=("DownEncoderBlock2D",) * 2,
                                    up_block_types=("UpDecoderBlock2D",) * 2, latent_channels=4)  # fmt: skip
    small.save_pretrained(tmp_path)
    latents = kl_autoencoder(tmp_path)
    images = torch.rand(2, 3, 16, 16) * 2 - 1
    z = latents.encode(images)
    assert torch.allclose(z, 0.18215 * small.eval().encode(images).latent_dist.mean, atol=1e-5)
    assert latents.decode(z).shape == images.shape
    assert not torch.equal(latents.encode(images, sample=True), z)


def test_a_folder_without_an_autoencoder_is_named(tmp_path):
    pytest.importorskip("diffusers")
    with pytest.raises(MissingWeightsError, match=r"no autoencoder in .*config\.json.*safetensors"):
        kl_autoencoder(tmp_path)


def test_missing_inception_weights_are_named_with_every_place(nowhere, monkeypatch):
    monkeypatch.setenv("WINZE_WEIGHTS", str(nowhere / "one"))
    with pytest.raises(MissingWeightsError) as raised:
        inception([nowhere / "two"])
    told = str(raised.value)
    assert all(name in told for name in (*FIDELITY, *TORCHVISION))
    assert all(str(nowhere / place) in told for place in ("one", "two", "torch/hub/checkpoints"))


def test_a_file_that_is_no_inception_is_named(nowhere):
    torch.save({"weight": torch.zeros(2)}, nowhere / TORCHVISION[0])
    with pytest.raises(NetworkError, match="does not hold torchvision's Inception"):
        inception([nowhere])


@pytest.mark.slow
def test_torchvisions_weights_give_2048_features_of_small_images(nowhere):
    from torchvision.models import inception_v3

    net = inception_v3(weights=None, init_weights=False)
    torch.save(net.state_dict(), nowhere / TORCHVISION[0])
    found = inception([nowhere])
    features = found(torch.rand(2, 1, 8, 8))
    assert features.shape == (2, 2048)
    assert found.name == "Inception by torchvision"
