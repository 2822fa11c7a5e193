"""Rules, correlation and segments of the generative recipes, without training."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

import winze
from winze.data import DataError, MissingDataError, Preprocess
from winze.data.segmentation import load_segments
from winze.lab import Axis, Bench, recipe
from winze.lab.axes import PointGrid
from winze.lab.runs.job import plain
from winze.measure.segments import matched_iou
from winze.measure.value import Value
from winze.networks import NetworkError
from winze.networks.inception import MissingWeightsError
from winze.networks.models.mae import MaskedAutoencoder
from winze.readings import Point, Readings
from winze.recipes.decayed import _diffusion
from winze.recipes.decayed._correlation import correlates_negatively, higher_at_equal_loss
from winze.recipes.decayed.mae_rules import OneKind, PerBlock
from winze.recipes.decayed.mae_segment import Segmented, predicted_segments, work
from winze.report.experiment.pearson import correlations

IMAGES = torch.randn(2, 3, 8, 8)


def net():
    torch.manual_seed(0)
    return MaskedAutoencoder(4, 32, side=8, patch=2, decoder_depth=2, decoder_width=32)


def weights(rule):
    wired = winze.rewire(net(), rule, where="encoder.*", example=IMAGES)
    found = [one for one in winze.junctions(wired, IMAGES) if one.place.name.startswith("encoder")]
    return [one.rule.weight(one.place.__class__(spot, 8, one.place.name)) for spot, one in enumerate(found)]


def test_one_kind_alone_keeps_the_factors_of_its_own_places():
    whole = np.linspace(1, 0.6, 8)
    attention = np.where(np.arange(8) % 2 == 0, whole, 1)
    mlp = np.where(np.arange(8) % 2 == 1, whole, 1)
    assert np.allclose(weights(OneKind(0.6, "attn")), attention)
    assert np.allclose(weights(OneKind(0.6, "mlp")), mlp)


def test_both_branches_of_a_block_share_a_factor():
    assert np.allclose(weights(PerBlock(0.6)), np.repeat(np.linspace(1, 0.6, 4), 2))


def test_every_arm_of_the_tables_builds_and_runs():
    made = recipe("decayed/mae_rules")
    for point in made.grid("smoke").points:
        rule = made.config("smoke", point).network.rule
        assert torch.isfinite(winze.rewire(net(), rule, where="encoder.*", example=IMAGES)(IMAGES)[0]).all()


def run(ranks, probes):
    readings = Readings()
    for step, (rank, probe) in enumerate(zip(ranks, probes, strict=True), 1):
        readings.add("rank", rank, step=step)
        readings.add("probe", probe, step=step)
    return readings


def test_the_correlation_at_each_step_is_that_of_numpy():
    generator = np.random.default_rng(0)
    ranks, probes = generator.normal(size=(2, 5, 3))
    steps, found = correlations([run(*pair) for pair in zip(ranks, probes, strict=True)], "rank", "probe")
    assert steps.tolist() == [1, 2, 3]
    assert np.allclose(found, [np.corrcoef(ranks[:, step], probes[:, step])[0, 1] for step in range(3)])


@pytest.mark.parametrize(("sign", "word"), [(-1, "supported"), (1, "contradicted")])
def test_a_correlation_is_judged_by_its_sign(sign, word):
    points = [Point({"alpha": alpha}) for alpha in (1.0, 0.8, 0.6)]
    grid = PointGrid({"alpha": Axis("network.rule.alpha_min", (1.0, 0.8, 0.6))}, tuple(points))
    generator = np.random.default_rng(0)
    runs = {
        point: {
            seed: run([point["alpha"]] * 2, sign * point["alpha"] + 0.05 * generator.normal(size=2))
            for seed in (0, 1, 2)
        }
        for point in points
    }
    check = correlates_negatively("rank", "probe", over="alpha")
    assert check.judge(Point({}), (), grid, runs, {}).word == word


def looks(losses, probes):
    readings = Readings()
    for step, (loss, probe) in enumerate(zip(losses, probes, strict=True), 1):
        readings.add("reconstruction", loss, step=step)
        readings.add("probe", probe, step=step)
    return readings


def test_two_arms_are_compared_where_both_have_the_lowest_loss_that_both_reach():
    check = higher_at_equal_loss("probe", "reconstruction", {"alpha": 0.6}, than={"alpha": 1.0})
    slow = looks([0.9, 0.6, 0.5], [0.1, 0.3, 0.45])  # ends at 0.5
    fast = looks([0.8, 0.6, 0.4], [0.2, 0.3, 0.60])  # passes 0.5 half-way from 0.3 to 0.6
    assert check.of_seed([slow, fast]) == pytest.approx(0.45 - 0.45)
    assert check.of_seed([looks([0.9, 0.5], [0.1, 0.7]), fast]) == pytest.approx(0.7 - 0.45)
    assert np.isnan(check.of_seed([looks([0.9], [0.1]), looks([0.5, 0.4], [0.2, 0.3])])), "one begins below"


@pytest.mark.parametrize(("gain", "word"), [(0.1, "supported"), (-0.1, "contradicted")])
def test_a_comparison_at_equal_loss_is_judged_over_seeds(gain, word):
    points = [Point({"alpha": alpha}) for alpha in (1.0, 0.6)]
    grid = PointGrid({"alpha": Axis("network.rule.alpha_min", (1.0, 0.6))}, tuple(points))
    runs = {
        point: {seed: looks([0.9, 0.5], [0.1, 0.4 + 0.01 * seed + more]) for seed in (0, 1, 2)}
        for point, more in zip(points, (0.0, gain), strict=True)
    }
    check = higher_at_equal_loss("probe", "reconstruction", {"alpha": 0.6}, than={"alpha": 1.0})
    assert check.judge(Point({}), (), grid, runs, {}).word == word


def test_recipes_that_train_equal_networks_share_their_training():
    """All that decides a shared phase is equal: the network, the data, the training and what is watched."""
    wanted = {
        "decayed/mae_rank": {"data": "cifar10", "alpha": 0.6},
        "decayed/mae_skips": {"data": "cifar10", "skips": "with", "alpha": 0.6},
        "decayed/mae_rules": {"rule": "decayed"},
        "decayed/mae_settings": {"setting": "base", "alpha": 0.6},
    }
    own = recipe("decayed/mae_alpha").config("gpu", Point({"data": "cifar10", "alpha": 0.6}))
    for name, point in wanted.items():
        other = recipe(name).config("gpu", Point(point))
        for part in ("network", "data", "training", "watching"):
            assert plain(getattr(other, part)) == plain(getattr(own, part)), (name, part)
    ruled = recipe("decayed/mae_rules").config("gpu", Point({"rule": "plain"}))
    own = recipe("decayed/mae_alpha").config("gpu", Point({"data": "cifar10", "alpha": 1.0}))
    assert plain(ruled.network) == plain(own.network)


def test_drawn_images_are_compared_with_the_whole_training_set(tmp_path, monkeypatch):
    sizes = []
    monkeypatch.setattr(_diffusion, "frechet_distance", lambda *sets: sizes.append([*map(len, sets)]) or Value(1.0))
    for name in ("learn", "read", "store_curve"):
        monkeypatch.setattr(_diffusion, name, lambda *args, **more: None)
    monkeypatch.setattr(_diffusion, "inception", lambda: (_ for _ in ()).throw(MissingWeightsError("none")))
    config = recipe("decayed/diffusion").config("smoke", Point({"labels": "none", "alpha": 0.7}))
    _diffusion.work(replace(config, network=replace(config.network, rule=None), steps=1), Bench(tmp_path))
    assert sizes == [[64, 128]]


def test_an_encoder_that_sees_brightness_segments_a_folder_of_bright_and_dark_halves(tmp_path):
    for part in ("images", "masks"):
        (tmp_path / part).mkdir()
    for number in range(6):
        mask = np.zeros((8, 8), np.uint8)
        mask[:, : 2 + 2 * (number % 3)] = 1
        Image.fromarray(np.repeat(200 * mask[:, :, None], 3, 2)).save(tmp_path / "images" / f"{number}.png")
        Image.fromarray(mask).save(tmp_path / "masks" / f"{number}.png")
    images, truth = load_segments(str(tmp_path), 8)
    made = net()  # whose encoder starts as the identity on embedded patches
    made.encoder.positions.zero_()
    preprocess = Preprocess(None, (0.4, 0.4, 0.4), (0.4, 0.4, 0.4))
    found = predicted_segments(made.encoder.eval(), preprocess, images, 2, seed=0)
    assert matched_iou(found, truth.long(), 2) == 1


def test_a_missing_folder_of_masks_is_named_before_training(tmp_path):
    config = recipe("decayed/mae_segment").config("gpu", Point({"alpha": 0.7}))
    assert isinstance(config, Segmented)
    with pytest.raises(MissingDataError, match="no folder of images with masks: looked for coco/images"):
        work(config, Bench(tmp_path))


@pytest.mark.parametrize("value", [0, 255])
def test_masks_of_one_class_are_refused_before_training(tmp_path, value):
    for part in ("images", "masks"):
        (tmp_path / part).mkdir()
        Image.fromarray(np.full((8, 8), value, np.uint8)).save(tmp_path / part / "a.png")
    config = replace(recipe("decayed/mae_segment").config("smoke", Point({"alpha": 0.7})), masks=str(tmp_path))
    with pytest.raises(DataError, match="segmentation needs two classes or more"):
        work(config, Bench(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("settings", [{"times": (2.0,)}, {"times": ()}, {"steps": 0}, {"images": 4}])
def test_times_and_images_that_cannot_be_are_refused(settings):
    with pytest.raises(ValueError, match=r"(times|images|steps) must be"):
        replace(recipe("decayed/diffusion").config("smoke", Point({"labels": "none", "alpha": 0.7})), **settings)


def test_unknown_features_of_the_distance_are_refused_before_training(tmp_path):
    config = recipe("decayed/diffusion").config("smoke", Point({"labels": "none", "alpha": 0.7}))
    plain_net = replace(config.network, rule=None)
    with pytest.raises(NetworkError, match="winze/nothing"):
        _diffusion.work(replace(config, network=plain_net, features="winze/nothing"), Bench(tmp_path / "run"))
    assert not (tmp_path / "run").exists()
