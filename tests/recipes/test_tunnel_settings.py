"""What the tunnel's recipes share, and the settings of those that only train and scan."""

from dataclasses import replace

import pytest
import torch

from winze.lab.counting import layer_count
from winze.lab.crossing import layer_of_each
from winze.networks import build
from winze.recipes.tunnel import no_shortcut, rules, shorter, stem
from winze.recipes.tunnel.settings import CONTINUAL, GENTLE_TASKS, RESNET, VGG, as_many_steps, gentle, quick, shortened
from winze.shape import NoShortcut
from winze.train.optimizers import make_optimizer
from winze.train.schedules import learning_rate


@pytest.mark.parametrize(("training", "epochs"), [(VGG, 30), (RESNET, 40), (VGG, 320)])
def test_a_shorter_training_lowers_its_rate_at_the_same_shares(training, epochs):
    short = shortened(training, epochs)
    before = [milestone / training.epochs for milestone in training.milestones]
    assert [milestone / epochs for milestone in short.milestones] == pytest.approx(before, abs=1 / epochs)
    assert replace(short, epochs=training.epochs, milestones=training.milestones) == training


def test_a_quick_training_differs_in_length_and_precision_alone():
    assert replace(quick(VGG, 30), precision="32-true", channels_last=False) == shortened(VGG, 30)


def test_a_gentle_training_rises_to_its_rate_and_falls_to_nothing_however_often_it_goes_through_the_data():
    for training, share in ((gentle(VGG, 16), 1.0), (as_many_steps(gentle(RESNET, 16), 0.3), 0.3)):
        steps = round(100 * share)
        rate, last = learning_rate(training, steps), training.epochs * steps - 1
        assert [rate(step) for step in (0, 100)] == pytest.approx([0, 0.015], abs=1e-3)
        assert max(rate(step) for step in range(last)) == pytest.approx(0.03, rel=0.05)
        assert rate(last) < 1e-4
        assert (training.weight_decay, training.augment) == (VGG.weight_decay, VGG.augment)


def test_gentle_tasks_are_learnt_at_a_constant_rate_after_the_first_epoch():
    rate = learning_rate(GENTLE_TASKS, 100)
    assert [rate(step) for step in (0, 50, 100, 2999)] == pytest.approx([0, 0.015, 0.03, 0.03])
    assert replace(GENTLE_TASKS, lr=0.1, warmup=0, per="epoch") == CONTINUAL


def test_a_share_of_the_data_is_gone_through_so_much_more_often():
    assert as_many_steps(VGG, 0.3).epochs == 533
    assert as_many_steps(VGG, 1.0) == VGG


def test_tasks_are_learnt_at_a_constant_rate():
    assert (CONTINUAL.epochs, CONTINUAL.schedule, CONTINUAL.milestones, CONTINUAL.lr) == (30, "constant", (), 0.1)


def test_stems_differ_in_the_maps_that_blocks_see():
    def side(scale, arm, picture, channels):
        config = stem.recipe.config(scale, arm)
        net, seen = build(config.network, **config.options, channels=channels), []
        net.stages[0].register_forward_pre_hook(lambda module, args: seen.append(args[0].shape[-1]))
        net.eval()(torch.zeros(1, channels, picture, picture))
        return seen[0]

    assert [side("gpu", arm, 32, 3) for arm in stem.STEMS] == [8, 16, 32]
    assert [side("cpu", arm, 8, 1) for arm in stem.STEMS] == [2, 4, 8]


def test_plain_networks_differ_from_resnets_by_the_rule_alone():
    for scale in no_shortcut.recipe.scales:
        arms = no_shortcut.recipe.arms_at(scale)
        for arm in arms:
            if arm.startswith("plain"):
                plain, whole = (no_shortcut.recipe.config(scale, one) for one in (arm, arm.replace("plain", "resnet")))
                assert replace(plain, rule=None) == whole
                assert plain.rule == NoShortcut()
    assert set(no_shortcut.recipe.arms_at("paper")) == {"resnet18", "resnet34", "plain18", "plain34"}


def test_shorter_networks_have_as_many_layers_as_their_arms_say():
    for arm in shorter.recipe.arms:
        config = shorter.recipe.config("paper", arm)
        assert arm == f"layers_{layer_count(build(config.network, 10, **config.options))}"
        assert config.training == CONTINUAL


def test_slow_layers_are_all_of_the_tunnel_and_nothing_else():
    config = rules.recipe.config("paper", "vgg_slow")
    net = build(config.network, 10, **config.options)
    groups = make_optimizer(net, config.training, torch.device("cpu")).param_groups
    names = {id(weight): name for name, weight in net.named_parameters()}
    slow = {names[id(weight)] for group in groups if group["share"] == 0.1 for weight in group["params"]}
    layers = layer_of_each(net)
    assert slow == {name for name, _ in net.named_parameters() if 8 < layers[name] < 19}
    assert replace(config.training, rates=()) == rules.recipe.config("paper", "vgg").training


def test_arms_of_one_network_differ_by_their_rule_alone():
    for scale in ("cpu", "gpu", "paper"):
        plain = rules.recipe.config(scale, "resnet")
        for arm, rule in rules.RULES.items():
            assert rules.recipe.config(scale, arm) == replace(plain, rule=rule)


@pytest.mark.parametrize("scale", ["smoke", "cpu", "gpu", "paper"])
def test_a_vit_is_read_where_it_answers_from(scale):
    config = rules.recipe.config(scale, "vit")
    assert config.pool == build(config.network, 10, **config.options).global_pool
