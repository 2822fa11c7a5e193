"""Our samplers against those of diffusers, on a network whose noise is known."""

from itertools import pairwise

import pytest
import torch

from winze.networks.models.uvit import kept_signal
from winze.networks.sampling import _first, _logit, _third, _time

diffusers = pytest.importorskip("diffusers")
BETA = (0.1, 20.0)
COUNT = 1000


def noise(x, t):
    kept = float(kept_signal(torch.tensor(t).double(), BETA))
    return (1 - kept) ** 0.5 * (x - 0.5 * kept**0.5) / (kept * 0.25**2 + 1 - kept)


def signals():
    return kept_signal((torch.arange(COUNT).double() + 1) / COUNT, BETA)


def start():
    return torch.randn(6, 1, 2, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_a_step_of_order_1_is_that_of_ddim():
    scheduler = diffusers.DDIMScheduler(num_train_timesteps=COUNT, clip_sample=False, set_alpha_to_one=False)
    scheduler.alphas_cumprod = signals()
    scheduler.set_timesteps(10)
    x = start()
    t, s = 900, 800
    theirs = scheduler.step(noise(x, (t + 1) / COUNT), t, x).prev_sample
    ours = _first(noise, x, _logit((t + 1) / COUNT, BETA), _logit((s + 1) / COUNT, BETA), BETA)
    assert torch.allclose(ours, theirs, atol=1e-6)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of NumPy, in diffusers itself
def test_both_libraries_end_at_the_same_images():
    """With many steps DPM-Solver of either library follows the same curve."""
    scheduler = diffusers.DPMSolverSinglestepScheduler(
        num_train_timesteps=COUNT, solver_order=3, algorithm_type="dpmsolver++", final_sigmas_type="sigma_min"
    )
    kept = signals()
    scheduler.alphas_cumprod = kept
    scheduler.alpha_t, scheduler.sigma_t = kept.sqrt(), (1 - kept).sqrt()
    scheduler.lambda_t = scheduler.alpha_t.log() - scheduler.sigma_t.log()
    scheduler.sigmas = ((1 - kept) / kept) ** 0.5
    scheduler.set_timesteps(120)
    x = theirs = start()
    for t in scheduler.timesteps:
        theirs = scheduler.step(noise(theirs, (int(t) + 1) / COUNT), t, theirs).prev_sample
    first, last = (int(scheduler.timesteps[0]) + 1) / COUNT, 1 / COUNT
    ends = torch.linspace(_logit(first, BETA), _logit(last, BETA), 61, dtype=torch.float64).tolist()
    ours = x
    for begin, end in pairwise(ends):
        ours = _third(noise, ours, begin, end, BETA)
    assert _time(ends[-1], BETA) == pytest.approx(last)
    assert torch.allclose(ours, theirs, atol=0.02)
