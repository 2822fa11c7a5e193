import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from winze.train import SGD, Cosine, CosineAfterWarmup, Epochs, Milestones, Steps, Training
from winze.train.optimizers import learning_rate


def test_a_constant_rate_stays():
    rate = learning_rate(Training(Epochs(3), optimizer=SGD(0.2)), 10)
    assert {rate(step) for step in range(30)} == {0.2}


def test_steps_fall_at_their_milestones():
    rate = learning_rate(Training(Epochs(160), optimizer=SGD(0.1), schedule=Milestones(at=(80, 120))), 2)
    assert [rate(2 * e) for e in (0, 79, 80, 119, 120, 159)] == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001, 0.001])


def test_the_warm_up_is_a_straight_line_and_the_cosine_is_timms():
    """timm counts the warm-up inside the epochs: after it the cosine is where it would have been without."""
    from timm.scheduler import CosineLRScheduler
    from torch import nn, optim

    optimizer = optim.SGD(nn.Linear(1, 1).parameters(), lr=0.05)
    theirs = CosineLRScheduler(optimizer, t_initial=30, lr_min=1e-6, warmup_t=5, warmup_lr_init=1e-5)
    schedule = Cosine(per="epoch", warmup=Epochs(5), warmup_lr=1e-5, min_lr=1e-6)
    ours = learning_rate(Training(Epochs(30), optimizer=SGD(0.05), schedule=schedule), 7)
    for epoch in range(30):
        theirs.step(epoch)
        assert ours(7 * epoch + 3) == pytest.approx(optimizer.param_groups[0]["lr"])


def test_the_cosine_after_the_warm_up_is_that_of_masked_autoencoders():
    training = Training(Epochs(20), optimizer=SGD(0.3), schedule=CosineAfterWarmup(warmup=Epochs(4), min_lr=0.01))
    rate = learning_rate(training, 5)
    for step in range(100):
        e = step / 5
        rest = 0.01 + 0.29 / 2 * (1 + math.cos(math.pi * (e - 4) / (20 - 4)))
        assert rate(step) == pytest.approx(0.3 * e / 4 if e < 4 else rest)


def test_a_warm_up_in_another_unit_than_the_length_is_refused():
    with pytest.raises(ValueError, match="counts its warm-up as the length"):
        Training(Epochs(20), schedule=CosineAfterWarmup(warmup=Steps(4)))


@settings(max_examples=30)
@given(epochs=st.integers(1, 12), steps=st.integers(1, 7), warmup=st.floats(0, 1), low=st.floats(0, 0.1))
def test_the_cosine_never_leaves_its_bounds(epochs, steps, warmup, low):
    training = Training(Epochs(epochs), optimizer=SGD(0.1), schedule=Cosine(warmup=Epochs(warmup * epochs), min_lr=low))
    rate = learning_rate(training, steps)
    rates = [rate(step) for step in range(epochs * steps)]
    assert all(0 <= rate <= 0.1 + 1e-12 and math.isfinite(rate) for rate in rates)
    after = rates[math.ceil(warmup * epochs * steps) :]
    assert after == sorted(after, reverse=True)


@pytest.mark.parametrize("schedule", [Cosine(), Cosine(warmup=Epochs(2)), Cosine(min_lr=0.01, warmup_lr=0.01)], ids=str)
def test_a_length_in_steps_is_the_same_length_in_epochs(schedule):
    rates = [learning_rate(Training(length, schedule=schedule), 5) for length in (Epochs(6), Steps(30))]
    assert [rates[0](step) for step in range(30)] == pytest.approx([rates[1](step) for step in range(30)])


def test_milestones_count_in_the_unit_of_the_length():
    rate = learning_rate(Training(Steps(100), optimizer=SGD(1.0), schedule=Milestones(at=(40, 60))), 7)
    assert [rate(step) for step in (39, 40, 59, 60)] == pytest.approx([1, 0.1, 0.1, 0.01])


def test_a_warm_up_in_steps_is_a_straight_line():
    schedule = Milestones(at=(), warmup=Steps(4), warmup_lr=0.2)
    rate = learning_rate(Training(Epochs(3), optimizer=SGD(1.0), schedule=schedule), 7)
    assert [rate(step) for step in range(6)] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1, 1])
