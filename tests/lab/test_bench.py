import json
import random

import numpy as np
import pytest
import torch
from small_work import names, spots
from torch import nn

import winze
from winze.data import load
from winze.lab.bench import Bench
from winze.networks import MLP, describe
from winze.train import Epochs, StoreError, Training

TRAINING = Training(Epochs(2), batch=20)
TESTS = {"test": spots()}


def net():
    with torch.random.fork_rng([]):
        torch.manual_seed(5)
        return MLP(4, 6, 2, 3)


def weights(network):
    return torch.cat([value.flatten() for value in network.state_dict().values()])


def test_a_finished_phase_gives_its_weights_and_history_at_once(tmp_path):
    one, other = net(), net()
    history = Bench(tmp_path).train(one, spots(), TRAINING, tests=TESTS)
    steps = []
    again = Bench(tmp_path).train(other, spots(), TRAINING, tests=TESTS, followers=[lambda _, step: steps.append(step)])
    assert steps == []
    assert torch.equal(weights(one), weights(other))
    assert (again.metrics, again.steps) == (history.metrics, history.steps)


def test_phases_of_other_names_and_seeds_draw_other_orders(tmp_path):
    nets = [net() for _ in range(4)]
    bench = Bench(tmp_path / "a")
    for network, name in zip(nets[:2], ("one", "two"), strict=True):
        bench.train(network, spots(), TRAINING, name=name)
    Bench(tmp_path / "b").train(nets[2], spots(), TRAINING, name="one")
    Bench(tmp_path / "c", seed=1).train(nets[3], spots(), TRAINING, name="one")
    one, two, same, seed = map(weights, nets)
    assert torch.equal(one, same)
    assert not torch.equal(one, two)
    assert not torch.equal(one, seed)


def draw():
    return torch.rand(3).tolist(), np.random.rand(3).tolist(), random.random()


def test_what_is_drawn_between_phases_is_the_same_whether_the_phase_ran_or_was_remembered(tmp_path):
    drawn = []
    for _ in range(2):
        bench = Bench(tmp_path)
        before = draw()
        bench.train(net(), spots(), TRAINING)
        drawn.append((before, draw()))
    assert drawn[0] == drawn[1]
    assert drawn[0][0] != drawn[0][1]


def test_metrics_name_their_phase_and_hold_no_times(tmp_path):
    bench = Bench(tmp_path)
    bench.train(net(), spots(), TRAINING, name="one")
    bench.train(net(), spots(), TRAINING, name="two", tests=TESTS)
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [(row["phase"], row["epoch"], row["step"]) for row in rows] == [
        ("one", 1, 3),
        ("one", 2, 6),
        ("two", 1, 3),
        ("two", 2, 6),
    ]
    assert rows[-1].keys() == {"phase", "epoch", "step", "lr", "loss", "accuracy", "test_loss"}


def test_metrics_can_be_followed_while_a_phase_is_at_work(tmp_path):
    seen = {}

    def look(_, step):
        file = tmp_path / "metrics.jsonl"
        seen[step] = len(file.read_text().splitlines()) if file.exists() else 0

    Bench(tmp_path).train(net(), spots(), Training(Epochs(3), batch=20), followers=[look])
    assert [seen[step] for step in (1, 3, 4, 7)] == [0, 0, 1, 2]


def test_one_checkpoint_of_a_finished_phase_is_left(tmp_path):
    Bench(tmp_path).train(net(), spots(), Training(Epochs(4), batch=20), name="main")
    assert names(tmp_path / "phases" / "main") == ["12.json", "12.pt", "12.safetensors", "phase.json"]


def test_of_a_data_set_the_test_part_is_the_test(tmp_path):
    bench = Bench(tmp_path)
    digits = load("spiral")
    history = bench.train(MLP(digits.shape[0], 8, 1, len(digits.classes)), digits, Training(Epochs(1)))
    assert "accuracy" in history.metrics[-1]


@pytest.mark.parametrize("name", ["", "a/b", "..", "first"])
def test_a_phase_needs_a_name_of_its_own_that_a_folder_can_have(tmp_path, name):
    bench = Bench(tmp_path)
    bench.train(net(), spots(), TRAINING, name="first")
    with pytest.raises(ValueError, match="cannot name a training phase"):
        bench.train(net(), spots(), TRAINING, name=name)


def test_a_phase_of_a_recipe_that_has_changed_since_is_refused(tmp_path):
    Bench(tmp_path).train(net(), spots(), TRAINING)
    with pytest.raises(StoreError, match="the recipe has changed"):
        Bench(tmp_path).train(net(), spots(), Training(Epochs(3), batch=20))
    with pytest.raises(StoreError, match="the recipe has changed"):
        Bench(tmp_path).train(MLP(4, 7, 2, 3), spots(), TRAINING)


@pytest.mark.parametrize("body", ["", "{", "[" * 100_000])
def test_a_damaged_phase_is_named_with_its_path(tmp_path, body):
    Bench(tmp_path).train(net(), spots(), TRAINING, name="main")
    path = tmp_path / "phases" / "main" / "phase.json"
    path.write_text(body)
    with pytest.raises(StoreError, match=rf"{path} was cut short or is not JSON .*remove {path.parent}"):
        Bench(tmp_path).train(net(), spots(), TRAINING, name="main")


def test_a_kept_network_is_loaded_again_by_its_file_alone(tmp_path):
    network = MLP(4, 6, 2, 3)
    path = Bench(tmp_path).keep(network, describe("winze/mlp2x6", 3, inputs=4))
    loaded = winze.load(path)
    assert path == tmp_path / "net.safetensors"
    assert torch.equal(loaded(spots()[0]), network.eval()(spots()[0]))


def test_a_kept_network_with_tied_weights_is_loaded_again(tmp_path):
    (tmp_path / "tied.py").write_text(
        "from torch import nn\n"
        "def net():\n"
        "    made = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))\n"
        "    made[1].weight = made[0].weight\n"
        "    return made\n"
    )
    network = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    network[1].weight = network[0].weight
    path = Bench(tmp_path).keep(network, f"{tmp_path / 'tied.py'}:net", name="tied")
    assert torch.equal(winze.load(path, trust=True)(spots()[0]), network(spots()[0]))


def test_a_process_that_only_works_along_writes_nothing(tmp_path):
    Bench(tmp_path / "a").train(net(), spots(), TRAINING)
    before = {path: path.read_bytes() for path in (tmp_path / "a").rglob("*") if path.is_file()}
    follower = Bench(tmp_path / "a", writes=False)
    follower.train(net(), spots(), TRAINING)
    follower.keep(net(), "winze/mlp2x6")
    assert {path: path.read_bytes() for path in (tmp_path / "a").rglob("*") if path.is_file()} == before
