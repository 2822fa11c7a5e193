"""A network that is watched, and its layers reset."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from winze.lab import Bench, learn, prepare
from winze.lab.layers import weights_of
from winze.readings import Point, Readings, facts
from winze.recipes.tunnel import _work as watched
from winze.recipes.tunnel._work import RANK, reset, switch_from_start, watch_and_reset
from winze.recipes.tunnel.development import recipe
from winze.train import Constant, Epochs, Steps

WHOLE, FIRST = (Point(watched=name, rate=0.1) for name in ("whole training", "first steps"))
SMOKE = recipe.config("smoke", WHOLE)


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    bench = Bench(tmp_path_factory.mktemp("runs") / "run")
    watch_and_reset(SMOKE, bench)
    return bench.readings


def test_ranks_are_read_every_epoch_and_the_weights_of_each_layer_between_readings(read):
    steps, ranks = facts.over_steps(read, RANK)
    assert steps == [0, 3, 6]  # 300 samples in batches of 128
    assert ranks.shape == (19, 3)
    steps, changes = facts.over_steps(read, "weight_change")
    assert steps == [3, 6]
    assert changes.shape == (19, 2)
    assert (changes > 0).all()


def test_layers_are_reset_from_each_hidden_layer_on(read):
    for measure in ("reset", "reset_refreshed"):
        curve = facts.column(read, measure)
        assert np.isfinite(curve[:18]).all()
        assert np.isnan(curve[18])  # the output is never reset


def test_an_untrained_network_is_not_changed_by_a_reset(tmp_path):
    bench = Bench(tmp_path / "run")
    watch_and_reset(replace(SMOKE, training=replace(SMOKE.training, length=Epochs(0), schedule=Constant())), bench)
    assert (facts.column(bench.readings, "reset")[:18] == facts.whole(bench.readings, "accuracy")).all()


def test_a_reset_changes_weights_of_hidden_layers_alone_and_leaves_the_network_as_it_was(tmp_path, monkeypatch):
    bench, seen = Bench(tmp_path / "run"), []
    prepared = prepare(SMOKE, bench)
    start = weights_of(prepared.net)
    learn(prepared, bench)
    end = weights_of(prepared.net)
    monkeypatch.setattr(watched, "evaluate", lambda net, _: seen.append(weights_of(net)) or 0.0)
    monkeypatch.setattr(watched, "update_bn", lambda *_: None)
    readings = Readings(conventions={"places": [f"p{i}" for i in range(19)]})
    reset(readings, prepared, start, 100)
    first = seen[0]
    assert torch.equal(first["layers.conv1.conv.weight"], start["layers.conv1.conv.weight"])
    assert torch.equal(first["layers.conv1.norm.running_var"], end["layers.conv1.norm.running_var"])
    assert torch.equal(first["output.weight"], end["output.weight"])
    assert torch.equal(seen[-1]["layers.fc17.linear.weight"], end["layers.fc17.linear.weight"])
    assert torch.equal(seen[-1]["layers.fc18.linear.weight"], start["layers.fc18.linear.weight"])
    assert all(torch.equal(value, end[name]) for name, value in weights_of(prepared.net).items())


@pytest.mark.parametrize(
    ("ends", "start", "apart"), [([9, 9, 1, 1], 2, 0), ([9, 9, 9, 1], 1, 2), ([1, 1, 1, 1], 1, -1)]
)
def test_the_switch_is_where_ranks_stop_rising(ends, start, apart):
    assert switch_from_start(np.array([[5.0, end] for end in ends]), start) == apart


@pytest.mark.parametrize(("scale", "rate"), [("gpu", 0.03), ("gpu", 0.1), ("paper", 0.1)])
def test_the_first_steps_are_75_and_each_is_read(scale, rate):
    config = recipe.config(scale, FIRST | {"rate": rate})
    assert (config.data.limit, config.training.length, config.training.batch) == (75 * 128, Epochs(1), 128)
    assert (config.watching.every, config.watching.weights_every) == (Steps(1), None)
    assert config.training.optimizer.lr == rate


def test_only_a_whole_training_can_fail_to_learn(read):
    assert "below 2" in recipe.failed(read)
    first = Readings(read.rows, read.arrays, read.conventions)
    first.rows = [row for row in read.rows if row.measure != "weight_change"]
    assert recipe.failed(first) == ""
