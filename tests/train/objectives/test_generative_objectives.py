"""Masked reconstruction and noise prediction: losses against their formulas, and what scans read of the networks."""

import math

import pytest
import torch
from torch import nn

import winze
from winze.networks.models.mae import MaskedAutoencoder
from winze.networks.models.uvit import AtTime, UViT
from winze.train import Adam, Hardware, Steps, Training, fit
from winze.train.objectives.denoise import Denoise, NoisePrediction
from winze.train.objectives.reconstruct import MaskedReconstruct, MaskedSquaredError, Reconstruct

IMAGES = torch.randn(6, 3, 8, 8, generator=torch.Generator().manual_seed(0))
CPU = Hardware(accelerator="cpu")


def mae(**options):
    torch.manual_seed(0)
    sizes = {"depth": 4, "width": 32, "side": 8, "patch": 2, "decoder_depth": 2, "decoder_width": 32}
    return MaskedAutoencoder(**sizes | options)


class Fixed(nn.Module):
    """An autoencoder whose prediction and mask are known."""

    def __init__(self, predicted, mask):
        super().__init__()
        self.predicted, self.mask = predicted, mask
        self.patches = mae().patches

    def forward(self, x):
        return self.predicted, self.mask


@pytest.mark.parametrize("normalised", [True, False])
def test_only_hidden_patches_count_and_targets_are_normalised(normalised):
    net = mae()
    target = net.patches(IMAGES)
    mask = (torch.rand(6, 16) < 0.7).float()
    predicted = torch.randn(6, 16, 12)
    expected = []
    for sample in range(6):
        for patch in range(16):
            if mask[sample, patch]:
                t = target[sample, patch]
                t = (t - t.mean()) / (t.var() + 1e-6).sqrt() if normalised else t
                expected.append(((predicted[sample, patch] - t) ** 2).mean())
    loss = MaskedSquaredError(normalised)(Fixed(predicted, mask), IMAGES, None)
    assert torch.allclose(loss, torch.stack(expected).mean(), rtol=1e-5)


def test_an_autoencoder_that_predicts_the_hidden_patches_has_no_loss():
    net = mae()
    mask = torch.ones(6, 16)
    assert MaskedSquaredError(False)(Fixed(net.patches(IMAGES), mask), IMAGES, None) == 0


def test_a_masked_autoencoder_learns_without_labels_and_its_encoder_is_what_is_read():
    net, objective = mae(), MaskedReconstruct().build(1)
    x = torch.linspace(0, 1, 64).view(1, 1, 8, 8).expand(32, 3, 8, 8) + 0.1 * torch.randn(32, 1, 1, 1)
    training = Training(Steps(60), batch=16, optimizer=Adam(3e-3), objective=MaskedReconstruct())
    history = fit(net, x, training, tests={"test": x}, hardware=CPU, progress=False)
    assert history.losses[-1] < 0.7 * history.losses[0]
    assert "reconstruction" in history.metrics[-1]
    assert objective.view(net) is net.encoder
    assert objective.view(net)(x).shape == (32, 17, 32)


def test_an_encoder_is_scanned_at_its_blocks_by_class_token_and_by_mean():
    net = mae()
    y = torch.arange(6) % 2
    for pool in ("token", "mean"):
        scan = winze.scan(net.encoder, (IMAGES, y), (IMAGES, y), measures=("rank",), pool=pool, progress=False)
        assert list(dict.fromkeys(scan.table["place"].dropna()))[:4] == [f"blocks.{number}" for number in range(4)]


def test_a_strong_decay_warns_with_the_reason():
    net = winze.rewire(mae(), winze.DecayedIdentity(0.4), where="encoder.*", example=IMAGES)
    product = math.prod(1 - 0.6 * number / 7 for number in range(8))
    with pytest.warns(UserWarning, match=f"unstable.* alpha_min <= 0.4; .* 8 branches multiply to {product:.2g}"):
        MaskedSquaredError()(net, IMAGES, None)


