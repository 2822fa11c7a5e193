"""Propositions P1 to P7 of chapter 6, each put to many random cases.

A law draws its cases and gives by how much the worst of them keeps it (negative: it is broken), with the points of a
picture.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from winze.measure import aligned_norm, column_softmax, singular_gap, singular_gap_bound

ROUNDING = 1e-9  # of float64 sums and decompositions of small matrices
Draw = torch.Generator


@dataclass(frozen=True)
class Found:
    """How the worst case of a law stands, and what is drawn: x and one curve a name."""

    slack: float
    x: Tensor
    curves: dict[str, Tensor] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Whether no case breaks the law by more than rounding."""
        return self.slack >= -ROUNDING


def softmax_lifts_rank_two(cases: int, draw: Draw) -> Found:
    """P1: some matrix of rank 2 has softmax(c B) of full rank: B = A Aᵀ of unit rows in the plane."""
    c = torch.logspace(-2, 5, 29, dtype=torch.float64)
    curves, slack = {}, math.inf
    for n in (5, 10, 20, 50):
        angles = 2 * math.pi * torch.rand(max(1, cases // 50), n, generator=draw, dtype=torch.float64)
        rows = torch.stack([angles.cos(), angles.sin()], -1)
        plane = rows @ rows.mT
        ranks = torch.stack([torch.linalg.matrix_rank(column_softmax(plane, float(one))).double() for one in c])
        before = torch.linalg.matrix_rank(plane)
        slack = min(slack, float(ranks.amax(0).min()) - n, float(2 - before.max()))
        curves[f"n = {n}"] = ranks.mean(1)
    return Found(slack, c, curves)


def gap_is_bounded(cases: int, draw: Draw) -> Found:
    """P2: 0 ≤ σ_1 − σ_n ≤ √(1 + r) − √max(1/n − r, 0) for columns that are probabilities."""
    gaps, bounds = [], []
    for _ in range(cases):
        n = int(torch.randint(2, 20, (), generator=draw))
        scale = 10 ** (6 * float(torch.rand((), generator=draw)) - 2)
        columns = column_softmax(torch.randn(n, n, generator=draw, dtype=torch.float64), scale)
        gaps.append(singular_gap(columns))
        bounds.append(singular_gap_bound(columns))
    gap, bound = torch.stack(gaps), torch.stack(bounds)
    slack = min(float((bound - gap).min()), float(gap.min()))
    return Found(slack, bound[:400], {"σ₁ − σₙ": gap[:400]})


def limits_of_the_rank(cases: int, draw: Draw) -> Found:
    """P3: as c → 0 the rank of softmax(c x yᵀ) goes to 1, as c → ∞ to that of the largest entries' places, ≤ 2."""
    c = torch.logspace(-9, 12, 43, dtype=torch.float64)
    x, y = (2 * torch.rand(cases, 8, generator=draw, dtype=torch.float64) - 1 for _ in range(2))
    outer = x[:, :, None] * y[:, None, :]
    values = torch.stack([torch.linalg.svdvals(column_softmax(outer, float(one))) for one in c])
    ranks = (values > 1e-6 * values[..., :1]).double().sum(-1)
    one_hot = torch.nn.functional.one_hot(outer.argmax(1), 8).double()
    end = torch.linalg.matrix_rank(one_hot).double()
    decided = _margins(outer) * c[-1] > 40  # where two entries nearly tie, c would have to be larger still
    slack = -max(float((ranks[0] - 1).abs().max()), float((ranks[-1] - end)[decided].abs().max()))
    return Found(min(slack, float(2 - end.max())), c, {"mean": ranks.mean(1), "largest": ranks.amax(1)})


def _margins(matrices: Tensor) -> Tensor:
    top = matrices.topk(2, dim=1).values
    return (top[:, 0] - top[:, 1]).amin(1)


def aligned_products_are_largest(cases: int, draw: Draw) -> Found:
    """P4: ‖W A‖_F ≤ ‖Σ_W Σ_A‖_F, with equality where A's left vectors are W's right ones."""
    n, turn = 16, torch.linspace(0, 1, 21, dtype=torch.float64)
    weight, features = (torch.randn(cases, n, n, generator=draw, dtype=torch.float64) for _ in range(2))
    most = aligned_norm(weight, features)
    plain = torch.linalg.matrix_norm(weight @ features)
    _, _, reads = torch.linalg.svd(weight)
    left, strength, right = torch.linalg.svd(features)
    ratios = []
    for share in turn:  # from A's own vectors to those that W reads
        vectors = _nearest_rotation((1 - share) * left + share * reads.mT)
        ratios.append(torch.linalg.matrix_norm(weight @ (vectors * strength[:, None]) @ right) / most)
    reached = torch.stack(ratios)
    slack = min(float((most - plain).min()), float((1 - reached).min()), -float((1 - reached[-1]).abs().max()))
    return Found(slack, turn, {"mean": reached.mean(1), "largest": reached.amax(1)})


def _nearest_rotation(matrices: Tensor) -> Tensor:
    left, _, right = torch.linalg.svd(matrices)
    return left @ right


def aligned_layers_multiply(cases: int, draw: Draw) -> Found:
    """P5: of aligned layers σ_1(W_L … W_1) = Π σ_1(W_i) ≥ (min_i σ_1)^L; of others it is no larger."""
    n, depth = 8, 12
    count = max(1, cases // 20)
    weights = torch.randn(count, depth, n, n, generator=draw, dtype=torch.float64) / math.sqrt(n)
    turned = weights.clone()
    for layer in range(1, depth):
        left = torch.linalg.svd(turned[:, layer - 1])[0]
        own, strength, _ = torch.linalg.svd(weights[:, layer])
        turned[:, layer] = (own * strength[:, None]) @ left.mT
    tops = torch.linalg.svdvals(weights)[..., 0]
    product, plain = turned[:, 0], weights[:, 0]
    aligned, random = [tops[:, 0]], [tops[:, 0]]
    for layer in range(1, depth):
        product, plain = turned[:, layer] @ product, weights[:, layer] @ plain
        aligned.append(torch.linalg.svdvals(product)[:, 0])
        random.append(torch.linalg.svdvals(plain)[:, 0])
    grown, other, full = torch.stack(aligned, 1), torch.stack(random, 1), tops.cumprod(1)
    depths = torch.arange(1, depth + 1, dtype=torch.float64)
    least = tops.cummin(1).values ** depths
    slack = min(
        -float((grown / full - 1).abs().max()),
        float((grown / least - 1).min()),
        float((1 - other / full).min()),
    )
    return Found(slack, depths, {"aligned": _geometric(grown), "as drawn": _geometric(other)})


def _geometric(values: Tensor) -> Tensor:
    return values.log().mean(0).exp()


def loss_at_high_temperature(cases: int, draw: Draw) -> Found:
    """P6: as T → ∞ the loss goes to ln n, and T times its gradient by the logits to 1/n − y; errors fall as 1/T."""
    n, temperatures = 10, torch.logspace(0, 6, 25, dtype=torch.float64)
    logits = torch.randn(n, cases, generator=draw, dtype=torch.float64)
    labels = torch.randint(n, (cases,), generator=draw)
    target = torch.nn.functional.one_hot(labels, n).double().T
    losses, slopes = [], []
    for temperature in temperatures.tolist():
        soft = column_softmax(logits, 1 / temperature)
        losses.append(-(soft * target).sum(0).log() - math.log(n))
        slopes.append((soft - target) - (1 / n - target))
    loss, slope = (torch.stack(part).abs().flatten(1).amax(1) for part in (losses, slopes))
    most = 2 * float(logits.abs().max())  # |softmax − 1/n| and |loss − ln n| are at most the logits' range over T
    slack = min(float((most / temperatures - loss).min()), float((most / temperatures - slope).min()))
    return Found(slack, temperatures, {"|loss − ln n|": loss, "|T gradient − (1/n − y)|": slope})


def shifts_are_never_learnt(cases: int, draw: Draw) -> Found:
    """P7: cross-entropy has no gradient along 1, so that what is learnt has rank C − 1 at most."""
    n, steps = 5, 400
    start = 0.1 * torch.randn(max(1, cases // 50), n, n, generator=draw, dtype=torch.float64)
    logits, along, across, ranks = start, [], [], []
    for _ in range(steps + 1):
        learnt = logits - start
        shift = learnt.mean(1, keepdim=True)
        along.append(torch.linalg.matrix_norm(shift.expand_as(learnt)))
        across.append(torch.linalg.matrix_norm(learnt - shift))
        values = torch.linalg.svdvals(learnt)
        ranks.append((values > ROUNDING).double().sum(1))
        logits = logits - (column_softmax(logits) - torch.eye(n, dtype=torch.float64))
    shifted, other = torch.stack(along), torch.stack(across)
    slack = min(-float(shifted.max()), float(n - 1 - torch.stack(ranks).max()))
    return Found(slack, torch.arange(steps + 1).double(), {"across 1": other.mean(1), "along 1": shifted.mean(1)})


LAWS: dict[str, Callable[[int, Draw], Found]] = {
    "P1": softmax_lifts_rank_two,
    "P2": gap_is_bounded,
    "P3": limits_of_the_rank,
    "P4": aligned_products_are_largest,
    "P5": aligned_layers_multiply,
    "P6": loss_at_high_temperature,
    "P7": shifts_are_never_learnt,
}
