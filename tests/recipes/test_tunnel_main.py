"""The first recipe: its settings are the paper's, and its layers are counted as the paper does."""

from dataclasses import replace

import pytest

from winze.data import MissingDataError
from winze.lab.bench import Bench
from winze.lab.study import Study, read, train
from winze.recipes.tunnel.main import recipe

SMOKE = recipe.config("smoke", "mlp4")


@pytest.fixture
def no_data(tmp_path, monkeypatch):
    monkeypatch.setenv("WINZE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize(
    ("arm", "fields"),
    [
        ("mlp12", {"epochs": 1000, "lr": 0.05, "momentum": 0.0, "weight_decay": 0.0, "milestones": ()}),
        ("vgg19", {"epochs": 160, "lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4, "milestones": (80, 120)}),
        ("resnet34", {"epochs": 164, "lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4, "milestones": (82, 123)}),
    ],
)
def test_the_paper_scale_has_the_papers_training(arm, fields):
    config = recipe.config("paper", arm)
    assert config.training == replace(config.training, batch=128, gamma=0.1, **fields)
    assert (config.probe, config.pool) == ("adam", "flatten")
    assert config.ood[0].startswith("cifar100[")
    assert len(config.ood[0].split(",")) == 10


def test_every_cell_of_the_table_is_claimed_at_both_levels():
    starts = [claim for claim in recipe.claims_at("paper") if "starts at layer" in claim.text]
    assert {(claim.check.arm, claim.check.threshold): claim.paper for claim in starts} == {
        ("mlp12", 0.95): 4,
        ("mlp12", 0.98): 5,
        ("mlp12_cifar100", 0.95): 7,
        ("mlp12_cifar100", 0.98): 7,
        ("vgg19", 0.95): 8,
        ("vgg19", 0.98): 8,
        ("vgg19_cifar100", 0.95): 8,
        ("vgg19_cifar100", 0.98): 8,
        ("vgg19_cinic10", 0.95): 7,
        ("vgg19_cinic10", 0.98): 7,
        ("resnet34", 0.95): 20,
        ("resnet34", 0.98): 29,
        ("resnet34_cifar100", 0.95): 29,
        ("resnet34_cifar100", 0.98): 30,
        ("resnet34_cinic10", 0.95): 17,
        ("resnet34_cinic10", 0.98): 17,
    }
    assert all(claim.check.layer == claim.paper and claim.check.within == 2 for claim in starts)


def test_tiny_imagenet_is_named_as_a_stand_in_at_the_gpu_scale_only():
    other = [claim for claim in recipe.claims_at("gpu") if "other data" in claim.text]
    assert len(other) == 6
    for claim in other:
        assert "Tiny-ImageNet" in claim.departure_at("gpu")
        assert claim.departure_at("paper") == ""


def test_other_data_that_is_not_at_hand_reads_not_run_with_the_reason(no_data, tmp_path):
    bench = Bench(tmp_path / "run")
    config = replace(SMOKE, ood=("cifar100[0,1]", "digits[5-9]"), training=replace(SMOKE.training, epochs=1))
    read(config, bench, train(config, bench))
    assert list(bench.readings.conventions["not_run"]) == ["cifar100[0,1]"]
    assert {row.data for row in bench.readings.rows} == {"digits[0-4]", "digits[5-9]"}
    config = replace(config, ood=("cifar100[0,1]",))
    bench = Bench(tmp_path / "other")
    read(config, bench, train(config, bench))
    seeds = dict.fromkeys(range(3), bench.readings)
    told = {claim.text: one for claim, one in recipe.verdicts("cpu", {"mlp8": seeds, "mlp4": seeds})}
    lost = told["a deeper network loses more on other data than a shallow one"]
    assert lost.word == "not run"
    assert "cifar100" in lost.sentence


def test_own_data_that_is_not_at_hand_raises(no_data, tmp_path):
    with pytest.raises(MissingDataError, match="cifar10"):
        train(recipe.config("gpu", "vgg19"), Bench(tmp_path))


def test_the_same_seed_gives_the_same_readings_and_another_seed_others(tmp_path):
    config = replace(SMOKE, training=replace(SMOKE.training, epochs=1))
    tables = []
    for number, seed in enumerate((0, 0, 1)):
        bench = Bench(tmp_path / str(number), seed)
        read(config, bench, train(config, bench))
        tables.append((bench.readings.table.to_csv(), bench.readings.conventions))
    assert tables[0] == tables[1]
    assert tables[0] != tables[2]


def test_resnets_are_read_at_blocks_with_both_countings(tmp_path):
    config = replace(
        SMOKE,
        network="winze/resnet18x0.0625",
        options={"stem": "thesis", "stem_stride": 1},
        places="blocks",
        ood=(),
        training=replace(SMOKE.training, epochs=1),
        limit=60,
    )
    bench = Bench(tmp_path)
    read(config, bench, train(config, bench))
    assert bench.readings.conventions["layers"] == {
        "without projections": [3, 5, 7, 9, 11, 13, 15, 17],
        "with projections": [3, 5, 8, 10, 13, 15, 18, 20],
    }
    assert bench.readings.conventions["layer_count"] == 18


def test_a_process_that_works_along_reads_nothing(tmp_path):
    bench = Bench(tmp_path, writes=False)
    trained = train(replace(SMOKE, training=replace(SMOKE.training, epochs=1)), bench)
    assert read(SMOKE, bench, trained) is None
    assert bench.readings.rows == []
    assert not list(tmp_path.glob("*.safetensors"))


def test_a_study_is_made_of_plain_values():
    assert isinstance(SMOKE, Study)
    assert recipe.jobs("smoke")[0].key == recipe.jobs("smoke")[0].key
    assert len({job.key for job in recipe.jobs("gpu")}) == 9
