"""Table 1 of ResidualDroppath: the paper's margins as cells, one variation at a time, and networks that are read."""

from dataclasses import replace

import pytest
import timm
import torch

import winze
from winze.data import MissingDataError
from winze.lab import Bench, recipe
from winze.readings import Point
from winze.recipes.residual_droppath._settings import RULES
from winze.recipes.residual_droppath.table1 import PLAIN, READINGS, TABLE, work
from winze.train import Epochs

TABLE1 = recipe("residual_droppath/table1")
HOME = Point(PLAIN, network="resnet50d", data="cifar10", algorithm="standard")


def published(text, method="ResidualDroppath"):
    [claim] = (one for one in TABLE1.claims if one.text == f"{method} reaches a higher {text}")
    return {claim.key(cell): claim.published(cell) for cell in claim.cells(TABLE1.grid("paper"))}


def test_the_methods_readings_are_what_is_frozen_times_whom_a_mask_concerns():
    assert {(RULES[name].frozen, RULES[name].mask) for name in READINGS} == {
        (frozen, mask) for frozen in ("output", "weights") for mask in ("sample", "batch")
    }
    assert {rule.compute for rule in RULES.values() if rule is not None} == {"dense"}  # steps can be captured


def test_every_gain_that_the_table_has_is_claimed_for_each_reading_and_no_other():
    over_standard, over_droppath = published("top-1 accuracy than Standard"), published("top-1 accuracy than Droppath")
    assert over_standard["resnet50d", "cifar10", "output_sample"] == "+1.29 points"
    assert over_droppath["resnet50d", "cifar10", "weights_batch"] == "+1.00 points"
    assert over_standard.keys() == {(*cell, name) for cell in TABLE for name in READINGS}
    worse = {("resnet50", "imagenet", name) for name in READINGS}
    assert over_droppath.keys() == over_standard.keys() - worse
    assert published("top-5 accuracy than Standard")["resnet50d", "cifar10", "output_batch"] == "+0.24 points"
    assert published("top-5 accuracy than Droppath").keys() == {
        (*cell, name)
        for cell in (("resnet50d", "cifar10"), ("resnet50d", "imagenet"), ("resnet50", "cifar10"))
        for name in READINGS
    }
    assert published("top-1 accuracy than Standard", "Droppath")["resnet50", "mnist", "droppath"] == "+0.03 points"


@pytest.mark.parametrize("scale", ["gpu", "paper"])
def test_one_thing_is_varied_at_a_time_on_cifar10(scale):
    varied = [point for point in TABLE1.grid(scale).points if not point.lies_at(PLAIN)]
    assert {sum(point[axis] != label for axis, label in PLAIN.items()) for point in varied} == {1}
    assert all(point.lies_at({"network": "resnet50d", "data": "cifar10"}) for point in varied)
    plain = [point for point in TABLE1.grid(scale).points if point.lies_at(PLAIN)]
    assert len(plain) == len(RULES) * len({(point["network"], point["data"]) for point in plain})


@pytest.mark.parametrize("scale", ["gpu", "paper"])
def test_both_stages_on_every_batch_see_as_many_images_and_baselines_take_as_many_steps(scale):
    once, twice = (
        {name: TABLE1.config(scale, HOME | {"algorithm": name, "repeat": n}).training for name in RULES} for n in (1, 2)
    )
    for name in RULES:
        assert twice[name].length.count == 2 * once[name].length.count
        assert twice[name].repeat == (2 if name in READINGS else 1)
        assert replace(twice[name], repeat=1, length=once[name].length) == once[name]


def test_the_rule_at_identity_shortcuts_leaves_projections_alone():
    point = HOME | {"algorithm": "output_batch", "junctions": "identity"}
    network = TABLE1.config("gpu", point).network
    net = timm.create_model("resnet26d", num_classes=2)
    example = torch.zeros(2, 3, 32, 32)
    winze.rewire(net, network.rule, network.where, example=example)
    staged = {one.place.name: one.rule.staged for one in winze.junctions(net, example)}
    kinds = {one.place.name: one.kind for one in winze.junctions(timm.create_model("resnet26d"), example)}
    assert staged == {name: kind == "identity" for name, kind in kinds.items()}


def test_imagenet_is_streamed_and_its_claims_are_not_run_where_it_is_not_at_hand(tmp_path, monkeypatch):
    for name in ("WINZE_DATA", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    config = TABLE1.config("paper", HOME | {"data": "imagenet"})
    assert config.data.stream is not None
    assert config.training.optimizer.lr / config.training.batch == pytest.approx(0.05 / 128)
    with pytest.raises(MissingDataError, match="imagenet"):
        work(config, Bench(tmp_path / "run"))
    words = {told.word for judged in TABLE1.verdicts("paper", {}) for _, told in judged.cells}
    assert words == {"not run"}


def test_a_run_keeps_its_curve_and_reads_every_block(tmp_path):
    [point] = (p for p in TABLE1.grid("smoke").points if p["algorithm"] == "weights_batch")
    config = TABLE1.config("smoke", point)
    bench = Bench(tmp_path)
    work(replace(config, reading=replace(config.reading, ood=("digits[5-9]",))), bench)
    curve = {row.step: row.value for row in bench.readings.rows if row.measure == "top5"}
    assert list(curve) == [3]
    assert TABLE1.quantities["top5"](bench.readings) == curve[3]
    assert config.training.length == Epochs(1)
    assert bench.readings.curve("probe").shape == bench.readings.curve("intra_variance").shape == (9,)
    assert bench.readings.arrays["cka"].shape == (9, 9)
    assert bench.readings.curve("probe", data="digits[5-9]").shape == (9,)
