"""A study trains from memory or from a folder, in stages, and keeps what was seen on the way."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from winze.data import DataError, FolderStream, MissingDataError
from winze.lab.bench import Bench
from winze.lab.study import Study, read, tell_curve, train
from winze.shape import ResidualDropPath
from winze.train import Training

DIGITS = Study("winze/resnet20x0.25", "digits", Training(2, 32, lr=0.05, drop_last=True), limit=100, places="blocks")


def write_pictures(root, each=8, classes=("cat", "dog", "emu"), test="val"):
    """Pictures of several sizes, one colour a class, as ImageNet is laid out."""
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


def streamed(data, **kwargs) -> Study:
    training = Training(6, 8, lr=0.02, momentum=0.9, drop_last=True, evaluate_every=3)
    return Study("winze/resnet20x0.25", data, training, size=16, places="blocks", stream=0, limit=12, **kwargs)


def test_a_folder_too_large_for_memory_is_learnt_picture_by_picture(tmp_path, monkeypatch):
    write_pictures(tmp_path / "data" / "imagenet")
    monkeypatch.setenv("WINZE_DATA", str(tmp_path / "data"))
    decoded = []
    kept = FolderStream.__iter__
    monkeypatch.setattr(FolderStream, "__iter__", lambda self: (decoded.append(self.train), kept(self))[1])
    study, bench = streamed("imagenet", rule=ResidualDropPath(mask="batch", compute="dense")), Bench(tmp_path / "run")
    trained = train(study, bench)
    assert trained.history.steps == 6 * 3
    assert decoded.count(True) == 6
    assert trained.history.metrics[-1]["accuracy"] > 0.9
    assert len(trained.dataset.train_labels) == 12
    read(study, bench, trained)
    assert next(row.value for row in bench.readings.rows if row.measure == "accuracy") > 0.8


def test_a_stream_depends_on_the_seed_alone(tmp_path):
    data = str(write_pictures(tmp_path / "pictures"))
    study = replace(streamed(data), training=replace(streamed(data).training, epochs=1))
    losses = [train(study, Bench(tmp_path / str(i), seed)).history.losses for i, seed in enumerate((0, 0, 1))]
    assert losses[0] == losses[1] != losses[2]


def test_a_folder_whose_parts_have_other_classes_is_refused(tmp_path):
    root = write_pictures(tmp_path / "pictures")
    (root / "train" / "fox").mkdir()
    Image.new("RGB", (9, 9)).save(root / "train" / "fox" / "1.png")
    with pytest.raises(DataError, match="do not have the same classes"):
        train(streamed(str(root)), Bench(tmp_path / "run"))


def test_a_stream_that_is_not_at_hand_says_where_it_was_looked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("WINZE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(MissingDataError, match="imagenet"):
        train(streamed("imagenet"), Bench(tmp_path / "run"))


@pytest.mark.parametrize("every", [1, 3])
def test_a_stage_lasts_as_many_steps_as_the_study_says(tmp_path, monkeypatch, every):
    from winze.lab import study as module

    stages, made = [], module.Alternation

    class Noticed(made):
        def step(self):
            stages.append(self.stage)
            super().step()

    monkeypatch.setattr(module, "Alternation", Noticed)
    train(replace(DIGITS, rule=ResidualDropPath(), every=every), Bench(tmp_path))
    assert stages == [1 + i // every % 2 for i in range(6)]


def test_fewer_images_of_each_class_make_shorter_epochs(tmp_path):
    study = replace(DIGITS, limit=None, per_class=7)
    trained = train(study, Bench(tmp_path))
    assert torch.bincount(trained.dataset.train_labels).tolist() == [7] * 10
    assert trained.history.steps == 2 * 2


def test_the_curve_has_every_look_at_the_test_set_and_no_more(tmp_path):
    bench = Bench(tmp_path)
    study = replace(DIGITS, training=replace(DIGITS.training, epochs=5, evaluate_every=2))
    trained = train(study, bench)
    tell_curve(study, bench, trained)
    told = {(row.measure, row.step): row.value for row in bench.readings.rows}
    assert sorted(told) == [(measure, 3 * epoch) for measure in ("accuracy", "top5") for epoch in (2, 4, 5)]
    assert told["accuracy", 15] == trained.history.metrics[-1]["accuracy"]
    assert all(told["top5", step] >= told["accuracy", step] for step in (6, 12, 15))
