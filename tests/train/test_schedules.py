import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from winze.train import Training
from winze.train.schedules import learning_rate


def test_a_constant_rate_stays():
    rate = learning_rate(Training(3, lr=0.2), 10)
    assert {rate(step) for step in range(30)} == {0.2}


def test_steps_fall_at_their_milestones():
    rate = learning_rate(Training(160, lr=0.1, schedule="step", milestones=(80, 120)), 2)
    assert [rate(2 * e) for e in (0, 79, 80, 119, 120, 159)] == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001, 0.001])


def test_the_warm_up_is_a_straight_line_and_the_cosine_is_timms():
    """timm counts the warm-up inside the epochs: after it the cosine is where it would have been without."""
    from timm.scheduler import CosineLRScheduler
    from torch import nn, optim

    optimizer = optim.SGD(nn.Linear(1, 1).parameters(), lr=0.05)
    theirs = CosineLRScheduler(optimizer, t_initial=30, lr_min=1e-6, warmup_t=5, warmup_lr_init=1e-5)
    ours = learning_rate(
        Training(30, lr=0.05, schedule="cosine", per="epoch", warmup=5, warmup_lr=1e-5, min_lr=1e-6), 7
    )
    for epoch in range(30):
        theirs.step(epoch)
        assert ours(7 * epoch + 3) == pytest.approx(optimizer.param_groups[0]["lr"])


@settings(max_examples=30)
@given(epochs=st.integers(1, 12), steps=st.integers(1, 7), warmup=st.floats(0, 1), low=st.floats(0, 0.1))
def test_the_cosine_never_leaves_its_bounds(epochs, steps, warmup, low):
    training = Training(epochs, lr=0.1, schedule="cosine", warmup=warmup * epochs, min_lr=low)
    rate = learning_rate(training, steps)
    rates = [rate(step) for step in range(epochs * steps)]
    assert all(0 <= rate <= 0.1 + 1e-12 and math.isfinite(rate) for rate in rates)
    after = rates[math.ceil(warmup * epochs * steps) :]
    assert after == sorted(after, reverse=True)
