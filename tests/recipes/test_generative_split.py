"""Frozen classifiers, similarity to the reference, and shared phases of the recipes on generative representations."""

import shutil
from dataclasses import replace

import pytest
import torch

from winze.lab import Bench, recipe
from winze.measure.probes.probe import regression_accuracy, softmax_regression
from winze.networks import NetworkError
from winze.readings import Point
from winze.recipes.generative import _split
from winze.recipes.generative._split import Refit

RECIPE = recipe("generative/forgetting")


def config(model):
    return RECIPE.config("smoke", Point(data="digits", model=model))


def rows(bench):
    return [(row.measure, row.step, row.value) for row in bench.readings.rows]


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A finished run of each model, and the folder of all runs."""
    root, found = tmp_path_factory.mktemp("runs"), {}
    for model in ("discriminative", "vae"):
        found[model] = Bench(root / model)
        _split.sequence(config(model), found[model])
    return root, found


def test_softmax_regression_separates_what_is_separable():
    x = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] - x[:, 1] > 0.1).long()
    assert regression_accuracy(softmax_regression(x, y, 2, 50), x, y) > 0.98


def test_a_classifier_is_frozen_when_its_task_ends(done):
    class Net(torch.nn.Module):
        def features(self, x):
            return x

    data = [(torch.randn(20, 3), torch.arange(20) % 2) for _ in range(2)]
    refit = Refit(data, data, 5)
    refit.after_epoch(Net(), 1)
    frozen = refit.classifiers["task 1"].clone()
    refit.task = 1
    assert list(refit.after_epoch(Net(), 1)) == ["accuracy of task 1", "accuracy of task 2"]
    assert torch.equal(refit.classifiers["task 1"], frozen)


@pytest.mark.parametrize("model", ["discriminative", "vae"])
def test_every_epoch_and_every_task_is_read(done, model):
    measures = {}
    for measure, step, _ in rows(done[1][model]):
        measures.setdefault(measure, []).append(step)
    assert measures["accuracy of task 1"] == list(range(1, 11))
    assert measures["accuracy of task 5"] == [9, 10]
    assert measures["cka of task 2"] == [2, 3, 4, 5]


def test_a_second_run_in_the_folder_trains_nothing_and_reads_the_same(done, monkeypatch):
    root, found = done
    again = Bench(root / "again")
    monkeypatch.setattr(Refit, "after_epoch", lambda *_: pytest.fail("it was trained again"))
    _split.sequence(config("vae"), again)
    assert rows(again) == rows(found["vae"])


def test_a_run_that_died_in_the_third_task_ends_as_if_it_had_not(done, tmp_path, monkeypatch):
    _, found = done
    whole, calls = Refit.after_epoch, []

    def dying(self, net, epoch):
        calls.append(self.task)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return whole(self, net, epoch)

    monkeypatch.setattr(Refit, "after_epoch", dying)
    with pytest.raises(KeyboardInterrupt):
        _split.sequence(config("vae"), Bench(tmp_path / "run"))
    assert calls[-1] == 2
    monkeypatch.setattr(Refit, "after_epoch", whole)
    resumed = Bench(tmp_path / "run")
    _split.sequence(config("vae"), resumed)
    assert rows(resumed) == rows(found["vae"])
    shutil.rmtree(tmp_path / "run")


def test_heads_that_do_not_fit_the_tasks_are_refused_before_anything_is_trained(tmp_path):
    with pytest.raises(NetworkError, match=r"heads of \(2, 2, 2, 2, 2\) outputs, the tasks have \(5, 5\) classes"):
        _split.sequence(replace(config("discriminative"), tasks=(5, 5)), Bench(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["iterations", "samples"])
def test_numbers_below_one_are_refused(name):
    with pytest.raises(ValueError, match=f"{name} must be a whole number of at least 1"):
        replace(config("vae"), **{name: 0})


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("synthetic/meta", {"orders": 0}, "orders must be a whole number of at least 1"),
        ("synthetic/meta", {"steps": (0, 5)}, "steps must be one whole number or more, from 1"),
        ("synthetic/meta", {"batches": ()}, "batches must be one whole number or more, from 1"),
        ("tunnel/collapse_forgetting", {"rounds": 0}, "rounds must be a whole number of at least 1"),
        ("tunnel/swap_temperature", {"extractor": 0}, "extractor must be a whole number of at least 1"),
    ],
)
def test_settings_of_continual_recipes_that_cannot_be_are_refused(name, settings, said):
    with pytest.raises(ValueError, match=said):
        replace(recipe(name).study, **settings)
