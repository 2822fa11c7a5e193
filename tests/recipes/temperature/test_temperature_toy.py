"""The exact part of the temperature chapter: gradients, starts, claims that can fail, and laws that can break."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from winze import Temperature
from winze.lab.bench import Bench
from winze.readings import Point
from winze.recipes.temperature import propositions
from winze.recipes.temperature._laws import LAWS, ROUNDING
from winze.recipes.temperature._toy import Toy, accuracy, gradient, noisy_accuracy, train, work
from winze.recipes.temperature.softmax_rank import RankOne
from winze.recipes.temperature.softmax_rank import recipe as recipe_of_ranks
from winze.recipes.temperature.softmax_rank import work as read_ranks
from winze.recipes.temperature.toy import recipe
from winze.train.seeds import generator

SMALL = Toy(iterations=100, members=3, draws=50)


def loss_of(kind: str, logits: torch.Tensor) -> torch.Tensor:
    n = logits.shape[1]
    if kind == "mse":
        return 0.5 * (logits - torch.eye(n)).square().sum(0).mean()
    if kind == "ce":
        return F.cross_entropy(logits.T, torch.arange(n))
    norm = logits.norm() if kind == "dynamic" else logits.norm().detach()
    return F.cross_entropy(logits.T / norm, torch.arange(n))


@pytest.mark.parametrize("kind", ["mse", "ce", "dynamic", "detached"])
def test_gradients_are_those_of_the_losses(kind):
    logits = torch.randn(2, 5, 5, dtype=torch.float64, requires_grad=True)
    for one, found in zip(logits, gradient(kind, logits.detach()), strict=True):
        (expected,) = torch.autograd.grad(loss_of(kind, one), one)
        torch.testing.assert_close(found, expected)


def test_the_dynamic_temperature_is_that_of_the_package_on_the_whole_batch():
    """`Temperature("norm")` divides by the norm over the root of the batch, so that T does not depend on its size."""
    logits = torch.randn(5, 5, dtype=torch.float64, requires_grad=True)
    loss = F.cross_entropy(Temperature("norm")(logits.T) / 5**0.5, torch.arange(5))
    (expected,) = torch.autograd.grad(loss, logits)
    torch.testing.assert_close(gradient("dynamic", logits.detach()[None])[0], expected)


@pytest.mark.parametrize("layers", [1, 3])
def test_a_step_is_gradient_descent_on_every_weight(layers):
    toy = Toy(layers=layers, members=2, iterations=1, scale=0.5)
    (_, before), (_, after) = train(toy, 3, [0, 1])
    start = 0.5 * torch.randn(layers, 2, 5, 5, generator=generator("cpu", 3, "toy"), dtype=torch.float64)
    for member in range(2):
        weights = [start[layer, member].clone().requires_grad_() for layer in range(layers)]
        product = torch.linalg.multi_dot(weights[::-1]) if layers > 1 else weights[0]
        torch.testing.assert_close(product.detach(), before[member])
        slopes = torch.autograd.grad(loss_of("ce", product), weights)
        stepped = [weight.detach() - toy.lr * slope for weight, slope in zip(weights, slopes, strict=True)]
        expected = torch.linalg.multi_dot(stepped[::-1]) if layers > 1 else stepped[0]
        torch.testing.assert_close(after[member], expected)


def test_every_loss_starts_from_the_same_weights():
    starts = [next(train(replace(SMALL, loss=loss), 1, [0]))[1] for loss in ("mse", "ce", "dynamic", "detached")]
    assert all(torch.equal(starts[0], other) for other in starts[1:])
    assert not torch.equal(starts[0], next(train(SMALL, 2, [0]))[1])


def test_squared_error_reaches_the_identity_and_cross_entropy_a_lower_rank():
    ends = {}
    for loss in ("mse", "ce"):
        *_, (_, logits) = train(replace(SMALL, loss=loss, iterations=1000, scale=0.1), 0, [1000])
        assert accuracy(logits).eq(1).all()
        ends[loss] = torch.linalg.svdvals(logits)
    torch.testing.assert_close(ends["mse"], torch.ones_like(ends["mse"]), rtol=0, atol=1e-3)
    assert (ends["ce"][:, 3] < 0.05 * ends["ce"][:, 0]).all()


def test_without_noise_nothing_is_lost_and_with_much_noise_all_is():
    perfect = torch.eye(5, dtype=torch.float64)[None]
    toy = replace(SMALL, sigmas=(1e-6, 1e6), members=1, draws=4000)
    quiet, loud = noisy_accuracy(toy, 0, perfect)[:, 0]
    assert quiet == 1
    assert abs(loud - 0.2) < 0.02


def test_the_same_seed_gives_the_same_readings_and_another_seed_others(tmp_path):
    tables = []
    for number, seed in enumerate((0, 0, 1)):
        bench = Bench(tmp_path / str(number), seed)
        work(SMALL, bench)
        tables.append(bench.readings.table.to_csv())
    assert tables[0] == tables[1] != tables[2]


def test_the_papers_setting_has_its_depth_and_classes():
    config = recipe.config("paper", Point(loss="ce", start=0.05))
    assert (config.classes, config.layers, config.scale) == (5, 3, 0.05)
    assert recipe.config("cpu", Point(loss="dynamic", start=0.05)).loss == "dynamic"


def test_cross_entropy_alone_starts_from_larger_weights_too():
    larger = [point for point in recipe.grid("cpu").points if point["start"] == 0.1]
    assert larger == [Point(loss="ce", start=0.1)]
    assert recipe.config("cpu", larger[0]).scale == 0.1


@pytest.mark.parametrize("law", LAWS)
def test_every_proposition_holds_on_other_cases_than_the_recipes(law):
    slack, x, curves = LAWS[law](60, torch.Generator().manual_seed(77))
    assert slack >= -ROUNDING
    assert all(len(curve) == len(x) for curve in curves.values())


@pytest.mark.parametrize(("slack", "holds"), [(-1e-6, 0.0), (-1e-12, 1.0), (0.1, 1.0)])
def test_a_law_holds_where_no_case_breaks_it_by_more_than_rounding(slack, holds, tmp_path, monkeypatch):
    monkeypatch.setitem(propositions.LAWS, "P1", lambda cases, draw: (slack, torch.zeros(1), {}))
    bench = Bench(tmp_path)
    propositions.work(propositions.Trial(cases=1), bench)
    assert [row.value for row in bench.readings.rows] == [holds]


def test_exact_recipes_are_judged_at_one_scale_only():
    for one in (recipe, propositions.recipe, recipe_of_ranks):
        assert {statement.scales for statement in (*one.claims, *one.questions)} == {("paper",)}


def test_ranks_of_a_softmax_peak_between_both_ends(tmp_path):
    bench = Bench(tmp_path)
    read_ranks(RankOne(size=16, members=4, points=29), bench)
    ranks = bench.readings.arrays["c/rank"]
    assert ranks[0] < ranks.max() > 2 >= ranks[-1]
    told = {row.measure: row.value for row in bench.readings.rows}
    assert told["highest_rank"] == pytest.approx(ranks.max())
    assert told["alike"] == pytest.approx(1)
    assert told["unlike"] == pytest.approx(0)
