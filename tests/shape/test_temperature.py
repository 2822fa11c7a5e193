import copy
import math

import pytest
import torch
from torch import Tensor, nn

from winze import Temperature


def logits(samples: int = 6, classes: int = 4, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(samples, classes, generator=torch.Generator().manual_seed(1)).to(dtype)


def halving(step: int) -> float:
    return 8.0 / 2**step


KINDS = [2.5, halving, "norm"]
every_kind = pytest.mark.parametrize("value", KINDS, ids=["fixed", "scheduled", "norm"])


@pytest.mark.parametrize("value", [10.0, 0.5, 1000.0])
def test_a_fixed_temperature_divides_the_logits(value):
    torch.testing.assert_close(Temperature(value)(logits()), logits() / value)


def test_a_temperature_of_one_changes_nothing():
    assert torch.equal(Temperature(1.0)(logits()), logits())


def test_a_fixed_temperature_is_not_rounded_to_the_type_of_the_logits():
    x = logits(dtype=torch.bfloat16)
    torch.testing.assert_close(Temperature(0.07)(x), x / 0.07, rtol=0, atol=0)


def test_a_fixed_temperature_stays_at_every_step():
    temperature = Temperature(3.0)
    temperature.step()
    torch.testing.assert_close(temperature(logits()), logits() / 3)


def test_a_schedule_is_read_at_every_step_from_zero():
    temperature = Temperature(halving)
    for value in (8, 4, 2, 1):
        torch.testing.assert_close(temperature(logits()), logits() / value)
        temperature.step()


def test_the_norm_of_the_logits_is_their_frobenius_norm_over_the_root_of_the_batch():
    x = logits()
    expected = x / (x.square().sum() / len(x)).sqrt()
    torch.testing.assert_close(Temperature("norm")(x), expected, rtol=1e-12, atol=1e-12)


def test_the_gradient_flows_through_the_norm():
    x, upstream = logits().requires_grad_(), logits().cos()
    (gradient,) = torch.autograd.grad(Temperature("norm")(x), x, upstream)
    # d(e/T) with T = |E|/sqrt(n): g/T - E <g, E> / (n T^3)
    n, t = len(x), x.detach().norm() / math.sqrt(len(x))
    expected = upstream / t - x.detach() * (upstream * x.detach()).sum() / (n * t**3)
    torch.testing.assert_close(gradient, expected, rtol=1e-12, atol=1e-12)


def test_the_norm_does_not_depend_on_the_batch_size():
    x = logits()
    once, thrice = Temperature("norm")(x), Temperature("norm")(x.repeat(3, 1))
    torch.testing.assert_close(thrice[: len(x)], once, rtol=1e-12, atol=1e-12)


def test_the_norm_makes_the_scale_of_the_logits_irrelevant():
    torch.testing.assert_close(
        Temperature("norm")(50 * logits()), Temperature("norm")(logits()), rtol=1e-12, atol=1e-12
    )


def test_the_norm_of_large_half_precision_logits_does_not_overflow():
    x = torch.full((256, 128), 512.0, dtype=torch.float16)
    torch.testing.assert_close(Temperature("norm")(x), torch.full_like(x, 1 / math.sqrt(128)), rtol=1e-3, atol=0)


@every_kind
def test_training_goes_on_from_a_saved_state(value):
    temperature, again = Temperature(value), Temperature(value)
    for _ in range(2):
        temperature.step()
    again.load_state_dict(copy.deepcopy(temperature.state_dict()))
    for _ in range(2):
        assert torch.equal(again(logits()), temperature(logits()))
        again.step()
        temperature.step()


@every_kind
def test_logits_keep_their_type(value):
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        assert Temperature(value)(logits(dtype=dtype)).dtype == dtype


@every_kind
def test_it_trains_under_autocast(value):
    net = nn.Sequential(nn.Linear(4, 3), Temperature(value))
    x = logits(dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        out = net(x)
    out.float().logsumexp(1).sum().backward()
    torch.testing.assert_close(out.float(), net(x), rtol=0.05, atol=0.05)
    assert net[0].weight.grad.isfinite().all()
    assert net[0].weight.grad.any()


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_a_temperature_that_is_not_positive_is_refused(value):
    with pytest.raises(ValueError, match="positive and finite"):
        Temperature(value)


def test_an_unknown_word_is_refused():
    with pytest.raises(ValueError, match=r'"norm".*\'norms\''):
        Temperature("norms")


def test_a_schedule_that_starts_at_zero_is_refused_at_once():
    with pytest.raises(ValueError, match="step 0"):
        Temperature(lambda step: float(step))


def test_a_schedule_that_reaches_zero_names_the_step():
    temperature = Temperature(lambda step: 2.0 - step)
    temperature.step()
    with pytest.raises(ValueError, match="step 2"):
        temperature.step()


@pytest.mark.parametrize("shape", [(4,), (2, 3, 4)], ids=str)
def test_the_norm_wants_one_row_a_sample(shape):
    with pytest.raises(ValueError, match=r"\[sample, class\]"):
        Temperature("norm")(torch.ones(shape))


@every_kind
def test_its_repr_tells_the_temperature(value):
    told = {"norm": '"norm"'}.get(value, "T=2.5" if value == 2.5 else "T=8") if value != halving else "T=8"
    assert told in repr(Temperature(value))
