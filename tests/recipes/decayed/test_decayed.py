"""Decayed shortcuts under supervision: what is watched and read, and verdicts on readings whose answer is known."""

from dataclasses import replace

import numpy as np
import pytest

from winze.lab import Bench, learn_and_read, recipe
from winze.readings import Point, Readings
from winze.recipes.decayed.supervised import RANK, slope

DECAYED = recipe("decayed/supervised")
PLAIN, FADED, DEEP = Point(blocks=8, alpha=1.0), Point(blocks=8, alpha=0.4), Point(blocks=16, alpha=0.4)


def done(folder, config) -> Readings:
    bench = Bench(folder)
    learn_and_read(config, bench)
    return bench.readings


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """Readings of the smallest runs by point, and of a network that was never rewired."""
    configs = {point: DECAYED.config("smoke", point) for point in (PLAIN, FADED, DEEP)}
    configs["untouched"] = replace(configs[PLAIN], network=replace(configs[PLAIN].network, rule=None))
    return {name: done(tmp_path_factory.mktemp("run"), config) for name, config in configs.items()}


def looks(readings: Readings) -> dict[int, float]:
    return {row.step: row.value for row in readings.rows if row.measure == RANK}


def test_the_third_stage_makes_up_the_number_of_blocks(read):
    assert len(read[FADED].curve("effective_rank")) == 8
    names = [row.place for row in read[DEEP].rows if row.measure == "effective_rank"]
    assert sum(name.startswith("stages.2.") for name in names) == 10
    assert len(names) == 16


def test_last_features_are_read_before_training_and_after_every_epoch(read):
    seen = looks(read[FADED])
    assert list(seen) == [0, 2, 4]  # two steps per epoch
    assert seen[4] == pytest.approx(read[FADED].curve("effective_rank")[-1], abs=1e-4)
    assert seen[0] != pytest.approx(seen[4], abs=1e-3)


def test_an_alpha_min_of_one_is_the_plain_network(read):
    assert looks(read[PLAIN]) == looks(read["untouched"])
    assert read[PLAIN].curve("probe").tolist() == read["untouched"].curve("probe").tolist()
    assert looks(read[PLAIN]) != looks(read[FADED])


@pytest.mark.parametrize("scale", DECAYED.scales)
def test_points_differ_in_blocks_and_alpha_min_alone(scale):
    bare = []
    for point in DECAYED.grid(scale).points:
        config = DECAYED.config(scale, point)
        assert (config.network.options["blocks"], config.network.rule.alpha_min) == (point["blocks"], point["alpha"])
        options = {**config.network.options, "blocks": 8}
        bare.append(replace(config, network=replace(config.network, options=options, rule=None)))
    assert all(one == bare[0] for one in bare)


def told(rank: float, accuracy: float) -> Readings:
    """A run of eight blocks with these numbers at the end."""
    made = Readings(conventions={"data": "d"})
    for index, value in enumerate(np.linspace(rank + 1, rank, 8)):
        made.add("effective_rank", value, place=f"p{index}", index=index, total=8, data="d", split="test")
    made.add("accuracy", accuracy, data="d", split="test", step=3)
    made.add(RANK, rank, data="d", split="test", step=3)
    return made


@pytest.mark.parametrize("scale", ["gpu", "paper"])
def test_a_rank_that_follows_alpha_min_is_supported_and_a_loss_of_accuracy_contradicts(scale):
    runs = {
        point: {
            seed: told(point["alpha"] + seed / 100 - point["blocks"] / 100, point["alpha"] + seed / 1000)
            for seed in range(3)
        }
        for point in DECAYED.grid(scale).points
    }
    found = {judged.statement.text: [told.word for _, told in judged.cells] for judged in DECAYED.verdicts(scale, runs)}
    for text in (
        "a smaller alpha_min lowers the effective rank of the final features",
        "deeper networks end at a lower",
    ):
        [cells] = (cells for name, cells in found.items() if name.startswith(text) and "averaged" not in name)
        assert set(cells) == {"supported"}, text
    [costs] = (cells for name, cells in found.items() if "do not reduce accuracy" in name)
    assert set(costs) == {"contradicted"}
    assert len(costs) == len(runs) - len({point["blocks"] for point in runs})  # each against alpha_min 1


def test_a_slope_over_depth_is_that_from_the_first_to_the_last_block():
    assert slope(np.array([4.0, 3.0, 2.0])) == pytest.approx(-2)
    assert slope(np.linspace(1, 2, 16)) == pytest.approx(1)


def test_training_is_drawn_in_epochs(read):
    runs = {point: [one] for point, one in read.items() if point != "untouched"}
    [drawing] = (one for one in DECAYED.figures if "over training" in one.title)
    first = drawing.draw(runs, "light").axes[0]
    assert [line.get_xdata().tolist() for line in first.get_lines()] == [[0, 1, 2], [0, 1, 2]]
    assert first.get_lines()[1].get_ydata().tolist() == list(looks(read[FADED]).values())


def test_the_path_of_the_gpu_scale_runs_on_a_small_network(tmp_path):
    config, small = DECAYED.config("gpu", Point(blocks=8, alpha=0.6)), DECAYED.config("smoke", FADED)
    assert (config.training.precision, config.training.channels_last) == ("bf16-mixed", True)
    training = replace(config.training, length=small.training.length, batch=16, augment=())
    network = replace(config.network, name=small.network.name)
    data = replace(small.data, limit=40)
    study = replace(config, network=network, data=data, reading=small.reading, training=training)
    found = done(tmp_path, study)
    assert len(found.curve("probe", data="digits[5-9]")) == 8
    assert len(looks(found)) == 3
