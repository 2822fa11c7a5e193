"""Samplers against data whose noise is known: of a Gaussian, every sampler must give back its mean and deviation."""

import pytest
import torch
from torch import nn

from winze.networks.models.uvit import UViT, kept_signal
from winze.networks.sampling import METHODS, draw

MEAN, DEVIATION = 0.5, 0.25
CALLS = []  # a sampler leaves the network as it was, so that calls are counted elsewhere


class Gaussian(nn.Module):
    """The noise that a perfect network predicts for data N(m, s²): ε = √(1 - ᾱ) (x - √ᾱ m) / (ᾱ s² + 1 - ᾱ)."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, x, t, labels=None):
        CALLS.append(t)
        kept = kept_signal(t.double()).view(-1, 1, 1, 1)
        mean = MEAN if labels is None else labels.view(-1, 1, 1, 1)
        noise = (1 - kept).sqrt() * (x.double() - kept.sqrt() * mean) / (kept * DEVIATION**2 + 1 - kept)
        return noise.to(x.dtype)


@pytest.mark.parametrize(("method", "steps"), [("sde", 1000), ("ddim", 200), ("dpm2", 40), ("dpm3", 30)])
def test_samples_of_a_gaussian_have_its_mean_and_deviation(method, steps):
    x = draw(Gaussian(), (2000, 1, 2, 2), steps=steps, method=method)
    assert x.mean() == pytest.approx(MEAN, abs=0.02)
    assert x.std() == pytest.approx(DEVIATION, rel=0.05)


@pytest.mark.parametrize(("method", "order"), [("ddim", 1), ("dpm2", 2), ("dpm3", 3)])
def test_the_error_falls_with_the_order_of_the_method(method, order):
    exact = draw(Gaussian(), (4, 1, 2, 2), steps=3000, method="dpm3")
    coarse, fine = (
        (draw(Gaussian(), (4, 1, 2, 2), steps=order * n, method=method) - exact).abs().max() for n in (16, 32)
    )
    assert coarse / fine > 0.6 * 2**order


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("steps", [1, 7, 10])
def test_steps_count_calls_of_the_network(method, steps):
    CALLS.clear()
    draw(Gaussian(), (2, 1, 2, 2), steps=steps, method=method)
    assert len(CALLS) == steps


def test_samples_depend_on_the_seed_and_not_on_the_batch():
    one, other = (draw(Gaussian(), (7, 1, 2, 2), steps=6, batch=batch) for batch in (7, 3))
    assert torch.allclose(one, other)
    assert not torch.equal(one, draw(Gaussian(), (7, 1, 2, 2), steps=6, seed=1))


def test_labels_choose_what_is_drawn():
    labels = torch.tensor([0.0, 1.0]).repeat(200)
    x = draw(Gaussian(), (400, 1, 2, 2), steps=30, labels=labels)
    assert x[labels == 0].mean() == pytest.approx(0, abs=0.05)
    assert x[labels == 1].mean() == pytest.approx(1, abs=0.05)


def test_guidance_overshoots_what_the_label_adds():
    labels = torch.ones(200)
    plain, guided = (draw(Gaussian(), (200, 1, 2, 2), steps=30, labels=labels, guidance=w) for w in (0.0, 0.5))
    assert guided.mean() > plain.mean() + 0.05


def test_a_uvit_draws_finite_images_and_is_left_as_it_was():
    net = UViT(2, 32, side=8, patch=2).train()
    x = draw(net, (3, 3, 8, 8), steps=4)
    assert torch.isfinite(x).all()
    assert net.training


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"method": "euler"}, "method is one of sde"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"guidance": 0.4}, "give labels= too"),
        ({"labels": torch.zeros(2)}, "2 labels for 1 images"),
    ],
)
def test_bad_options_are_named(options, said):
    with pytest.raises(ValueError, match=said):
        draw(Gaussian(), (1, 1, 2, 2), **options)


def test_labels_that_the_network_does_not_know_are_named():
    with pytest.raises(ValueError, match="labels run from 4 to 4; the network was built for 0 to 3"):
        draw(UViT(2, 32, side=8, labels=4), (1, 3, 8, 8), labels=torch.tensor([4]))
