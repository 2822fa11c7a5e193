"""Propositions P1 to P7 of chapter 6, each tested on random cases: the slack of the worst (negative: it is broken).

A law gives this slack, and the x and y of curves for a figure.
"""

import math

import torch
from torch import Generator, Tensor
from torch.linalg import matrix_norm, matrix_rank, svd, svdvals
from torch.nn.functional import one_hot

from winze.measure import aligned_norm, column_softmax, singular_gap, singular_gap_bound

ROUNDING = 1e-9  # of float64 sums and decompositions of small matrices
FLOAT = torch.float64
LawCases = tuple[float, Tensor, dict[str, Tensor]]


def p1(cases: int, draw: Generator) -> LawCases:
    """Some matrix of rank 2 has softmax(c B) of full rank: B = A Aᵀ of unit rows in the plane."""
    c = torch.logspace(-2, 5, 29, dtype=FLOAT)
    curves, slack = {}, math.inf
    for n in (5, 10, 20, 50):
        angles = 2 * math.pi * torch.rand(max(1, cases // 50), n, generator=draw, dtype=FLOAT)
        rows = torch.stack([angles.cos(), angles.sin()], -1)
        plane = rows @ rows.mT
        ranks = torch.stack([matrix_rank(column_softmax(plane, float(one))).double() for one in c])
        slack = min(slack, float(ranks.amax(0).min()) - n, float(2 - matrix_rank(plane).max()))
        curves[f"n = {n}"] = ranks.mean(1)
    return slack, c, curves


def p2(cases: int, draw: Generator) -> LawCases:
    """0 ≤ σ_1 − σ_n ≤ √(1 + r) − √max(1/n − r, 0) for columns that are probabilities."""
    pairs = []
    for _ in range(cases):
        n = int(torch.randint(2, 20, (), generator=draw))
        scale = 10 ** (6 * float(torch.rand((), generator=draw)) - 2)
        columns = column_softmax(torch.randn(n, n, generator=draw, dtype=FLOAT), scale)
        pairs.append(torch.stack([singular_gap(columns), singular_gap_bound(columns)]))
    gap, bound = torch.stack(pairs, 1)
    return min(float((bound - gap).min()), float(gap.min())), bound[:400], {"σ₁ − σₙ": gap[:400]}


def p3(cases: int, draw: Generator) -> LawCases:
    """rank softmax(c x yᵀ) goes to 1 as c → 0, and to that of its columns' largest entries, ≤ 2, as c → ∞."""
    c = torch.logspace(-9, 12, 43, dtype=FLOAT)
    x, y = (2 * torch.rand(cases, 8, generator=draw, dtype=FLOAT) - 1 for _ in range(2))
    outer = x[:, :, None] * y[:, None, :]
    values = torch.stack([svdvals(column_softmax(outer, float(one))) for one in c])
    ranks = (values > 1e-6 * values[..., :1]).double().sum(-1)
    end = matrix_rank(one_hot(outer.argmax(1), 8).double()).double()
    top = outer.topk(2, dim=1).values
    decided = (top[:, 0] - top[:, 1]).amin(1) * c[-1] > 40  # where two entries nearly tie, c would have to be larger
    slack = -max(float((ranks[0] - 1).abs().max()), float((ranks[-1] - end)[decided].abs().max()))
    return min(slack, float(2 - end.max())), c, {"mean": ranks.mean(1), "largest": ranks.amax(1)}


def p4(cases: int, draw: Generator) -> LawCases:
    """‖W A‖_F ≤ ‖Σ_W Σ_A‖_F, with equality where the left vectors of A are the right vectors of W."""
    n, turn = 16, torch.linspace(0, 1, 21, dtype=FLOAT)
    weight, features = (torch.randn(cases, n, n, generator=draw, dtype=FLOAT) for _ in range(2))
    most, plain = aligned_norm(weight, features), matrix_norm(weight @ features)
    reads, (left, strength, right) = svd(weight)[2].mT, svd(features)
    ratios = []
    for share in turn:  # from A's own vectors to those that W reads, by the nearest rotation own @ other
        own, _, other = svd((1 - share) * left + share * reads)
        ratios.append(matrix_norm(weight @ ((own @ other) * strength[:, None]) @ right) / most)
    reached = torch.stack(ratios)
    slack = min(float((most - plain).min()), float((1 - reached).min()), -float((1 - reached[-1]).abs().max()))
    return slack, turn, {"mean": reached.mean(1), "largest": reached.amax(1)}


def p5(cases: int, draw: Generator) -> LawCases:
    """Of aligned layers σ_1(W_L … W_1) = Π σ_1(W_i) ≥ (min_i σ_1)^L; of others it is no larger."""
    n, depth = 8, 12
    weights = torch.randn(max(1, cases // 20), depth, n, n, generator=draw, dtype=FLOAT) / math.sqrt(n)
    turned = weights.clone()
    for layer in range(1, depth):
        own, strength, _ = svd(weights[:, layer])
        turned[:, layer] = (own * strength[:, None]) @ svd(turned[:, layer - 1])[0].mT
    tops, grown = svdvals(weights)[..., 0], {}
    for name, layers in {"aligned": turned, "as drawn": weights}.items():
        products = [layers[:, 0]]
        for layer in range(1, depth):
            products.append(layers[:, layer] @ products[-1])
        grown[name] = torch.stack([svdvals(one)[:, 0] for one in products], 1)
    depths, full = torch.arange(1, depth + 1, dtype=FLOAT), tops.cumprod(1)
    aligned, least = grown["aligned"], tops.cummin(1).values ** depths
    breaks = (aligned / full - 1).abs().max(), (1 - aligned / least).max(), (grown["as drawn"] / full - 1).max()
    return -max(map(float, breaks)), depths, {name: one.log().mean(0).exp() for name, one in grown.items()}


def p6(cases: int, draw: Generator) -> LawCases:
    """As T → ∞ the loss goes to ln n, and T times its gradient by the logits to 1/n − y; errors fall as 1/T."""
    n, temperatures = 10, torch.logspace(0, 6, 25, dtype=FLOAT)
    logits = torch.randn(n, cases, generator=draw, dtype=FLOAT)
    target = one_hot(torch.randint(n, (cases,), generator=draw), n).double().T
    soft = torch.stack([column_softmax(logits, 1 / one) for one in temperatures.tolist()])
    loss = (-(soft * target).sum(1).log() - math.log(n)).abs().amax(1)
    slope = ((soft - target) - (1 / n - target)).abs().flatten(1).amax(1)
    most = 2 * float(logits.abs().max()) / temperatures  # both errors are at most the range of the logits over T
    slack = min(float((most - loss).min()), float((most - slope).min()))
    return slack, temperatures, {"|loss − ln n|": loss, "|T gradient − (1/n − y)|": slope}


def p7(cases: int, draw: Generator) -> LawCases:
    """Cross-entropy has no gradient along (1, …, 1), so that what is learned has rank C − 1 at most."""
    n, steps = 5, 400
    start = 0.1 * torch.randn(max(1, cases // 50), n, n, generator=draw, dtype=FLOAT)
    logits, norms, ranks = start, [], []
    for _ in range(steps + 1):
        learned = logits - start
        shift = learned.mean(1, keepdim=True)
        norms.append(matrix_norm(torch.stack([shift.expand_as(learned), learned - shift])))
        ranks.append((svdvals(learned) > ROUNDING).double().sum(1))
        logits = logits - (column_softmax(logits) - torch.eye(n, dtype=FLOAT))
    along, across = torch.stack(norms, 1)
    slack = min(-float(along.max()), float(n - 1 - torch.stack(ranks).max()))
    return slack, torch.arange(steps + 1).double(), {"across 1": across.mean(1), "along 1": along.mean(1)}


LAWS = {law.__name__.upper(): law for law in (p1, p2, p3, p4, p5, p6, p7)}
