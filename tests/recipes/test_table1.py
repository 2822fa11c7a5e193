"""Table 1 of ResidualDroppath: settings are timm's, claims the paper's, and networks are read after training."""

from dataclasses import replace

import pytest
import torch

from winze.data import MissingDataError
from winze.lab.bench import Bench
from winze.lab.job import plain
from winze.recipes.residual_droppath.table1 import CELLS, READINGS, RULES, recipe, work

SMOKE = recipe.config("smoke", "digits_standard")


@pytest.mark.parametrize("arm", ["cifar10_standard", "resnet50_mnist_output_batch"])
def test_the_paper_scale_trains_as_timm_does_by_default(arm):
    told = plain(recipe.config("paper", arm).training)
    assert told | {"optimizer": "sgd", "lr": 0.05, "momentum": 0.9, "nesterov": True} == told
    assert told | {"weight_decay": 2e-5, "decay_vectors": False, "batch": 128, "epochs": 300} == told
    assert told | {"schedule": "cosine", "per": "epoch", "warmup": 5, "warmup_lr": 1e-5, "min_lr": 0} == told
    assert told | {"smoothing": 0.1, "drop_last": True} == told
    assert [step["type"] for step in told["augment"]] == ["RandomResizedCrop", "Flip", "ColourJitter"]


def test_imagenet_is_streamed_in_batches_of_1024_at_the_rate_that_belongs_to_them():
    config = recipe.config("paper", "imagenet_droppath")
    assert (config.training.batch, config.training.lr, config.size) == (1024, 0.4, 224)
    assert config.stream is not None


def test_the_rules_are_the_paper_s_baselines_and_the_four_readings():
    rates = {(rule.rate, rule.profile) for rule in RULES.values() if rule is not None}
    assert rates == {(0.1, "linear")}
    assert RULES["droppath"].scale
    assert {(RULES[name].frozen, RULES[name].mask) for name in READINGS} == {
        (frozen, mask) for frozen in ("output", "weights") for mask in ("sample", "batch")
    }


def test_masks_never_steer_python_so_that_steps_can_be_captured():
    assert {rule.compute for rule in RULES.values() if rule is not None} == {"dense"}


def test_the_gpu_scale_is_all_six_arms_of_both_data_sets_with_three_seeds():
    jobs = recipe.jobs("gpu")
    assert len({job.key for job in jobs}) == 2 * 6 * 3
    assert {job.config.network for job in jobs} == {"resnet50d"}
    assert {(job.config.data, job.config.training.epochs) for job in jobs} == {("cifar10", 60), ("mnist", 10)}
    assert {job.config.training.precision for job in jobs} == {"bf16-mixed"}


def test_another_seed_of_the_paper_s_scale_is_another_run_of_the_same_settings():
    first, second = recipe.jobs("paper", ["cifar10_output_batch"], [0, 3])
    assert first.config == second.config
    assert first.key != second.key


def test_every_difference_that_the_table_has_is_claimed_for_each_reading_and_no_other():
    claimed = {
        claim.check.arms: claim.paper for claim in recipe.claims_at("paper") if claim.check.quantity == "accuracy"
    }
    assert claimed["cifar10_output_sample", "cifar10_standard"] == "+1.29 points"
    assert claimed["cifar10_weights_batch", "cifar10_droppath"] == "+1.00 points"
    assert claimed["resnet50_mnist_output_batch", "resnet50_mnist_standard"] == "+0.06 points"
    assert claimed["imagenet_output_sample", "imagenet_droppath"] == "+0.08 points"
    assert ("resnet50_imagenet_output_sample", "resnet50_imagenet_droppath") not in claimed
    assert len(claimed) == 6 * 9 - 4


def test_top_5_is_claimed_where_the_paper_is_ahead_of_both():
    claimed = {claim.check.arms: claim.paper for claim in recipe.claims_at("paper") if claim.check.quantity == "top5"}
    assert claimed["cifar10_output_sample", "cifar10_standard"] == "+0.24 points"
    assert {pair[0].removesuffix("_output_sample") for pair in claimed if pair[0].endswith("_output_sample")} == {
        "cifar10",
        "resnet50_cifar10",
        "imagenet",
    }
    assert all(paper.startswith("+0.") for paper in claimed.values())


def test_what_the_paper_did_not_read_is_marked_so():
    own = [claim for claim in recipe.claims_at("gpu") if claim.check.quantity not in ("accuracy", "top5")]
    assert len(own) == 8
    assert {claim.paper for claim in own} == {"not read"}


def test_data_that_is_not_at_hand_makes_its_claims_not_run(tmp_path, monkeypatch):
    for name in ("WINZE_DATA", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    with pytest.raises(MissingDataError, match="imagenet"):
        work(recipe.config("paper", "imagenet_standard"), Bench(tmp_path / "run"))
    words = {claim.text: verdict.word for claim, verdict in recipe.verdicts("paper", {}) if "ImageNet" in claim.text}
    assert set(words.values()) == {"not run"}
    assert len(words) == 9 + 5 + 8


def test_a_run_keeps_its_curve_and_reads_every_block(tmp_path):
    config = replace(SMOKE, rule=RULES["weights_batch"], ood=("digits[5-9]",))
    bench = Bench(tmp_path)
    work(config, bench)
    curve = {row.step: row.value for row in bench.readings.rows if row.measure == "top5"}
    assert list(curve) == [3]
    assert recipe.quantities["top5"](bench.readings) == curve[3]
    assert bench.readings.curve("probe").shape == bench.readings.curve("intra_variance").shape == (9,)
    assert bench.readings.arrays["cka"].shape == (9, 9)
    for name, quantity in recipe.quantities.items():
        assert torch.tensor(quantity(bench.readings)).isfinite(), name
    assert recipe.quantities["tunnel_start"](bench.readings) <= 9


def test_every_cell_has_six_arms():
    assert set(recipe.arms) == {f"{cell}_{name}" for cell in CELLS for name in RULES}
