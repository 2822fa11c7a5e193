"""A study is prepared, trained and read: from memory or from a folder, in stages, and under watch."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

import winze
from winze.data import DataError, FolderStream, MissingDataError
from winze.lab import Data, Network, Reading, Study, Watching, learn, learn_and_read, prepare, read, store_curve
from winze.lab.bench import Bench
from winze.shape import DecayedIdentity, ResidualDropPath, Rule
from winze.train import SGD, Epochs, Steps, Training
from winze.train.fields import FieldError, replaced

DIGITS = Study(
    Network("winze/resnet20x0.25"),
    Data("digits", limit=100),
    Training(Epochs(2), 32, SGD(0.05), drop_last=True),
    Reading("blocks"),
)
SMALL = Study(
    Network("winze/mlp4x64"),
    Data("digits[0-4]", limit=100),
    Training(Epochs(1), 128, SGD(0.03)),
    Reading(ood=("digits[5-9]",)),
)


def trained(study, bench):
    prepared = prepare(study, bench)
    learn(prepared, bench)
    return prepared


def read_of(study, folder):
    bench = Bench(folder)
    learn_and_read(study, bench)
    return bench.readings


def write_images(root, each=8, classes=("cat", "dog", "emu"), test="val"):
    """Images of several sizes, one colour per class, as ImageNet is laid out."""
    draw = np.random.default_rng(0)
    for part in ("train", test):
        for number, name in enumerate(classes):
            folder = root / part / name
            folder.mkdir(parents=True)
            for i in range(each):
                pixels = draw.integers(0, 60, (20 + i, 24, 3), dtype=np.uint8)
                pixels[..., number % 3] += 190
                Image.fromarray(pixels).save(folder / f"{i}.png")
    return root


def streamed(data, rule=None, epochs=6) -> Study:
    training = Training(Epochs(epochs), 8, SGD(0.02, momentum=0.9), drop_last=True, evaluate=Epochs(3))
    where = Data(data, size=16, stream=0, limit=12)
    return Study(Network("winze/resnet20x0.25", rule=rule), where, training, Reading("blocks"))


def test_a_folder_too_large_for_memory_is_trained_from_image_by_image(tmp_path, monkeypatch):
    write_images(tmp_path / "data" / "imagenet")
    monkeypatch.setenv("WINZE_DATA", str(tmp_path / "data"))
    decoded = []
    kept = FolderStream.__iter__
    monkeypatch.setattr(FolderStream, "__iter__", lambda self: (decoded.append(self.train), kept(self))[1])
    bench = Bench(tmp_path / "run")
    prepared = trained(streamed("imagenet", ResidualDropPath(mask="batch", compute="dense")), bench)
    assert prepared.history.steps == 6 * 3
    assert decoded.count(True) == 6
    assert prepared.history.metrics[-1]["accuracy"] > 0.9
    assert len(prepared.dataset.train_labels) == 12
    read(prepared, bench)
    assert next(row.value for row in bench.readings.rows if row.measure == "accuracy") > 0.8


def test_a_stream_depends_on_the_seed_alone(tmp_path):
    study = streamed(str(write_images(tmp_path / "images")), epochs=1)
    losses = [trained(study, Bench(tmp_path / str(i), seed)).history.losses for i, seed in enumerate((0, 0, 1))]
    assert losses[0] == losses[1] != losses[2]


def test_a_folder_whose_parts_have_other_classes_is_refused(tmp_path):
    root = write_images(tmp_path / "images")
    (root / "train" / "fox").mkdir()
    Image.new("RGB", (9, 9)).save(root / "train" / "fox" / "1.png")
    with pytest.raises(DataError, match="do not have the same classes"):
        prepare(streamed(str(root)), Bench(tmp_path / "run"))


def test_a_stream_that_is_not_found_says_where_it_was_searched(tmp_path, monkeypatch):
    monkeypatch.setenv("WINZE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(MissingDataError, match="imagenet"):
        prepare(streamed("imagenet"), Bench(tmp_path / "run"))


@pytest.mark.parametrize("every", [1, 3])
def test_a_stage_lasts_as_many_steps_as_the_study_says(tmp_path, monkeypatch, every):
    from winze.lab import study as module

    stages, made = [], module.Alternation

    class Noticed(made):
        def step(self):
            stages.append(self.stage)
            super().step()

    monkeypatch.setattr(module, "Alternation", Noticed)
    trained(replaced(DIGITS, {"network.rule": ResidualDropPath(), "network.every": every}), Bench(tmp_path))
    assert stages == [1 + i // every % 2 for i in range(6)]


def test_fewer_images_per_class_make_shorter_epochs(tmp_path):
    prepared = trained(replace(DIGITS, data=Data("digits", per_class=7)), Bench(tmp_path))
    assert torch.bincount(prepared.dataset.train_labels).tolist() == [7] * 10
    assert prepared.history.steps == 2 * 2


def test_the_curve_has_every_evaluation_and_the_steps_per_epoch(tmp_path):
    bench = Bench(tmp_path)
    prepared = trained(replaced(DIGITS, {"training.length": Epochs(5), "training.evaluate": Epochs(2)}), bench)
    store_curve(prepared, bench)
    told = {(row.measure, row.step): row.value for row in bench.readings.rows}
    assert told.pop(("epoch_steps", None)) == 3
    assert sorted(told) == [(measure, 3 * epoch) for measure in ("accuracy", "top5") for epoch in (2, 4, 5)]
    assert told["accuracy", 15] == prepared.history.metrics[-1]["accuracy"]
    assert all(told["top5", step] >= told["accuracy", step] for step in (6, 12, 15))


@pytest.mark.parametrize(("limit", "expected"), [(None, 100), (40, 40)])
def test_ood_data_has_a_limit_of_its_own_where_one_is_given(tmp_path, limit, expected):
    told = read_of(replaced(SMALL, {"reading.ood_limit": limit}), tmp_path).conventions["samples"]
    assert told["digits[5-9]"]["train"] == expected
    assert told["digits[0-4]"]["train"] == 100


def test_ranks_are_of_so_many_features_at_most(tmp_path):
    readings = read_of(replaced(SMALL, {"reading.max_features": 10, "reading.ood": ()}), tmp_path)
    assert readings.curve("numerical_rank").max() <= 10
    assert readings.curve("features").tolist() == [64, 64, 64, 64, 5]


def test_a_study_trains_on_the_device_that_its_bench_says(tmp_path):
    bench = Bench(tmp_path)
    assert next(trained(SMALL, bench).net.parameters()).device == bench.device


def test_what_is_watched_at_the_last_block_is_a_number_of_the_whole_network_over_steps(tmp_path):
    watching = Watching(("rank",), Steps(2), "last", samples=50, names={"effective_rank": "rank_while_training"})
    bench = Bench(tmp_path)
    trained(replace(DIGITS, watching=watching), bench)
    rows = [(row.measure, row.step, row.place, row.index) for row in bench.readings.rows]
    assert rows == [("rank_while_training", step, "", None) for step in (0, 2, 4, 6)]


def test_what_is_watched_at_every_layer_keeps_its_places(tmp_path):
    bench = Bench(tmp_path)
    trained(replace(SMALL, watching=Watching(("rank",), Epochs(1), samples=50)), bench)
    steps = {row.step for row in bench.readings.rows if row.measure == "numerical_rank"}
    assert steps == {0, 1}
    assert len({row.place for row in bench.readings.rows if row.index is not None}) == 5


def test_a_rule_goes_where_the_study_says_and_the_stored_network_remembers_it(tmp_path):
    study = replaced(DIGITS, {"network.rule": DecayedIdentity(0.5), "network.where": "stages.2.*"})
    bench = Bench(tmp_path)
    prepared = trained(study, bench)
    loaded = winze.load(tmp_path / "net.safetensors")
    assert [one.rule for one in winze.junctions(loaded)] == [one.rule for one in winze.junctions(prepared.net)]
    images = prepared.preprocess(prepared.dataset.test_images[:4])
    assert torch.allclose(loaded(images), prepared.net.eval()(images), atol=1e-6)


class Halved(Rule):
    """A rule from outside winze."""

    def join(self, place, shortcut, branch):
        return 0.5 * shortcut() + branch()


def test_a_network_with_a_rule_from_outside_is_stored_without_its_spec(tmp_path):
    prepared = trained(replaced(DIGITS, {"network.rule": Halved()}), Bench(tmp_path))
    assert prepared.spec is None
    with pytest.raises(ValueError, match="net="):
        winze.load(tmp_path / "net.safetensors")
    again = prepare(replaced(DIGITS, {"network.rule": Halved()}), Bench(tmp_path / "other")).net
    loaded = winze.load(tmp_path / "net.safetensors", net=again)
    images = prepared.preprocess(prepared.dataset.test_images[:4])
    assert torch.allclose(loaded.eval()(images), prepared.net.eval()(images), atol=1e-6)


@pytest.mark.parametrize("setting", ["data.limit", "data.per_class", "reading.max_features", "network.every"])
def test_a_count_below_one_is_refused_before_a_run_begins(setting):
    with pytest.raises(FieldError, match="must be a whole number of at least 1"):
        replaced(DIGITS, {setting: 0})
