"""The playground trains as `fit` does, and its readings are those of a scan."""

import multiprocessing
from dataclasses import replace

import numpy as np
import pytest
import torch

import winze
from winze import measure
from winze.data.plane import KINDS
from winze.networks.models.spiral_mlp import ACTIVATIONS
from winze.play.depth_profile import profile
from winze.play.nodes import Focus, View, decisions, focused, grid, node_maps, spread, streams
from winze.play.settings import OPTIMIZERS, RULES, Arm, parse
from winze.play.snapshots import Snapshots
from winze.play.snippet import snippet
from winze.play.trainer import Trainer, network_of, training_of
from winze.play.worker import Worker
from winze.train import Hardware, Steps, fit


def settings(**arm):
    return parse({"points": 96, "batch": 32, "arms": [{"depth": 3, "width": 4, **arm}]})


@pytest.mark.parametrize("rule", sorted(RULES))
def test_steps_of_the_playground_are_those_of_fit_bit_for_bit(rule):
    setup = settings(rule={"name": rule})
    trainer, arm = Trainer(setup), setup.arms[0]
    for _ in range(7):
        trainer.step()
    net = network_of(setup, arm)
    followers = [winze.Alternation(net, rows=32, seed=0)] if arm.rule.staged else []
    training = replace(training_of(arm, setup.batch), length=Steps(7))
    fit(net, trainer.train, training, followers=followers, hardware=Hardware(accelerator="cpu"), progress=False)
    live = trainer.learners[0].net.state_dict()
    assert all(torch.equal(weight, live[name]) for name, weight in net.state_dict().items())


def test_two_networks_start_alike_and_get_the_same_batches():
    arms = [{"depth": 3}, {"depth": 3}]
    losses = [Trainer(parse({"arms": arms, "points": 64})).step() for _ in range(2)]
    assert losses[0][0] == losses[0][1] == losses[1][0]


@pytest.mark.parametrize("objective", ["cross_entropy", "mse"])
@pytest.mark.parametrize("temperature", [1.0, 5.0, "norm"])
def test_every_objective_learns(objective, temperature):
    trainer = Trainer(
        parse({"data": "xor", "points": 256, "arms": [{"objective": objective, "temperature": temperature}]})
    )
    losses = [trainer.step()[0] for _ in range(60)]
    assert np.mean(losses[-5:]) < 0.6 * losses[0]


DRAWN = [[0.5, 0.25, 0], [-0.5, 0.123456789, 1], [0.1, -0.2, 2], [-0.3, -0.4, 1], [0.9, 0.9, 0]]
OFFERED = [
    *({"data": name} for name in KINDS),
    {"data": "spiral", "noise": 0.0123456789, "seed": 2**31 - 1},
    {"data": "gaussians", "classes": 4, "noise": 0.1},
    {"data": "drawn", "drawn": DRAWN, "batch": 2},
    *({"rule": {"name": name}} for name in sorted(RULES)),
    {"rule": {"name": "ResidualDropPath", "rate": 0.4, "frozen": "weights", "mask": "batch"}, "optimizer": "NAdam"},
    *({"optimizer": name, "lr": 0.0123456789} for name in OPTIMIZERS),
    *({"activation": name} for name in ACTIVATIONS),
    {"objective": "mse", "activation": "tanh", "rule": {"name": "DecayedIdentity", "alpha_min": 0.3}},
    {"temperature": 3.3},
    {"temperature": "norm"},
]


@pytest.mark.parametrize("chosen", OFFERED, ids=str)
def test_the_copied_python_runs_and_gives_the_same_losses(chosen, capsys):
    arm = {name: value for name, value in chosen.items() if name in Arm.__dataclass_fields__}
    shared = {name: value for name, value in chosen.items() if name not in arm}
    setup = parse({"points": 96, "batch": 32, **shared, "arms": [{"depth": 3, "width": 4, **arm}]})
    trainer = Trainer(setup)
    losses = [trainer.step()[0] for _ in range(4)]
    exec(snippet(setup, setup.arms[0], 4), {})
    first, last = (float(line.split()[-1]) for line in capsys.readouterr().out.splitlines()[-3:-1])
    assert first == losses[0]
    assert last == losses[-1]


