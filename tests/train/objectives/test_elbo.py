"""The evidence lower bound against closed forms, and networks that share one trunk."""

import math
import re

import pytest
import torch
from torch import nn
from torch.distributions import Normal, kl_divergence

from winze.networks import NetworkError, build
from winze.train.objectives.elbo import Elbo, NegativeElbo

X = torch.rand(5, 1, 4, 4, generator=torch.Generator().manual_seed(0)).double()


class Known(nn.Module):
    """A network whose outputs are known."""

    def __init__(self, *outputs):
        super().__init__()
        self.outputs = outputs

    def forward(self, x):
        return self.outputs


def outputs():
    draw = torch.Generator().manual_seed(1)
    return [torch.randn(*shape, generator=draw).double() for shape in ((5, 1, 4, 4), (5, 3), (5, 3))]


def test_its_parts_are_the_squared_error_and_the_divergence_from_a_normal():
    found, mean, log_variance = outputs()
    parts = Elbo(beta=2.0).build(1)(Known(found, mean, log_variance), X, None)
    expected = kl_divergence(Normal(mean, (log_variance / 2).exp()), Normal(0.0, 1.0)).sum(1).mean()
    assert parts["kl"].item() == pytest.approx(2 * expected.item(), rel=1e-6)
    assert parts["distortion"].item() == pytest.approx((found - X).square().sum().item() / 5, rel=1e-12)


def test_bernoulli_distortion_is_minus_the_log_likelihood():
    found, mean, log_variance = outputs()
    parts = Elbo(likelihood="bernoulli").build(1)(Known(found, mean, log_variance), X, None)
    p = found.sigmoid()
    expected = -(X * p.log() + (1 - X) * (1 - p).log()).sum() / 5
    assert parts["distortion"].item() == pytest.approx(expected.item(), rel=1e-9)


def test_the_weight_of_the_divergence_warms_up_and_survives_a_checkpoint():
    objective = Elbo(beta=0.5, warmup=0.4).build(10)
    weights = []
    for _ in range(6):
        weights.append(objective.weight.item())
        objective.advance()
    assert weights == pytest.approx([0, 0.125, 0.25, 0.375, 0.5, 0.5])
    objective = Elbo(beta=0.5, warmup=0.4).build(10)
    objective.advance()
    again = Elbo(beta=0.5, warmup=0.4).build(10)
    again.load_state_dict(objective.state_dict())
    assert again.weight.item() == pytest.approx(0.125)


def test_it_is_judged_by_the_mean_squared_error():
    found, mean, log_variance = outputs()
    judged = NegativeElbo().judge(Known(found, mean, log_variance), X, None)
    assert judged["reconstruction"].item() / 5 == pytest.approx((found - X).square().mean().item())
    assert judged["negative_elbo"] > judged["divergence"]


@pytest.mark.parametrize("hidden", [(6, 4, 2, 4, 6), (6, 2, 3)])
def test_all_three_models_have_the_same_trunk(hidden):
    nets = {name: build(f"winze/{name}", inputs=16, hidden=hidden) for name in ("discriminative", "autoencoder", "vae")}
    for net in nets.values():
        assert net.features(X.float()).shape == (5, hidden[-1])
    shapes = [
        {name: one.shape for name, one in net.state_dict().items() if not name.startswith("output")}
        for net in nets.values()
    ]
    assert shapes[0] == shapes[1]
    counts = [sum(math.prod(shape) for shape in one.values()) for one in shapes]
    code = min(hidden)
    before = hidden[hidden.index(code) - 1]
    assert counts[2] - counts[1] == code * (before + 1)  # the second map, of the variance
    assert nets["autoencoder"](X.float()).shape == X.shape
    assert nets["discriminative"](X.float()).shape == (5, 2)


def test_a_vae_samples_in_training_and_uses_the_mean_in_evaluation():
    net = build("winze/vae", inputs=16, hidden=(6, 2, 6))
    x = X.float()
    assert not torch.equal(net(x)[0], net(x)[0])
    net.eval()
    assert torch.equal(net(x)[0], net(x)[0])
    assert torch.allclose(net(x)[0].flatten(1), net.output(net.features(x)))


@pytest.mark.parametrize(
    ("made", "error", "said"),
    [
        (lambda: Elbo(beta=-1.0), ValueError, "beta must be a finite number"),
        (lambda: Elbo(warmup=1.5), ValueError, "warmup must be a number in"),
        (lambda: likelihood("poisson"), ValueError, "likelihood must be 'gaussian' | 'bernoulli', not 'poisson'"),
        (lambda: NegativeElbo()(nn.Flatten(), X, None), ValueError, "Flatten outputs a Tensor"),
        (lambda: build("winze/autoencoder", hidden=(8, 4, 2)), NetworkError, "narrow and widen again"),
        (lambda: build("winze/generator", side=10), NetworkError, "doubles the side twice"),
        (lambda: build("winze/learner_cnn", kind="rnn"), NetworkError, "kind is 'cnn' or 'mlp'"),
    ],
)
def test_what_makes_no_sense_is_named(made, error, said):
    with pytest.raises(error, match=re.escape(said)):
        made()


def likelihood(name):
    """A goal whose likelihood was set past the types that are enforced while testing."""
    goal = Elbo()
    object.__setattr__(goal, "likelihood", name)
    goal.__post_init__()
