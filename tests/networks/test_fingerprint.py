"""A fingerprint tells networks apart by architecture, rules and weights, and nothing else."""

import copy
import sys
import threading

import pytest
import timm
import torch
from torch import nn

import winze
from winze.networks import (
    NetworkError,
    begun_fingerprint,
    build,
    difference,
    fingerprint,
    is_untrained,
    unwrapped,
)
from winze.networks.fingerprint import _digests_of


def made(seed: int = 0, **options) -> nn.Module:
    torch.manual_seed(seed)
    return timm.create_model("test_resnet", num_classes=3, **options)


def compiled_inside(net: nn.Module) -> nn.Module:
    net.layer1 = torch.compile(net.layer1, backend="eager")
    return net


@pytest.mark.parametrize(
    "same",
    [
        nn.DataParallel,
        torch.optim.swa_utils.AveragedModel,
        lambda net: torch.compile(net, backend="eager"),
        lambda net: nn.DataParallel(torch.compile(net, backend="eager")),
        compiled_inside,
        lambda net: net.to(memory_format=torch.channels_last),
        lambda net: net.train(),
        lambda net: net.requires_grad_(False),
        lambda net: winze.rewire(winze.rewire(net, winze.Scaled(0.5)), winze.Standard()),
        copy.deepcopy,
    ],
)
def test_a_network_is_the_same_however_it_is_wrapped_or_laid_out(same):
    assert not difference(fingerprint(made()), same(made()))


def other_bit(net: nn.Module) -> nn.Module:
    with torch.no_grad():
        net.fc.bias[0] = torch.nextafter(net.fc.bias[0], torch.tensor(torch.inf))
    return net


def run_in_training(net: nn.Module) -> nn.Module:
    net.train()(torch.randn(4, 3, 32, 32))
    return net


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (lambda net: made(act_layer=nn.SiLU), "another architecture"),
        (lambda net: timm.create_model("test_vit", num_classes=3), "another architecture"),
        (lambda net: winze.rewire(net, winze.NoShortcut()), "other rules"),
        (lambda net: made(seed=1), "other weights"),
        (lambda net: net.half(), "other weights"),
        (other_bit, "other weights"),
        (run_in_training, "other weights"),
    ],
)
def test_another_network_is_said_to_be_what_it_is(other, said):
    assert said in difference(fingerprint(made()), other(made()))


def test_two_tensors_that_change_places_are_other_weights():
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    assert "other weights" in difference(fingerprint(net), nn.Sequential(net[1], net[0]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.complex64, torch.bool, torch.int8])
def test_tensors_of_every_type_are_read(dtype):
    net = nn.Module()
    net.register_buffer("held", torch.tensor([[0, 1], [1, 0]]).to(dtype))
    before = fingerprint(net)
    net.held[0, 0] = 1
    assert fingerprint(net)["weights"] != before["weights"]


def test_buffers_that_are_not_stored_do_not_count():
    net = nn.Module()
    net.register_buffer("cache", torch.zeros(2), persistent=False)
    before = fingerprint(net)
    net.cache += 1
    assert fingerprint(net) == before


def test_what_is_inside_a_wrapper_is_the_very_network():
    net = made()
    assert unwrapped(nn.DataParallel(torch.compile(net, backend="eager"))) is net


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("resnet18", r"'resnet18' is a name, not a network: pass winze.networks.build\('resnet18'\)"),
        (3, "a network is a torch.nn.Module, not a int"),
        (None, "not a NoneType"),
    ],
)
def test_what_is_no_network_is_said(given, said):
    with pytest.raises(NetworkError, match=said):
        unwrapped(given)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_scripted_network_asks_for_the_one_it_was_made_from():
    with pytest.raises(NetworkError, match="TorchScript module, whose forward cannot be read"):
        unwrapped(torch.jit.script(nn.Linear(2, 2)))


def test_a_detector_is_built_without_fetching_its_backbone(monkeypatch):
    monkeypatch.setattr("torch.hub.load_state_dict_from_url", lambda *_, **__: pytest.fail("an address was asked"))
    assert isinstance(build("torchvision/lraspp_mobilenet_v3_large"), nn.Module)


def test_one_step_of_training_shows_in_norm_layers():
    for make in (lambda: nn.BatchNorm1d(4), lambda: nn.LayerNorm(4), lambda: nn.BatchNorm1d(4, affine=False)):
        net = nn.Sequential(nn.Linear(4, 4), make(), nn.Linear(4, 2))
        assert is_untrained(net)
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        net(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
        assert not is_untrained(net)
    assert not is_untrained(nn.Linear(4, 2))  # nothing is known


class Merging(nn.Linear):
    """A layer that writes its weight when the mode is switched, as LoRA layers do."""

    def train(self, mode: bool = True) -> "Merging":
        self.weight.data.add_(1.0 if mode else -1.0)
        return super().train(mode)


def test_a_fingerprint_that_was_begun_is_of_the_network_as_it_was_then(monkeypatch):
    net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), Merging(6, 2)).eval()
    before, gate, hashed = fingerprint(net), threading.Event(), _digests_of
    monkeypatch.setattr(
        sys.modules["winze.networks.fingerprint"], "_digests_of", lambda tensors: gate.wait(10) and hashed(tensors)
    )
    begun = begun_fingerprint(net)
    net.train()(torch.randn(8, 4))
    net.double()
    gate.set()
    assert begun() == before
    assert fingerprint(net) != before