def test_maps_show_the_nodes_over_the_plane_from_above():
    setup = settings()
    net = network_of(setup, setup.arms[0])
    with torch.no_grad():
        net.input.weight.zero_(), net.input.bias.zero_()
        net.input.weight[0, 1] = 2.0  # the first node is the height of a point
    found = node_maps(net, View(4, 4))
    assert found["sizes"][0, 0] == pytest.approx(2)
    assert found["maps"][0, 0, 0, 0] == 255
    assert found["maps"][0, 0, -1, 0] == 1
    assert (found["maps"][0, 1] == 128).all()


def test_large_networks_are_shown_from_end_to_end_by_few_layers_and_nodes():
    assert spread(65, 5) == [0, 16, 32, 48, 64]
    assert spread(3, 5) == [0, 1, 2]
    setup = parse({"arms": [{"depth": 64, "width": 32}]})
    net = network_of(setup, setup.arms[0])
    assert node_maps(net, View(9, 6))["maps"].shape[:2] == (9, 6)


def test_maps_are_of_the_trained_network_not_of_a_random_half_of_it():
    setup = settings(rule={"name": "DropPath", "rate": 0.9, "profile": "constant"})
    net = network_of(setup, setup.arms[0]).train()
    assert torch.equal(streams(net, grid(5))[-1], streams(net, grid(5))[-1])
    assert net.training


def test_decisions_are_shares_of_the_classes():
    setup = parse({"data": "gaussians", "classes": 3})
    shares = decisions(network_of(setup, setup.arms[0]), "cross_entropy").astype(int).sum(0)
    assert abs(shares - 255).max() <= 2


def test_a_focused_node_tells_its_weights_and_its_bias():
    setup = settings()
    net = network_of(setup, setup.arms[0])
    found = focused(net, Focus(0, 2, 3))
    layer = net.get_submodule("layers.1.branch.0")
    assert torch.equal(torch.from_numpy(found["focus_weights"][:-1]), layer.weight.detach()[3])
    assert found["focus_weights"][-1] == float(layer.bias.detach()[3])


def test_the_depth_profile_is_that_of_the_measures():
    setup = settings()
    trainer = Trainer(setup)
    for _ in range(30):
        trainer.step()
    net = trainer.learners[0].net
    found = profile(net, trainer.train, trainer.test, 2)
    places = streams(net, trainer.test[0][:512])
    assert found.arrays["effective_rank"][2] == pytest.approx(measure.effective_rank(places[2], exp=True), rel=1e-4)
    assert found.arrays["rank"].tolist() == [measure.numerical_rank(one) for one in places]
    plane = streams(net, grid(20))
    assert found.arrays["distances"] == pytest.approx(measure.distances(plane).numpy(), rel=1e-5)
    assert found.arrays["cka"][1, 3] == pytest.approx(measure.minibatch_cka(places[1], places[3]), abs=1e-5)


def test_features_that_are_no_numbers_are_told_and_not_measured():
    setup = settings()
    trainer = Trainer(setup)
    with torch.no_grad():
        trainer.learners[0].net.input.weight.fill_(float("nan"))
    found = profile(trainer.learners[0].net, trainer.train, trainer.test, 2)
    assert "no longer finite" in str(found.facts["note"])
    assert not found.arrays


def test_snapshots_thin_out_and_give_back_the_weights_of_their_step():
    setup = settings()
    trainer = Trainer(setup)
    nets = [learner.net for learner in trainer.learners]
    past, weights = Snapshots(most=8), {}
    for step in range(41):
        past.add(step, nets)
        weights[step] = nets[0].output.weight.detach().clone()
        trainer.step()
    assert len(past.steps) <= 8
    assert past.steps[0] == 0
    assert past.stride == 8
    step = past.nearest(25)
    assert step == 24
    assert torch.equal(past.networks(step, nets)[0].output.weight.detach(), weights[24])


def test_the_profiles_of_two_networks_are_of_the_same_step():
    ours, theirs = multiprocessing.Pipe()
    worker = Worker(theirs)
    worker.build(parse({"points": 64, "arms": [{}, {}]}))
    worker.reread()
    while worker.profiles.is_reading:
        worker.one_step()
        worker.read()
    first, second = worker.profiles.found
    assert worker.trainer.steps > 5
    assert first.facts == second.facts
    assert np.array_equal(first.arrays["cka"], second.arrays["cka"])
    ours.close(), theirs.close()
