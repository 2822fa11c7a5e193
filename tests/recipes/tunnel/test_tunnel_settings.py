"""What the tunnel's recipes share, and the settings of those that only train and scan."""

from dataclasses import replace

import pytest
import torch

from winze.lab import recipes
from winze.lab.layers import layer_count, layer_of_each
from winze.networks import build
from winze.readings import Point
from winze.recipes.tunnel import no_shortcut, rules, shorter, small, stem
from winze.recipes.tunnel._settings import CONTINUAL, GENTLE_TASKS, RESNET, VGG, as_many_steps, gentle, quick, shortened
from winze.shape import NoShortcut
from winze.train import Epochs
from winze.train.optimizers import learning_rate, make_optimizer

TUNNEL = {name: one for name, one in recipes().items() if one.system == "S8"}
RATED = [name for name, one in TUNNEL.items() if "rate" in one.axes]


@pytest.mark.parametrize(("training", "epochs"), [(VGG, 30), (RESNET, 40), (VGG, 320)])
def test_a_shorter_training_lowers_its_learning_rate_at_the_same_shares(training, epochs):
    short, total = shortened(training, epochs), training.length.count
    before = [milestone / total for milestone in training.schedule.at]
    assert [milestone / epochs for milestone in short.schedule.at] == pytest.approx(before, abs=1 / epochs)
    assert replace(short, length=training.length, schedule=training.schedule) == training


def test_a_quick_training_differs_in_length_and_precision_alone():
    assert replace(quick(VGG, 30), precision="32-true", channels_last=False) == shortened(VGG, 30)


def test_a_gentle_training_rises_to_its_learning_rate_and_falls_to_nothing_however_often_it_sees_the_data():
    for training, share in ((gentle(VGG, 16), 1.0), (as_many_steps(gentle(RESNET, 16), 0.3), 0.3)):
        steps = round(100 * share)
        rate, last = learning_rate(training, steps), training.length.steps(steps) - 1
        assert [rate(step) for step in (0, 100)] == pytest.approx([0, 0.015], abs=1e-3)
        assert max(rate(step) for step in range(last)) == pytest.approx(0.03, rel=0.05)
        assert rate(last) < 1e-4
        assert replace(training.optimizer, lr=0.1) == VGG.optimizer
        assert training.augment == VGG.augment


def test_gentle_tasks_are_trained_at_a_constant_learning_rate_after_the_first_epoch():
    rate = learning_rate(GENTLE_TASKS, 100)
    assert [rate(step) for step in (0, 50, 100, 2999)] == pytest.approx([0, 0.015, 0.03, 0.03])
    assert replace(GENTLE_TASKS, optimizer=CONTINUAL.optimizer, schedule=CONTINUAL.schedule) == CONTINUAL


def test_a_share_of_the_data_is_seen_so_much_more_often():
    assert as_many_steps(VGG, 0.3).length == Epochs(533)
    assert as_many_steps(VGG, 1.0) == VGG


@pytest.mark.parametrize("name", RATED)
def test_every_point_trains_at_the_learning_rate_that_its_axis_names(name):
    recipe = TUNNEL[name]
    for scale in recipe.scales:
        for point in recipe.grid(scale).points:
            assert recipe.config(scale, point).training.optimizer.lr == point["rate"], (scale, str(point))


@pytest.mark.parametrize("name", ["tunnel/no_shortcut", "tunnel/rules", "tunnel/capacity", "tunnel/ood"])
def test_both_learning_rates_are_run_on_the_gpu_and_the_papers_alone_at_its_scale(name):
    recipe = TUNNEL[name]
    rates = {scale: {point["rate"] for point in recipe.grid(scale).points} for scale in ("gpu", "paper")}
    assert rates["gpu"] >= {0.03, 0.1}
    assert 0.03 not in rates["paper"]


def test_stems_differ_in_the_feature_maps_that_blocks_see():
    def side(scale, maps, image, channels):
        network, seen = stem.recipe.config(scale, Point(maps=maps)).network, []
        net = build(network.name, **network.options, channels=channels)
        net.stages[0].register_forward_pre_hook(lambda module, args: seen.append(args[0].shape[-1]))
        net.eval()(torch.zeros(1, channels, image, image))
        return seen[0] / image

    for maps in stem.STEMS:
        assert side("gpu", maps, 32, 3) == side("cpu", maps, 8, 1) == maps


def test_networks_without_shortcuts_differ_from_resnets_by_the_rule_alone():
    recipe = no_shortcut.recipe
    for scale in recipe.scales:
        for point in recipe.grid(scale).points:
            plain, whole = (recipe.config(scale, point | {"network": one}) for one in ("plain", "resnet"))
            assert replace(plain, network=replace(plain.network, rule=None)) == whole
            assert plain.network.rule == NoShortcut()


def test_shorter_networks_have_as_many_layers_as_their_points_say():
    for point in shorter.recipe.grid("paper").points:
        network = shorter.recipe.config("paper", point).network
        assert layer_count(build(network.name, 10, **network.options)) == point["layers"]


def test_slow_layers_are_all_of_the_tunnel_and_nothing_else():
    slow, free = (
        rules.recipe.config("paper", Point(network="vgg19", rule=rule, rate=0.1))
        for rule in ("slow_tunnel", "standard")
    )
    net = build(slow.network.name, 10, **slow.network.options)
    groups = make_optimizer(net, slow.training.optimizer, torch.device("cpu")).param_groups
    names = {id(weight): name for name, weight in net.named_parameters()}
    found = {names[id(weight)] for group in groups if group["share"] == 0.1 for weight in group["params"]}
    layers = layer_of_each(net)
    assert found == {name for name, _ in net.named_parameters() if 8 < layers[name] < 19}
    optimizer = replace(slow.training.optimizer, rates=())
    assert replace(slow, training=replace(slow.training, optimizer=optimizer)) == free


def test_rules_of_one_resnet_differ_by_the_rule_alone():
    for scale in ("cpu", "gpu", "paper"):
        for point in rules.recipe.grid(scale).points:
            if point["rule"] in rules.RULES:
                plain, other = (
                    rules.recipe.config(scale, point | {"rule": rule}) for rule in ("standard", point["rule"])
                )
                assert replace(plain, network=replace(plain.network, rule=rules.RULES[point["rule"]])) == other


@pytest.mark.parametrize("scale", ["smoke", "cpu", "gpu", "paper"])
def test_a_vit_is_read_where_it_answers_from(scale):
    config = rules.recipe.config(scale, Point(network="vit", rule="standard", rate=0.001))
    assert config.reading.pool == build(config.network.name, 10, **config.network.options).global_pool


def test_small_networks_are_those_that_come_with_weights():
    names = {small.recipe.config("gpu", point).network.name for point in small.recipe.grid("gpu").points}
    assert names == {"winze/vgg19x0.25", "winze/resnet20", "winze/vit6x128"}