def test_plain_reconstruction_is_the_mean_squared_error():
    class Half(nn.Module):
        def forward(self, x):
            return x / 2

    objective = Reconstruct().build(1)
    assert torch.allclose(objective(Half(), IMAGES, None), (IMAGES / 2).square().mean())
    assert torch.allclose(objective.judge(Half(), IMAGES, None)["reconstruction"] / 6, (IMAGES / 2).square().mean())


def test_the_noise_loss_of_a_network_that_predicts_nothing_is_one():
    class Silent(nn.Module):
        def forward(self, x, t):
            return torch.zeros_like(x)

    loss = NoisePrediction()(Silent(), torch.zeros(256, 3, 8, 8), None)
    assert loss == pytest.approx(1, abs=0.02)


def test_a_network_that_knows_the_noise_has_no_loss():
    class Knowing(nn.Module):
        """Images are zero, so that what is seen is the noise, scaled by √(1 - ᾱ)."""

        def forward(self, x, t):
            kept = torch.exp(-(0.1 * t + 19.9 * t**2 / 2)).view(-1, 1, 1, 1)
            return x / (1 - kept).sqrt()

    loss = NoisePrediction()(Knowing(), torch.zeros(64, 3, 8, 8), None)
    assert loss == pytest.approx(0, abs=1e-5)


def test_a_uvit_learns_and_is_read_at_a_time():
    torch.manual_seed(0)
    net = UViT(2, 32, side=8, patch=2)
    x = torch.linspace(-1, 1, 64).view(1, 1, 8, 8).expand(64, 3, 8, 8).clone()
    training = Training(Steps(80), batch=32, optimizer=Adam(2e-3), objective=Denoise(), evaluate=Steps(40))
    history = fit(net, x, training, tests={"test": x}, hardware=CPU, progress=False)
    errors = [row["noise_error"] for row in history.metrics if "noise_error" in row]
    assert errors[-1] < 0.9 * errors[0]
    view = Denoise(read_at=0.2).build(1).view(net)
    assert isinstance(view, AtTime)
    assert view.t == 0.2


def test_dropped_labels_are_the_embedding_of_none():
    seen = []

    class Labelled(nn.Module):
        labels = 10

        def forward(self, x, t, y):
            seen.append(y)
            return torch.zeros_like(x)

    objective = Denoise(labels=True, drop_labels=0.5).build(1)
    objective(Labelled(), torch.zeros(400, 1, 2, 2), torch.ones(400, dtype=torch.long))
    assert set(seen[0].tolist()) == {1, 10}
    assert 150 < int((seen[0] == 10).sum()) < 250
    objective.eval()
    objective.judge(Labelled(), torch.zeros(4, 1, 2, 2), torch.ones(4, dtype=torch.long))
    assert seen[-1].tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: Denoise(beta=(20.0, 0.1)), "rising and positive"),
        (lambda: Denoise(drop_labels=1.0), "drop_labels must be a number in"),
        (lambda: Denoise(read_at=-0.1), "read_at must be a number in"),
    ],
)
def test_settings_that_make_no_sense_are_named(made, said):
    with pytest.raises(ValueError, match=said):
        made()


def test_labels_that_are_missing_are_named():
    with pytest.raises(ValueError, match="needs labels"):
        Denoise(labels=True).build(1)(UViT(2, 32, side=8, labels=2), IMAGES, None)


def test_labels_that_the_network_was_not_built_for_are_named():
    net, labels = UViT(2, 32, side=8, labels=2), torch.zeros(len(IMAGES), dtype=torch.int64)
    trained, judged = (Denoise(labels=True).build(1) for _ in range(2))
    trained.labels(torch.tensor([0, 1, 2]))
    with pytest.raises(ValueError, match="labels go up to 2; the network was built for 2 classes"):
        trained(net, IMAGES, labels)  # of a batch that happens to hold none of them
    with pytest.raises(ValueError, match="labels go up to 2; the network was built for 2 classes"):
        judged.eval().judge(net, IMAGES, labels + 2)
