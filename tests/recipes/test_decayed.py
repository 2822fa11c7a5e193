"""Decayed shortcuts under supervision: depth by the third stage, looks at the last features, sweeps and claims."""

import math
from dataclasses import replace

import numpy as np
import pytest

from winze.lab.bench import Bench
from winze.networks import NetworkError
from winze.readings import Readings
from winze.recipes.decayed.supervised import ALPHAS, BLOCKS, SWEEPS, SWEPT, arm, recipe, slope, third_stage_slope
from winze.recipes.decayed.watched import RANK, work
from winze.report.scans import UnreadError
from winze.shape import DecayedIdentity


def done(folder, config) -> Readings:
    bench = Bench(folder)
    work(config, bench)
    return bench.readings


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """Readings of the smallest runs by arm, and of a network that was never rewired."""
    configs = {name: recipe.config("smoke", name) for name in (arm(8, 1.0), arm(8, 0.4), arm(16, 0.4))}
    configs["untouched"] = replace(configs[arm(8, 1.0)], rule=None)
    return {name: done(tmp_path_factory.mktemp("run"), config) for name, config in configs.items()}


def looks(readings: Readings) -> dict[int, float]:
    return {row.step: row.value for row in readings.rows if row.measure == RANK}


def test_the_third_stage_makes_up_the_number_of_blocks(read):
    assert len(read[arm(8, 0.4)].curve("effective_rank")) == 8
    assert len(read[arm(16, 0.4)].curve("effective_rank")) == 16
    names = [row.place for row in read[arm(16, 0.4)].rows if row.measure == "effective_rank"]
    assert sum(name.startswith("stages.2.") for name in names) == 10


def test_last_features_are_looked_at_before_training_and_after_every_epoch(read):
    seen = looks(read[arm(8, 0.4)])
    assert list(seen) == [0, 2, 4]  # two steps an epoch
    assert seen[4] == pytest.approx(read[arm(8, 0.4)].curve("effective_rank")[-1], abs=1e-4)
    assert seen[0] != pytest.approx(seen[4], abs=1e-3)


def test_an_alpha_min_of_one_is_the_plain_network(read):
    plain, untouched, decayed = (read[name] for name in (arm(8, 1.0), "untouched", arm(8, 0.4)))
    assert looks(plain) == looks(untouched)
    assert plain.curve("probe").tolist() == untouched.curve("probe").tolist()
    assert looks(plain) != looks(decayed)


def test_every_quantity_can_be_read(read):
    for name, quantity in recipe.quantities.items():
        assert math.isfinite(quantity(read[arm(16, 0.4)])), name


def test_alpha_min_outside_zero_and_one_is_refused():
    for alpha in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match=r"alpha_min must lie in \[0, 1\], got"):
            replace(recipe.config("smoke", arm(8, 1.0)), rule=DecayedIdentity(alpha_min=alpha))


def test_a_network_without_a_third_stage_is_refused(tmp_path):
    with pytest.raises(NetworkError, match="stage3"):
        work(replace(recipe.config("smoke", arm(8, 1.0)), blocks=6), Bench(tmp_path))


@pytest.mark.parametrize("scale", recipe.scales)
def test_arms_differ_in_blocks_and_alpha_min_alone(scale):
    configs = {name: recipe.config(scale, name) for name in recipe.arms_at(scale)}
    blocks, alphas, _ = SWEEPS[scale]
    assert {(one.blocks, one.rule.alpha_min) for one in configs.values()} == {(b, a) for b in blocks for a in alphas}
    bare = [replace(one, blocks=8, rule=None) for one in configs.values()]
    assert all(one == bare[0] for one in bare)


def test_the_papers_scale_has_the_whole_sweep():
    assert SWEEPS["paper"][:2] == ((8, 10, 12, 14, 16), (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2))
    assert recipe.config("paper", arm(8, 1.0)).training.epochs == 200
    told = {claim.paper: claim.check.region for claim in recipe.claims if "is right on" in claim.text}
    assert {paper: (round(one.low, 3), round(one.high, 3)) for paper, one in told.items()} == {
        "93.6 %": (0.931, 0.941),
        "94.4 %": (0.939, 0.949),
    }


