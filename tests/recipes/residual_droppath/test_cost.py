"""The cost of a step is measured as it says: in pairs, both stages, each saved piece of memory once."""

from dataclasses import replace

import pytest
import torch

import winze
from winze.lab import Network, recipe
from winze.readings import Readings
from winze.recipes.residual_droppath import _cost
from winze.recipes.residual_droppath._cost import StepCost, Trainee, interleaved, saved
from winze.recipes.residual_droppath.cost import BATCH, READINGS, both_stages, memory
from winze.train import SGD, Epochs, Training

COST, CPU = recipe("residual_droppath/cost"), torch.device("cpu")
STUDY = StepCost(Network("winze/resnet20x0.25"), Training(Epochs(1), batch=4, optimizer=SGD(0.1)), side=8)


def trainee(rule=None):
    return Trainee(STUDY, rule, 0, CPU)


def test_the_ratio_of_each_pair_is_that_of_its_own_two_times(monkeypatch):
    tried, plain, order = trainee(), trainee(), []
    times = iter([1.0, 3.0, 8.0, 2.0])

    def seconds(work, device):
        order.append("tried" if work.__self__ is tried else "plain")
        return next(times)

    monkeypatch.setattr(_cost, "seconds", seconds)
    ratios, base = interleaved(tried, plain, 2, CPU)
    assert order == ["plain", "tried", "tried", "plain"]
    assert ratios == [3.0, 4.0]
    assert base == [0.5, 1.0]


def test_two_steps_are_one_of_each_stage():
    staged = trainee(winze.ResidualDropPath(compute="dense"))
    seen = []
    staged.net.register_forward_hook(lambda *_: seen.append(staged.stages.stage))
    staged.both()
    assert seen == [1, 2]
    assert staged.stages.stage == 1


def test_a_trained_step_moves_the_weights_and_the_rule_does_not_change_the_start():
    plain, staged = trainee(), trainee(winze.ResidualDropPath(compute="dense"))
    before = [one.clone() for one in plain.net.parameters()]
    assert all(torch.equal(one, other) for one, other in zip(staged.net.parameters(), before, strict=True))
    assert torch.equal(plain.images, staged.images)
    plain.step()
    assert not any(torch.equal(one, other) for one, other in zip(plain.net.parameters(), before, strict=True))


def test_frozen_branches_that_run_without_a_graph_save_less():
    rule = winze.ResidualDropPath(1e-9, mask="batch", profile="constant")  # every branch is kept
    lean, dense = trainee(rule), trainee(replace(rule, compute="dense"))
    for one in (lean, dense):
        one.step()
    assert lean.stages.stage == dense.stages.stage == 2
    assert saved(lean) < 0.5 * saved(dense)


def test_both_stages_on_one_batch_take_twice_the_ratio_of_a_step():
    readings = Readings()
    readings.add("time_ratio", 1.1)
    assert both_stages(readings) == pytest.approx(2.2)


def test_the_peak_of_a_gpu_counts_before_what_is_saved():
    readings = Readings()
    readings.add("saved_ratio", 1.3)
    assert memory(readings) == 1.3
    readings.add("peak_ratio", 1.1)
    assert memory(readings) == 1.1


@pytest.mark.parametrize("scale", ["cpu", "gpu", "paper"])
def test_every_rule_is_measured_dense_and_where_winze_saves_work_also_with_auto(scale):
    for point in COST.grid(scale).points:
        rule = COST.config(scale, point).network.rule
        assert (rule is None) == (point["algorithm"] == "standard")
        assert rule is None or rule.compute == point["compute"]
        if point["compute"] == "auto":
            assert point["algorithm"] in (READINGS if point["network"] == "vit" else BATCH)
