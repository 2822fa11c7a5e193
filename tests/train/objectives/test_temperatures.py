"""Temperatures of a training: fixed, on a ramp, following the logits; and what cannot be divided."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from winze.networks import MLP
from winze.train import SGD, Checkpoints, Classify, Epochs, Ramp, Training, fit

X = torch.randn(24, 6, generator=torch.Generator().manual_seed(0))
Y = torch.arange(24) % 3


def trained(epochs: int, lr: float = 0.1, checkpoints=None, followers=(), **goal) -> torch.Tensor:
    torch.manual_seed(0)
    net = MLP(6, 8, 2, 3)
    training = Training(Epochs(epochs), 8, SGD(lr), objective=Classify(**goal))
    fit(net, (X, Y), training, checkpoints=checkpoints, followers=followers)
    return torch.cat([p.detach().flatten() for p in net.parameters()])


def test_a_ramp_moves_by_equal_factors():
    ramp = Ramp(1.0, 100.0)
    torch.testing.assert_close([ramp.at(p) for p in (0, 0.25, 0.5, 1.0)], [1.0, math.sqrt(10), 10.0, 100.0])


def test_a_ramp_stays_where_it_has_arrived():
    ramp = Ramp(100.0, 1.0, share=0.5)
    assert ramp.at(0.25) == pytest.approx(10)
    assert ramp.at(0.5) == ramp.at(1.0) == pytest.approx(1)


def test_every_step_of_a_training_has_its_own_temperature():
    seen = []
    objective = Classify(temperature=Ramp(1.0, 64.0)).build(steps=6)

    def watch(net, step):
        seen.append(float(objective.temperature.temperature))

    fit(MLP(6, 8, 2, 3), (X, Y), Training(Epochs(2), 8, objective=objective), followers=[watch])
    assert seen == pytest.approx([2.0**step for step in range(7)])


def test_a_ramp_that_stands_still_is_a_fixed_temperature():
    torch.testing.assert_close(trained(2, 0.5, temperature=Ramp(5.0, 5.0)), trained(2, 0.5, temperature=5.0))


def test_a_training_on_a_ramp_goes_on_where_it_was_stopped(tmp_path):
    ramp = Ramp(1.0, 50.0)
    whole = trained(4, temperature=ramp)

    def stop(net, step):
        if step == 9:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(4, checkpoints=Checkpoints(tmp_path), followers=[stop], temperature=ramp)
    assert torch.equal(trained(4, checkpoints=Checkpoints(tmp_path), temperature=ramp), whole)


def test_compensation_multiplies_the_loss_by_the_temperature():
    logits, y = torch.randn(5, 3), torch.arange(5) % 3
    objective = Classify(temperature=20.0, compensate=True).build(1)
    torch.testing.assert_close(objective(nn.Identity(), logits, y), 20 * F.cross_entropy(logits / 20, y))


def test_for_plain_descent_compensation_is_a_higher_rate():
    torch.testing.assert_close(trained(2, 0.05, temperature=4.0, compensate=True), trained(2, 0.2, temperature=4.0))


class Remembers:
    """A follower that counts, and whose count outlives a stop."""

    def __init__(self):
        self.seen = 0

    def __call__(self, net, step):
        self.seen += 1

    def state_dict(self):
        return {"seen": self.seen}

    def load_state_dict(self, state):
        self.seen = state["seen"]


def test_what_a_follower_remembers_is_kept_with_the_training(tmp_path):
    first, second = Remembers(), Remembers()
    trained(2, checkpoints=Checkpoints(tmp_path), followers=[first])
    trained(3, checkpoints=Checkpoints(tmp_path), followers=[second])
    assert (first.seen, second.seen) == (1 + 2 * 3, 1 + 3 * 3)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, "norms", True])
def test_a_temperature_that_is_none_is_refused(value):
    goal = Classify()
    object.__setattr__(goal, "temperature", value)  # types are enforced while testing, before the check could speak
    with pytest.raises(ValueError, match=r"temperature must be a positive number \| 'norm' \| Ramp, not"):
        goal.__post_init__()


@pytest.mark.parametrize(("first", "last"), [(0.0, 1.0), (1.0, 0.0), (1.0, -5.0), (math.inf, 1.0)])
def test_a_ramp_that_begins_or_ends_at_zero_is_refused(first, last):
    with pytest.raises(ValueError, match=r"(first|last) must be a positive number"):
        Ramp(first, last)


def test_a_ramp_over_no_time_is_refused():
    with pytest.raises(ValueError, match="share must be a number in"):
        Ramp(1.0, 2.0, share=0.0)


def test_a_temperature_that_follows_the_logits_cannot_be_compensated():
    with pytest.raises(ValueError, match="compensate"):
        Classify(temperature="norm", compensate=True)


@pytest.mark.parametrize(
    ("net", "said"),
    [(nn.Unflatten(1, (3, 2)), r"a tensor of shape \(8, 3, 2\)"), (nn.LSTM(6, 3), "a tuple")],
    ids=["map", "pair"],
)
def test_outputs_that_are_no_logits_are_named(net, said):
    objective = Classify(temperature="norm").build(1)
    with pytest.raises(ValueError, match=rf"logits \[sample, class\]; {type(net).__name__} outputs {said}"):
        objective(net, X[:8], Y[:8])
