"""A network under watch, and its layers put back."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from winze.lab.bench import Bench
from winze.lab.crossing import weights_of
from winze.lab.study import train
from winze.readings import Readings
from winze.recipes.tunnel import watched
from winze.recipes.tunnel.development import recipe, switch_from_start
from winze.recipes.tunnel.watched import RANK, put_back, watch_and_reset
from winze.report import facts

SMOKE = recipe.config("smoke", "vgg19")


def _look(net, step):
    """Watch, and see nothing."""


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    bench = Bench(tmp_path_factory.mktemp("run"))
    watch_and_reset(SMOKE, bench)
    return bench.readings


def test_ranks_are_looked_at_every_epoch_and_each_layers_own_weights_between_looks(read):
    steps, ranks = facts.over_steps(read, RANK)
    assert steps == [0, 3, 6]  # 300 samples in batches of 128
    assert ranks.shape == (11, 3)
    steps, changes = facts.over_steps(read, "weight_change")
    assert steps == [3, 6]
    assert (changes > 0).all()


def test_layers_are_put_back_from_each_hidden_layer_on(read):
    for measure in ("reset", "reset_refreshed"):
        curve = facts.column(read, measure)
        assert np.isfinite(curve[:10]).all()
        assert np.isnan(curve[10])  # the output is never put back


def test_a_network_that_has_not_learnt_is_not_changed_by_being_put_back(tmp_path):
    bench = Bench(tmp_path)
    watch_and_reset(replace(SMOKE, training=replace(SMOKE.training, epochs=0, milestones=())), bench)
    assert (facts.column(bench.readings, "reset")[:10] == facts.whole(bench.readings, "accuracy")).all()


def test_putting_back_changes_weights_of_hidden_layers_alone_and_leaves_the_network_as_it_was(tmp_path, monkeypatch):
    held, seen = {}, []
    trained = train(SMOKE, Bench(tmp_path), watch=lambda net, *_: held.update(start=weights_of(net)) or _look)
    end = weights_of(trained.net)
    monkeypatch.setattr(watched, "evaluate", lambda net, _: seen.append(weights_of(net)) or 0.0)
    monkeypatch.setattr(watched, "update_bn", lambda *_: None)
    readings = Readings(conventions={"places": [f"p{i}" for i in range(11)]})
    put_back(readings, trained, held["start"], SMOKE)
    first = seen[0]
    assert torch.equal(first["layers.conv1.conv.weight"], held["start"]["layers.conv1.conv.weight"])
    assert torch.equal(first["layers.conv1.norm.running_var"], end["layers.conv1.norm.running_var"])
    assert torch.equal(first["output.weight"], end["output.weight"])
    assert torch.equal(seen[-1]["layers.fc9.linear.weight"], end["layers.fc9.linear.weight"])
    assert torch.equal(seen[-1]["layers.fc10.linear.weight"], held["start"]["layers.fc10.linear.weight"])
    assert all(torch.equal(value, end[name]) for name, value in weights_of(trained.net).items())


@pytest.mark.parametrize(
    ("ends", "start", "apart"), [([9, 9, 1, 1], 2, 0), ([9, 9, 9, 1], 1, 2), ([1, 1, 1, 1], 1, -1)]
)
def test_the_switch_is_where_ranks_stop_rising(ends, start, apart):
    assert switch_from_start(np.array([[5.0, end] for end in ends]), start) == apart


def test_the_first_steps_are_75():
    config = recipe.config("gpu", "first_steps")
    assert (config.limit, config.training.epochs, config.training.batch) == (75 * 128, 1, 128)
    assert (config.look_every, config.look_per) == (1, "step")
