"""Erosion: the phases and test sets of a run, what task 1 may lack, and what is refused before anything is trained."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from winze.data import DataError, Squares
from winze.lab import Bench
from winze.networks import NetworkError
from winze.readings import Point, Readings
from winze.recipes.erosion import _gradcam, _work, curves, layers, needs, ratio
from winze.recipes.tunnel import collapse_forgetting
from winze.train import Constant, Epochs, Milestones
from winze.train.fit import _Run

CONFIG = curves.recipe.config("smoke", Point(network="mlp4", first="random", size=2))


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """The readings of one run that relearns task 0."""
    bench = Bench(tmp_path_factory.mktemp("runs") / "run", progress=False)
    _work.erode(replace(CONFIG, again=True), bench)
    return bench


def value(readings, measure):
    return next(row.value for row in readings.rows if row.measure == measure and row.step is None)


def test_three_test_sets_are_followed_through_all_tasks(read):
    steps = {name: [row.step for row in read.readings.rows if row.measure == name] for name in ("clean", "correlated")}
    assert steps["clean"] == steps["correlated"] == [2, 4, 6, 8, 10, 12]  # 3 tasks, 2 epochs of 2 batches each
    rows = read.readings.rows
    for task, step in enumerate((4, 8, 12)):
        for name in ("clean", "random", "correlated"):
            last = next(row.value for row in rows if row.measure == name and row.step == step)
            assert value(read.readings, f"{name} after task {task}") == pytest.approx(last)
        assert value(read.readings, f"original after task {task}") == value(read.readings, f"random after task {task}")
    assert [value(read.readings, f"task {k} begins") for k in (1, 2)] == [2, 4]


def test_another_recipe_in_the_folder_trains_neither_task_again(read, monkeypatch):
    left, train = [], _Run._train
    monkeypatch.setattr(_Run, "_train", lambda own, step, bar: left.append(own.total - step) or train(own, step, bar))
    again = Bench(read.folder.with_name("again"), progress=False)
    _work.erode(replace(CONFIG, reading=replace(CONFIG.reading, measures=("rank",))), again)
    assert not any(left)
    for measure in ("original after task 0", "original after task 1"):
        assert value(again.readings, measure) == value(read.readings, measure)
    _work.erode(replace(CONFIG, decay=False), Bench(read.folder.with_name("other"), progress=False))
    assert any(left), "without weight decay task 1 is another training"


def test_the_phases_differ_in_their_squares_alone():
    square = Squares(2, ratio=0.5)
    training = _work.eroding(CONFIG, square)
    assert training.augment == (*CONFIG.training.augment, square)
    assert replace(training, augment=CONFIG.training.augment) == CONFIG.training


def test_task_1_may_lack_weight_decay_augmentation_and_a_restart():
    study = replace(CONFIG, training=replace(CONFIG.training, schedule=Milestones(at=(1, 1.5), per="epoch")))
    square = Squares(2)
    assert _work.eroding(replace(study, decay=False), square).optimizer.weight_decay == 0
    assert _work.eroding(replace(study, augmented=False), square).augment == (square,)
    ended = _work.eroding(replace(study, restart=False), square)
    assert ended.optimizer.lr == pytest.approx(study.training.optimizer.lr / 100)
    assert ended.schedule == Constant(per="epoch")
    config = needs.recipe.config("paper", Point({"network": "vgg19", "task_1": "none of them"}))
    assert (config.decay, config.augmented, config.restart) == (False, False, False)


def test_test_sets_differ_in_their_squares_alone():
    images, labels = torch.full((20, 3, 8, 8), 7, dtype=torch.uint8), torch.arange(20) % 10
    sets = _work.test_sets((images, labels), Squares(2, ratio=0.25))
    assert torch.equal(sets["clean"][0], images)
    for name in ("random", "correlated"):
        changed = (sets[name][0] != images).any(1)
        assert changed[:, :2, :2].all()  # every image has one, whatever the ratio in training
        assert not changed[:, 2:].any()
    red = torch.tensor([255, 0, 0], dtype=torch.uint8)
    assert torch.equal(sets["correlated"][0][0, :, 0, 0], red)


@pytest.mark.parametrize(
    ("square", "why"), [(Squares(9), "reach beyond images of 8 x 8"), (Squares(5, code="position"), "do not fit")]
)
def test_a_square_that_does_not_fit_is_refused_before_anything_is_written(square, why, tmp_path):
    with pytest.raises(DataError, match=why):
        _work.erode(replace(CONFIG, square=square), Bench(tmp_path / "run", progress=False))
    assert not (tmp_path / "run" / "phases").exists()


def test_fewer_colours_than_classes_are_refused():
    with pytest.raises(DataError, match="10 colours for 12 classes"):
        Squares(2, classes=12).check((3, 8, 8), 12)
    with pytest.raises(DataError, match="give classes=10"):
        Squares(2, classes=4).check((3, 8, 8), 10)
    with pytest.raises(DataError, match="painted into images"):
        Squares(2).check((64,), 10)
    Squares(2, classes=12).check((1, 8, 8), 12)  # grey images have as many levels


def test_without_its_package_gradcam_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pytorch_grad_cam", None)
    with pytest.raises(NetworkError, match=r"winze\[gradcam\]"):
        _work.erode(replace(CONFIG, gradcam=2), Bench(tmp_path / "run", progress=False))
    assert not (tmp_path / "run" / "phases").exists()


@pytest.mark.parametrize("sizes", [(1, 9), (8, 8)])
def test_tasks_that_the_classes_do_not_make_are_refused_before_anything_is_trained(sizes, tmp_path):
    with pytest.raises(DataError, match="tasks"):
        _work.erode(replace(CONFIG, forget=sizes), Bench(tmp_path / "run", progress=False))
    assert not (tmp_path / "run" / "phases").exists()


def test_gradcam_is_drawn_at_a_map_of_four_pixels_or_more():
    net = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.Conv2d(4, 4, 3, 2, 1), nn.Conv2d(4, 4, 3, 2, 1))
    assert _gradcam._layer(net, torch.zeros(1, 3, 16, 16)) is net[1]


def test_stored_weights_keep_the_outputs_of_the_datas_classes():
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 20))
    weight, bias = net[1].weight.clone(), net[1].bias.clone()
    _work._restrict(net, "imagenet[3,17,5]")
    assert torch.equal(net[1].weight, weight[[3, 17, 5]])
    assert torch.equal(net[1].bias, bias[[3, 17, 5]])


def test_ranks_leave_the_output_out():
    readings = Readings(conventions={"layers": {"without projections": [1, 2, 3]}, "layer_count": 3})
    for index, (before, after) in enumerate(((8, 4), (6, 6), (5, 1))):
        for measure, number in (("numerical_rank before", before), ("numerical_rank", after)):
            readings.add(measure, number, place=f"layer{index}", index=index, total=3, data="digits", split="test")
    assert layers.fallen(readings) == 0.5
    assert layers.remaining(readings) == pytest.approx((0.5 + 1) / 2)


def test_a_straight_line_has_no_bend():
    points = {q: Point(network="mlp4", first="random", ratio=q) for q in (0.0, 0.5, 1.0)}

    def judged(values):
        runs = {points[q]: {seed: fallen(value + 0.01 * seed) for seed in range(3)} for q, value in values.items()}
        cell = Point(network="mlp4", first="random")
        return ratio.bend.judge(cell, None, ratio.recipe.grid("cpu"), runs, {})

    def fallen(by):
        readings = Readings()
        readings.add("original after task 0", 1.0)
        readings.add("original after task 1", 1.0 - by)
        return readings

    assert judged({0.0: 0.0, 0.5: 0.1, 1.0: 0.8}).word == "supported"
    assert judged({0.0: 0.0, 0.5: 0.4, 1.0: 0.5}).word == "contradicted"
    assert judged({0.0: 0.0, 0.5: 0.4, 1.0: 0.8}).word != "supported"


def test_the_paper_scale_is_the_papers_setting():
    config = curves.recipe.config("paper", Point(network="vgg19", first="random", size=3))
    training = config.training
    assert (config.network.name, config.data.name, config.square.size) == ("winze/vgg19", "cifar10", 3)
    assert (training.length, training.batch, training.schedule.at) == (Epochs(160), 128, (80, 120))
    assert (training.optimizer.lr, training.optimizer.momentum, training.optimizer.weight_decay) == (0.1, 0.9, 1e-4)


def test_task_1_is_trained_until_its_loss_is_reached(tmp_path):
    config = collapse_forgetting.recipe.config("smoke", Point(rate=0.03))
    rounds = {}
    for name, loss in (("low", 0.0), ("high", 100.0)):
        bench = Bench(tmp_path / name, progress=False)
        collapse_forgetting.recipe.work(replace(config, loss=loss), bench)
        rounds[name] = value(bench.readings, "rounds")
        assert np.isfinite(value(bench.readings, "train_loss"))
        assert value(bench.readings, "last_rank") >= 1
    assert rounds == {"low": 2, "high": 1}
