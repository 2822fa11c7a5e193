"""Draw images from a diffusion model: the reverse SDE, or the probability-flow ODE by DPM-Solver."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn

from winze.modes import unchanged
from winze.networks.models.uvit import kept_signal

METHODS = ("sde", "ddim", "dpm2", "dpm3")
LAST = 1e-3  # the time at which sampling ends
NoisePredictor = Callable[[Tensor, float], Tensor]
"""Predicted noise in images at a time."""


@torch.no_grad()
def draw(
    net: nn.Module,
    shape: tuple[int, ...],
    *,
    steps: int = 50,
    method: str = "dpm3",
    labels: Tensor | None = None,
    guidance: float = 0.0,
    seed: int = 0,
    beta: tuple[float, float] = (0.1, 20.0),
    batch: int = 500,
) -> Tensor:
    """So many images of a shape [sample, channel, height, width] from a network that predicts noise.

    `method`: "sde" takes Euler-Maruyama steps of the reverse SDE, "ddim" steps of order 1 of the ODE (Song et al.,
    2021, arXiv 2010.02502), "dpm2" and "dpm3" steps of order 2 and 3 (DPM-Solver; Lu et al., 2022, arXiv 2206.00927);
    `steps` counts calls of the network. With `labels` images are of these classes; `guidance` w moves the noise to
    (1 + w) of what the label adds. The result depends on the seed alone; of "sde", on the batch size too.
    """
    if method not in METHODS:
        raise ValueError(f"method is one of {', '.join(METHODS)}, not {method!r}")
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    if labels is not None and len(labels) != shape[0]:
        raise ValueError(f"{len(labels)} labels for {shape[0]} images")
    known = getattr(net, "labels", None)
    if labels is not None and known and not 0 <= int(labels.min()) <= int(labels.max()) < known:
        raise ValueError(
            f"labels run from {labels.min()} to {labels.max()}; the network was built for 0 to {known - 1}"
        )
    if guidance and labels is None:
        raise ValueError("guidance moves the noise by what a label adds: give labels= too")
    device = next(net.parameters()).device
    generator = torch.Generator(device).manual_seed(seed)
    start = torch.randn(shape, generator=generator, device=device)
    with unchanged(net, training=False):
        parts = []
        for number, x in enumerate(start.split(batch)):
            own = None if labels is None else labels.to(device)[number * batch : number * batch + len(x)]
            noise = _predictor(net, own, guidance)
            step = _by_sde if method == "sde" else _by_ode
            parts.append(step(noise, x, steps, method, beta, seed + 1 + number))
    return torch.cat(parts)


def _predictor(net: nn.Module, labels: Tensor | None, guidance: float) -> NoisePredictor:
    def predicted(x: Tensor, t: float) -> Tensor:
        times = torch.full((len(x),), t, device=x.device)
        if labels is None:
            free: Tensor = net(x, times)
            return free
        told: Tensor = net(x, times, labels)
        return told if not guidance else told + guidance * (told - net(x, times, None))

    return predicted


def _by_sde(noise: NoisePredictor, x: Tensor, steps: int, method: str, beta: tuple[float, float], seed: int) -> Tensor:
    """x_s = x_t + [-β x / 2 - β score] (s - t) + √(β (t - s)) z, without z at the last step."""
    generator = torch.Generator(x.device).manual_seed(seed)
    times = torch.linspace(1.0, LAST, steps + 1).tolist()
    for number, (t, s) in enumerate(pairwise(times)):
        rate = beta[0] + t * (beta[1] - beta[0])
        score = -noise(x, t) / (1 - _kept(t, beta)) ** 0.5
        x = x + (-rate * x / 2 - rate * score) * (s - t)
        if number + 1 < steps:
            x = x + (rate * (t - s)) ** 0.5 * torch.randn(x.shape, generator=generator, device=x.device)
    return x


def _by_ode(noise: NoisePredictor, x: Tensor, steps: int, method: str, beta: tuple[float, float], seed: int) -> Tensor:
    """Steps uniform in λ = log(√ᾱ / √(1 - ᾱ)); an order that does not divide the steps ends with a smaller one."""
    order = {"ddim": 1, "dpm2": 2, "dpm3": 3}[method]
    orders = [order] * (steps // order) + ([steps % order] if steps % order else [])
    ends = torch.linspace(_logit(1.0, beta), _logit(LAST, beta), len(orders) + 1).tolist()
    for own, (begin, end) in zip(orders, pairwise(ends), strict=True):
        x = _SOLVERS[own](noise, x, begin, end, beta)
    return x


def _first(noise: NoisePredictor, x: Tensor, begin: float, end: float, beta: tuple[float, float]) -> Tensor:
    t = _time(begin, beta)
    return _moved(x, noise(x, t), begin, end)


def _second(noise: NoisePredictor, x: Tensor, begin: float, end: float, beta: tuple[float, float]) -> Tensor:
    middle = (begin + end) / 2
    between = _moved(x, noise(x, _time(begin, beta)), begin, middle)
    return _moved(x, noise(between, _time(middle, beta)), begin, end)


def _third(noise: NoisePredictor, x: Tensor, begin: float, end: float, beta: tuple[float, float]) -> Tensor:
    """DPM-Solver-3 with r_1 = 1/3, r_2 = 2/3."""
    h, one, two = end - begin, 1 / 3, 2 / 3
    at = [begin + one * h, begin + two * h]
    e = noise(x, _time(begin, beta))
    d = noise(_moved(x, e, begin, at[0]), _time(at[0], beta)) - e
    step = torch.tensor(two * h, dtype=torch.float64)
    bend = float((torch.expm1(step) / step) - 1)
    u = _moved(x, e, begin, at[1]) - _sigma(at[1]) * (two / one) * bend * d
    d = noise(u, _time(at[1], beta)) - e
    step = torch.tensor(h, dtype=torch.float64)
    bend = float((torch.expm1(step) / step) - 1)
    return _moved(x, e, begin, end) - _sigma(end) / two * bend * d


_SOLVERS = {1: _first, 2: _second, 3: _third}


def _moved(x: Tensor, noise: Tensor, begin: float, end: float) -> Tensor:
    """x_s = √ᾱ_s / √ᾱ_t x - σ_s (e^{λ_s - λ_t} - 1) ε: exact where the noise is constant along the way."""
    h = torch.tensor(end - begin, dtype=torch.float64)
    return _signal(end) / _signal(begin) * x - _sigma(end) * float(torch.expm1(h)) * noise


def _signal(logit: float) -> float:
    """√ᾱ from λ: ᾱ is the logistic function of 2 λ."""
    return float(torch.sigmoid(torch.tensor(2 * logit, dtype=torch.float64)).sqrt())


def _sigma(logit: float) -> float:
    """√(1 - ᾱ) from λ."""
    return float(torch.sigmoid(torch.tensor(-2 * logit, dtype=torch.float64)).sqrt())


def _kept(t: float, beta: tuple[float, float]) -> float:
    return float(kept_signal(torch.tensor(t, dtype=torch.float64), beta))


def _logit(t: float, beta: tuple[float, float]) -> float:
    kept = torch.tensor(_kept(t, beta), dtype=torch.float64)
    return float((kept.log() - torch.log1p(-kept)) / 2)


def _time(logit: float, beta: tuple[float, float]) -> float:
    """The time of λ: the positive root of β_0 t + (β_1 - β_0) t² / 2 = -log ᾱ = log(1 + e^{-2 λ})."""
    low, high = beta
    total = float(torch.nn.functional.softplus(torch.tensor(-2 * logit, dtype=torch.float64)))
    return 2 * total / ((low**2 + 2 * (high - low) * total) ** 0.5 + low)