def told(rank: float, accuracy: float) -> Readings:
    """A run of eight blocks with these numbers."""
    made = Readings(conventions={"data": "d"})
    for index, value in enumerate(np.linspace(rank + 1, rank, 8)):
        made.add("effective_rank", value, place=f"p{index}", index=index, total=8, data="d", split="test")
    made.add("accuracy", accuracy, data="d", split="test", step=3)
    made.add(RANK, rank, data="d", split="test", step=3)
    return made


@pytest.mark.parametrize("scale", SWEPT)
def test_a_rank_that_follows_alpha_min_is_borne_out_and_a_loss_of_accuracy_is_not(scale):
    runs = {
        name: {
            seed: told(one.rule.alpha_min + seed / 100 - one.blocks / 100, one.rule.alpha_min + seed / 1000)
            for seed in range(3)
        }
        for name in recipe.arms_at(scale)
        for one in [recipe.config(scale, name)]
    }
    words = {claim.text: said.word for claim, said in recipe.verdicts(scale, runs)}
    ranked = [text for text in words if "lowers the effective rank" in text or "is below that with" in text]
    ranked += [text for text in words if "end at a lower rank" in text]
    assert len(ranked) > 5
    assert {words[text] for text in ranked} == {"borne out"}
    costs = [text for text in words if "points of accuracy" in text]
    assert len(costs) == 2 * (len(SWEEPS[scale][1]) - 1)
    assert {words[text] for text in costs} == {"not borne out"}


def test_a_slope_over_depth_is_that_from_the_first_to_the_last_block():
    assert slope(np.array([4.0, 3.0, 2.0])) == pytest.approx(-2)
    assert slope(np.linspace(1, 2, 16)) == pytest.approx(1)
    assert third_stage_slope(np.array([9.0, 9, 9, 9, 5, 4, 3, 9, 9])) == pytest.approx(-2)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_figures_have_a_panel_a_depth_and_a_line_an_alpha_min(read, theme):
    arms = {name: [one] for name, one in read.items() if name != "untouched"}
    for title in ("Effective rank over depth", "Effective rank over training", "Other data over depth"):
        drawn = recipe.figures[title](arms, theme)
        assert [axes.get_title(loc="left") for axes in drawn.axes] == ["8 blocks", "16 blocks"]
        assert [line.get_label() for line in drawn.axes[0].get_lines()] == ["α_min = 1", "α_min = 0.4"]
    assert recipe.figures["Effective rank over training"](arms, theme).axes[0].get_lines()[0].get_xdata().tolist() == [
        0,
        1,
        2,
    ]
    with pytest.raises(UnreadError):
        recipe.figures["Effective rank by the number of blocks"]({}, theme)


def test_the_whole_sweep_can_be_drawn():
    arms = {arm(count, alpha): [told(alpha - count / 100, 0.9)] for count in BLOCKS for alpha in ALPHAS}
    drawn = recipe.figures["Effective rank by the number of blocks"](arms, "light").axes[0]
    means = [line for line in drawn.get_lines() if line.get_label().startswith("α")]
    assert [line.get_label() for line in means] == [f"α_min = {alpha:g}" for alpha in ALPHAS]
    assert means[0].get_ydata().tolist() == pytest.approx([0.92, 0.90, 0.88, 0.86, 0.84])
    assert len({line.get_color() for line in means}) == len(ALPHAS)


def test_the_path_of_the_gpu_scale_runs_on_a_small_network(tmp_path):
    config = recipe.config("gpu", arm(8, 0.6))
    assert (config.training.precision, config.training.channels_last) == ("bf16-mixed", True)
    small = {"network": "winze/resnet18x0.0625", "data": "digits[0-4]", "ood": ("digits[5-9]",), "size": 8}
    training = replace(config.training, epochs=2, batch=16, evaluate_every=1)
    found = done(tmp_path, replace(config, **small, limit=40, training=training))
    assert len(found.curve("probe", data="digits[5-9]")) == 8
    assert len(looks(found)) == 3
