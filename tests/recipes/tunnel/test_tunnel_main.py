"""The first recipe: its settings are the paper's, and its layers are counted as the paper does."""

from dataclasses import replace

import pytest

from winze.data import MissingDataError
from winze.lab.bench import Bench
from winze.lab.study import learn, learn_and_read, prepare, read
from winze.readings import Point
from winze.recipes.tunnel.main import recipe
from winze.train import Epochs
from winze.train.fields import replaced

SMOKE = replaced(recipe.config("smoke", Point(network="mlp4", data="digits")), {"training.length": Epochs(1)})


@pytest.fixture
def no_data(tmp_path, monkeypatch):
    monkeypatch.setenv("WINZE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))


def test_the_gpu_scale_trains_vgg_and_resnet_for_as_long_as_the_paper():
    for network in ("vgg19", "resnet34"):
        gpu, paper = (recipe.config(scale, Point(network=network, data="cifar10")) for scale in ("gpu", "paper"))
        same = {"precision": "bf16-mixed", "channels_last": True}
        assert gpu.training == replace(paper.training, **same)


def test_ood_data_that_is_not_at_hand_reads_not_run_with_the_reason(no_data, tmp_path):
    both = replaced(SMOKE, {"reading.ood": ("cifar100[0,1]", "digits[5-9]")})
    bench = Bench(tmp_path / "run")
    learn_and_read(both, bench)
    assert list(bench.readings.conventions["not_run"]) == ["cifar100[0,1]"]
    assert {row.data for row in bench.readings.rows} == {"digits[0-4]", "digits[5-9]"}
    bench = Bench(tmp_path / "other")
    learn_and_read(replaced(SMOKE, {"reading.ood": ("cifar100[0,1]",)}), bench)
    seeds = dict.fromkeys(range(3), bench.readings)
    loose = replace(recipe, learned=("accuracy", 0.0))
    judged = loose.verdicts("cpu", dict.fromkeys(recipe.grid("cpu").points, seeds))
    falls = next(one for one in judged if one.statement.text.startswith("OOD accuracy falls"))
    assert falls.word == "not run"
    assert "cifar100" in falls.cells[0][1].sentence


def test_own_data_that_is_not_at_hand_raises(no_data, tmp_path):
    with pytest.raises(MissingDataError, match="cifar10"):
        prepare(recipe.config("gpu", Point(network="vgg19", data="cifar10")), Bench(tmp_path))


def test_the_same_seed_gives_the_same_readings_and_another_seed_others(tmp_path):
    tables = []
    for number, seed in enumerate((0, 0, 1)):
        bench = Bench(tmp_path / str(number), seed)
        learn_and_read(SMOKE, bench)
        tables.append((bench.readings.table.to_csv(), bench.readings.conventions))
    assert tables[0] == tables[1]
    assert tables[0] != tables[2]


def test_resnets_are_read_at_blocks_with_both_countings(tmp_path):
    small = {"network.name": "winze/resnet18x0.0625", "network.options": {"stem": "thesis", "stem_stride": 1}}
    bench = Bench(tmp_path)
    learn_and_read(replaced(SMOKE, small | {"reading.places": "blocks", "reading.ood": (), "data.limit": 60}), bench)
    assert bench.readings.conventions["layers"] == {
        "without projections": [3, 5, 7, 9, 11, 13, 15, 17],
        "with projections": [3, 5, 8, 10, 13, 15, 18, 20],
    }
    assert bench.readings.conventions["layer_count"] == 18


def test_a_process_that_does_not_write_reads_nothing(tmp_path):
    bench = Bench(tmp_path, writes=False)
    prepared = prepare(SMOKE, bench)
    learn(prepared, bench)
    assert read(prepared, bench) is None
    assert bench.readings.rows == []
    assert not list(tmp_path.glob("*.safetensors"))


def test_runs_that_are_not_the_same_have_keys_of_their_own():
    assert len({job.key for job in recipe.jobs("gpu")}) == len(recipe.jobs("gpu")) == 9
