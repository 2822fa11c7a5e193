"""The ablations of ResidualDroppath: one thing is varied at a time, and what is compared is of one length."""

import pytest

from winze.lab import recipe
from winze.recipes.residual_droppath.ablation import OURS, REST

ABLATION = recipe("residual_droppath/ablation")
SAMPLES = {"digits": 1347, "cifar10": 50_000}


def steps(config) -> int:
    data, training = config.data, config.training
    samples = SAMPLES[data.name] if data.per_class is None else 10 * data.per_class
    return training.length.count * (samples // training.batch)


@pytest.mark.parametrize("scale", ["cpu", "gpu", "paper"])
def test_all_points_take_as_many_steps_but_for_those_that_see_as_many_images(scale):
    configs = {point: ABLATION.config(scale, point) for point in ABLATION.grid(scale).points}
    whole = steps(next(one for point, one in configs.items() if point["algorithm"] == "standard"))
    for point, config in configs.items():
        times = 2 if point["batch"] == "same_long" else 1
        assert steps(config) == pytest.approx(times * whole, rel=0.1), point
        assert config.training.repeat == (1 if point["batch"] == "new" else 2)


@pytest.mark.parametrize("scale", ["cpu", "gpu", "paper"])
def test_one_thing_is_varied_at_a_time(scale):
    for point in ABLATION.grid(scale).points:
        varied = [axis for axis, label in REST.items() if point[axis] != label]
        assert len(varied) <= 1
        if point["algorithm"] not in OURS:
            assert varied in ([], ["images"], ["network"])


def test_a_value_of_an_axis_is_the_setting_of_that_name():
    for point in ABLATION.grid("gpu").points:
        config = ABLATION.config("gpu", point)
        assert config.network.every == point["stage"]
        assert (config.network.rule is None) == (point["algorithm"] == "standard")
        if config.network.rule is not None:
            assert config.network.rule.rate == point["rate"]
        assert (config.data.per_class or 5000) == 5000 * point["images"]


def test_the_vit_runs_a_fixed_number_of_rows():
    rules = {
        point["algorithm"]: ABLATION.config("gpu", point).network.rule
        for point in ABLATION.grid("gpu").points
        if point["network"] == "vit"
    }
    assert rules.pop("standard") is None
    assert {(rule.draw, rule.compute) for rule in rules.values()} == {("count", "rows")}
    assert len(rules) == 2
