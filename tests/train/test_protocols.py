"""Protocols that judge an encoder: what they train, what they leave alone, and the published settings."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import winze
from winze.networks.models.mae import MaskedAutoencoder
from winze.train import Epochs, Hardware
from winze.train.optimizers import make_optimizer
from winze.train.protocols import LINEAR, FineTune, features_of, linear_head, neighbours

CPU = Hardware(accelerator="cpu")
LABELS = torch.arange(96) % 3
IMAGES = torch.randn(96, 3, 8, 8, generator=torch.Generator().manual_seed(0)) + 3 * LABELS.view(-1, 1, 1, 1)
DATA = (IMAGES[:64], LABELS[:64]), (IMAGES[64:], LABELS[64:])


def encoder():
    torch.manual_seed(0)
    sizes = {"depth": 2, "width": 16, "side": 8, "patch": 4, "decoder_depth": 1, "decoder_width": 16, "heads": 2}
    return MaskedAutoencoder(**sizes, zero_init=False).encoder.train()


def shorter(protocol, epochs=4):
    schedule = replace(protocol.training.schedule, warmup=Epochs(0))
    training = replace(protocol.training, length=Epochs(epochs), schedule=schedule, evaluate=Epochs(epochs))
    return replace(protocol, training=training)


@pytest.mark.parametrize(("name", "pool"), [("imagenet1k", "token"), ("imagenet100", "mean")])
def test_a_linear_probe_learns_and_leaves_the_encoder_as_it_was(name, pool):
    net = encoder()
    before = {key: one.clone() for key, one in net.state_dict().items()}
    history = shorter(LINEAR[name]).fit(net, *DATA, pool=pool, hardware=CPU, progress=False)
    assert history.losses[-1] < history.losses[0]
    assert 0 <= history.metrics[-1]["accuracy"] <= 1
    assert all(torch.equal(one, before[key]) for key, one in net.state_dict().items())
    assert net.training
    assert all(one.requires_grad and one.grad is None for one in net.parameters())


def test_separate_classes_are_told_apart_without_augmentation():
    history = shorter(LINEAR["imagenet100"], 60).fit(encoder(), *DATA, pool="mean", hardware=CPU, progress=False)
    assert history.metrics[-1]["accuracy"] > 0.9


def test_the_published_settings_stand():
    large, small = LINEAR["imagenet1k"], LINEAR["imagenet100"]
    assert (large.training.optimizer.lr, large.training.batch, large.training.length.count) == (6.4, 16384, 90)
    assert (small.training.optimizer.lr, small.training.batch, small.training.length.count) == (1e-2, 1024, 200)
    assert (large.norm, small.norm) == (True, False)
    assert small.training.augment == ()
    assert large.for_samples(256).optimizer.lr == pytest.approx(0.1)
    assert small.for_samples(256).optimizer.lr == 1e-2


def test_a_head_with_a_norm_has_no_parameters_but_the_linear_layers():
    assert sum(one.numel() for one in linear_head(8, 3, norm=True).parameters()) == 8 * 3 + 3


def test_lars_adapts_matrices_and_leaves_vectors_to_plain_momentum():
    torch.manual_seed(0)
    layer = nn.Linear(5, 3)
    config = LINEAR["imagenet1k"].for_samples(64).optimizer
    optimizer = make_optimizer(layer, config, torch.device("cpu"))
    weight, bias = layer.weight.detach().clone(), layer.bias.detach().clone()
    momentum = [torch.zeros_like(weight), torch.zeros_like(bias)]
    for _ in range(3):
        layer.weight.grad, layer.bias.grad = torch.randn(3, 5), torch.randn(3)
        trust = 1e-3 * weight.norm() / layer.weight.grad.norm()
        momentum = [0.9 * momentum[0] + trust * layer.weight.grad, 0.9 * momentum[1] + layer.bias.grad]
        weight, bias = weight - config.lr * momentum[0], bias - config.lr * momentum[1]
        optimizer.step()
    assert torch.allclose(layer.weight, weight, rtol=1e-4)
    assert torch.allclose(layer.bias, bias, rtol=1e-4)


def test_neighbours_vote_by_the_features_of_the_encoder():
    assert neighbours(encoder(), *DATA) > 0.6
    torch.manual_seed(1)
    shuffled = (DATA[0][0], DATA[0][1][torch.randperm(64)])
    assert neighbours(encoder(), shuffled, DATA[1]) < 0.6


def test_features_are_the_class_token_or_the_mean_of_all():
    net = encoder()
    tokens = net(IMAGES[:5])
    assert torch.allclose(features_of(net, IMAGES[:5]), tokens[:, 0])
    assert torch.allclose(features_of(net, IMAGES[:5], pool="mean"), tokens.mean(1), atol=1e-6)


def test_fine_tuning_trains_a_copy_with_lower_rates_for_early_layers():
    net = winze.rewire(encoder(), winze.DecayedIdentity(0.6), example=IMAGES[:2])
    before = {key: one.clone() for key, one in net.state_dict().items()}
    tuned = shorter(FineTune())
    rates = dict(tuned.rates(net))
    assert rates["encoder.blocks.1.*"] == pytest.approx(0.65)
    assert rates["encoder.blocks.0.*"] == pytest.approx(0.65**2)
    assert rates["encoder.*"] == pytest.approx(0.65**3)
    history = tuned.fit(net, *DATA, hardware=CPU, progress=False)
    assert history.losses[-1] < history.losses[0]
    assert all(torch.equal(one, before[key]) for key, one in net.state_dict().items())


def test_an_encoder_without_blocks_is_named():
    with pytest.raises(ValueError, match="needs an encoder with `blocks`; Linear has none"):
        FineTune().rates(nn.Linear(2, 2))
