"""The ablations of ResidualDroppath: one change an arm, and as many steps in every one."""

import pytest

from winze.recipes.residual_droppath.ablation import PANELS, recipe

SAMPLES = {"digits": 1347, "cifar10": 50_000}


def steps(config) -> int:
    samples = SAMPLES[config.data] if config.per_class is None else 10 * config.per_class
    return config.training.epochs * (samples // config.training.batch)


@pytest.mark.parametrize("scale", ["cpu", "gpu", "paper"])
def test_arms_with_fewer_images_take_as_many_steps(scale):
    whole = steps(recipe.config(scale, "standard"))
    for arm in recipe.arms_at(scale):
        assert steps(recipe.config(scale, arm)) == pytest.approx(whole, rel=0.1), arm


def test_each_arm_changes_what_its_name_says():
    base = recipe.config("gpu", "ours")
    assert (base.rule.rate, base.rule.frozen, base.rule.mask, base.every) == (0.1, "output", "sample", 1)
    assert recipe.config("gpu", "rate_30").rule.rate == 0.3
    assert recipe.config("gpu", "stages_20").every == 20
    assert recipe.config("gpu", "same_batch").training.repeat == 2
    assert recipe.config("gpu", "tenth_ours").per_class == 500
    assert recipe.config("gpu", "hundredth_ours").per_class == 50
    assert recipe.config("gpu", "standard").rule is None


def test_the_vit_runs_a_fixed_number_of_rows():
    for arm in ("vit_droppath", "vit_ours"):
        rule = recipe.config("gpu", arm).rule
        assert (rule.draw, rule.compute) == ("count", "rows")


def test_the_figure_shows_every_arm():
    assert {arm for panel in PANELS for line in panel.lines.values() for arm in line.values()} == set(recipe.arms)


def test_what_the_paper_does_not_say_is_told_as_open():
    assert all(claim.paper for claim in recipe.claims)
    gains = recipe.claims[0].check
    assert dict(zip(gains.arms, gains.weights, strict=True)) == {
        "ours": 1,
        "standard": -1,
        "tenth_ours": -1,
        "tenth_standard": 1,
    }
