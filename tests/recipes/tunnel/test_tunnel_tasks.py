"""Recipes with two tasks: what is exchanged, slowed and shared, and the published settings."""

import pytest
import torch

from winze.lab import Bench, tasks
from winze.lab.layers import weights_of
from winze.readings import Point
from winze.recipes.tunnel import _continual as two
from winze.recipes.tunnel import held, shorter, substitution, swap
from winze.recipes.tunnel._settings import CONTINUAL, GENTLE_TASKS
from winze.train import Epochs

SWAP = swap.recipe.config("smoke", Point(split="7+3", rate=0.1))


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    return tasks(SWAP, Bench(tmp_path_factory.mktemp("runs") / "run"), SWAP.tasks)


def test_new_heads_are_fitted_on_the_extractor_of_one_task_and_the_tunnel_of_the_other(learned):
    found = two.new_heads(SWAP, learned)
    mixed, net = learned.crossed(2, 1, SWAP.extractor), weights_of(learned.prepared.net)
    assert all(torch.equal(value, mixed[name]) for name, value in net.items())
    assert set(found) == {two.PROBED, two.TUNED}
    assert all(0 <= value <= 1 for value in found.values())


@pytest.mark.parametrize(("slowed", "layers"), [("extractor frozen", range(1, 9)), ("tunnel frozen", range(9, 19))])
def test_frozen_layers_are_those_of_the_extractor_or_of_the_tunnel(slowed, layers, tmp_path, monkeypatch):
    config = held.recipe.config("paper", Point(slowed=slowed, start="shared"))
    seen = {}

    def learn(study, bench, sizes, later, shared):
        seen.update(rates=later.optimizer.rates, shared=shared)
        return tasks(smoke, bench, sizes, later, shared)

    smoke = held.recipe.config("smoke", Point(slowed="none", start="shared"))
    monkeypatch.setattr(two, "tasks", learn)
    monkeypatch.setattr(two.TaskSequence, "store", lambda self, readings: seen.update(sequence=self))
    two.learn_tasks(config, Bench(tmp_path / "run"))
    assert seen["shared"]
    first, second = seen["sequence"].after
    still = {seen["sequence"].layers[name] for name, value in first.items() if torch.equal(value, second[name])}
    hidden = {layer for layer in still if layer <= 18}
    assert hidden == set(layers)


def test_a_slow_layer_moves_less_than_a_free_one(tmp_path):
    moved = {}
    for slowed in ("none", "extractor slow"):
        config = held.recipe.config("smoke", Point(slowed="none", start="shared"))
        later = two.replace(config.training.optimizer, rates=({"none": ()} | held.slowed)[slowed])
        found = tasks(
            config, Bench(tmp_path / slowed.split()[0]), (5, 5), two.replace(config.training, optimizer=later)
        )
        first, second = found.after
        moved[slowed] = float((first["layers.conv2.conv.weight"] - second["layers.conv2.conv.weight"]).norm())
    assert 0 < moved["extractor slow"] < 0.3 * moved["none"]


@pytest.mark.parametrize(
    ("recipe", "epochs"), [(swap.recipe, (30, 30)), (shorter.recipe, (10, 15)), (substitution.recipe, (10, 15))]
)
def test_both_learning_rates_run_on_a_gpu_each_with_its_schedule(recipe, epochs):
    for rate, base, length in zip((0.03, 0.1), (GENTLE_TASKS, CONTINUAL), epochs, strict=True):
        point = recipe.grid("gpu").complete(Point(rate=rate))
        training = recipe.config("gpu", point).training
        assert (training.optimizer, training.schedule) == (base.optimizer, base.schedule)
        assert (training.length, training.evaluate) == (Epochs(length), Epochs(length))


def test_the_points_of_held_start_from_one_network_and_older_runs_from_their_own():
    for point in held.recipe.grid("gpu").points:
        assert held.recipe.config("gpu", point).shared == (point["start"] == "shared")
    assert {point["start"] for point in held.recipe.grid("paper").points} == {"shared"}
