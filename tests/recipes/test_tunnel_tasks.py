"""Two tasks with a head for each: what is crossed, and whose head speaks."""

from dataclasses import replace

import pytest
import torch

from winze.lab.bench import Bench
from winze.lab.crossing import weights_of
from winze.recipes.tunnel import held, shorter, substitution, swap
from winze.recipes.tunnel.settings import GENTLE_TASKS
from winze.recipes.tunnel.tasks import learn

SMOKE = swap.recipe.config("smoke", "seven_three")


@pytest.fixture(scope="module")
def learnt(tmp_path_factory):
    return learn(SMOKE, Bench(tmp_path_factory.mktemp("run")))


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


def test_the_head_of_task_1_stays_as_it_was_while_task_2_is_learnt(learnt):
    first, second = learnt.after
    heads = [name for name in first if ".heads." in name]
    assert [torch.equal(first[name], second[name]) for name in heads] == [True, True, False, False]
    assert [len(first[name]) for name in heads] == [7, 7, 3, 3]
    assert not same(first, second)


def test_all_layers_of_one_task_are_the_network_after_it_with_every_head_of_its_own_task(learnt):
    count = len(learnt.names)
    assert count == 10  # VGG-11 without its output
    assert same(learnt.crossed(1, 2, 0), learnt.after[1])
    assert same(learnt.crossed(2, 1, count), learnt.after[1])
    hidden = {name: value for name, value in learnt.after[0].items() if ".heads." not in name}
    for mixed in (learnt.crossed(1, 2, count), learnt.crossed(2, 1, 0)):
        assert same(hidden, mixed)
        assert torch.equal(mixed["output.heads.1.weight"], learnt.after[1]["output.heads.1.weight"])


def test_a_task_is_judged_through_its_own_head(learnt):
    weights = dict(learnt.after[1])
    weights["output.heads.1.weight"] = torch.zeros_like(weights["output.heads.1.weight"])
    weights["output.heads.1.bias"] = torch.tensor([0.0, 0.0, 9.0])
    labels = learnt.tasks[1].test_labels
    assert learnt.accuracy(weights, 2) == pytest.approx(float((labels == 2).double().mean()))
    assert learnt.accuracy(weights, 1) == learnt.accuracy(learnt.after[1], 1)


def test_a_new_head_is_learnt_on_the_extractor_of_one_task_and_the_tunnel_of_the_other(learnt):
    found = swap._tuned(SMOKE, learnt)
    assert same(weights_of(learnt.net), learnt.crossed(2, 1, SMOKE.extractor))
    assert set(found) == {swap.PROBED, swap.TUNED}
    assert all(0 <= value <= 1 for value in found.values())


@pytest.mark.parametrize(("arm", "held_layers"), [("extractor_held", range(1, 9)), ("tunnel_held", range(9, 19))])
def test_held_layers_and_their_statistics_stand_still_in_task_2(arm, held_layers, tmp_path):
    config = replace(held.recipe.config("smoke", "free"), **held.recipe.arms[arm])
    found = learn(config, Bench(tmp_path), replace(config.training, rates=tuple((g, 0.0) for g in config.weights)))
    first, second = found.after
    for name, value in first.items():
        if not name.endswith("num_batches_tracked") and ".heads." not in name:
            still = found.layers[name] in held_layers
            assert torch.equal(value, second[name]) == still, name


def test_a_slow_layer_moves_less_than_a_free_one(tmp_path):
    moved = {}
    for arm in ("free", "extractor_slow"):
        config = replace(held.recipe.config("smoke", "free"), **held.recipe.arms[arm])
        rates = tuple((glob, config.rate) for glob in config.weights)
        first, second = learn(config, Bench(tmp_path / arm), replace(config.training, rates=rates)).after
        moved[arm] = float((first["layers.conv2.conv.weight"] - second["layers.conv2.conv.weight"]).norm())
    assert 0 < moved["extractor_slow"] < 0.3 * moved["free"]


def test_the_paper_scale_is_the_papers_setting():
    config = swap.recipe.config("paper", "five_five")
    training = config.training
    assert (config.network, config.data, config.tasks, config.extractor) == ("winze/vgg19", "cifar10", (5, 5), 8)
    assert (training.epochs, training.lr, training.schedule, training.batch) == (30, 0.1, "constant", 128)


def test_all_tasks_on_a_gpu_are_learnt_at_the_gentle_rate():
    for one, epochs in ((swap.recipe, 30), (shorter.recipe, 10), (held.recipe, 10), (substitution.recipe, 10)):
        for training in (one.config("gpu", arm).training for arm in one.arms_at("gpu")):
            assert replace(training, precision="32-true", channels_last=False, evaluate_every=30) == replace(
                GENTLE_TASKS, epochs=epochs
            )


def test_every_cell_of_the_table_is_claimed():
    cells = [claim for claim in swap.recipe.claims_at("paper") if isinstance(claim.paper, float)]
    assert sorted(claim.paper for claim in cells) == sorted(
        [92.04, 56.8, 92.5, 58.04, 50.84, 93.94, 50.66, 93.72, 56.1, 74.4]
    )
    assert not [claim for claim in swap.recipe.claims_at("cpu") if isinstance(claim.paper, float)]
