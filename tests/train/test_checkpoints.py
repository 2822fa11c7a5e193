import json
import os
import random
import re
import warnings

import numpy as np
import pytest
import torch
from deaths import every_death, full_disk_after
from torch import nn

from winze.atomic import StoreError
from winze.train import Checkpoints

STATE = {"optimizer": {"state": {0: {"momentum": torch.arange(3.0)}}, "groups": [{"lr": 0.1}]}, "epochs": 2, "at": None}


def weights(step):
    return {"a": torch.full((4, 3), float(step)), "b": torch.arange(step)}


def saved(folder, *steps, keep=2):
    checkpoints = Checkpoints(folder, keep)
    for step in steps:
        checkpoints.save(step, weights(step), STATE | {"epochs": step})
    return checkpoints


def test_weights_and_state_come_back_as_they_were(tmp_path):
    newest = saved(tmp_path, 7).newest()
    assert newest.step == 7
    assert torch.equal(newest.weights["a"], weights(7)["a"])
    assert torch.equal(newest.weights["b"], weights(7)["b"])
    assert torch.equal(newest.state["optimizer"]["state"][0]["momentum"], torch.arange(3.0))
    assert newest.state["optimizer"]["groups"] == [{"lr": 0.1}]
    assert (newest.state["epochs"], newest.state["at"]) == (7, None)


def test_an_empty_or_absent_folder_has_none(tmp_path):
    assert Checkpoints(tmp_path).newest() is None
    assert Checkpoints(tmp_path / "nowhere").newest() is None


def test_the_newest_is_the_one_of_most_steps_not_of_the_last_letter(tmp_path):
    assert saved(tmp_path, 9, 10, 100).newest().step == 100


def test_only_the_newest_are_kept(tmp_path):
    saved(tmp_path, 1, 2, 3, 4, keep=2)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {f"{s}.{e}" for s in (3, 4) for e in ("json", "pt", "safetensors")}


def test_pruning_keeps_what_is_asked_for(tmp_path):
    checkpoints = saved(tmp_path, 1, 2)
    checkpoints.prune(1)
    assert {path.stem for path in tmp_path.iterdir()} == {"2"}


def test_saving_an_earlier_step_forgets_the_later_ones(tmp_path):
    checkpoints = saved(tmp_path, 5, 9)
    checkpoints.save(6, weights(6), STATE)
    assert checkpoints.newest().step == 6


def test_tied_and_strided_weights_are_kept(tmp_path):
    net = nn.Linear(3, 3)
    tied = {"a": net.weight, "b": net.weight, "c": net.weight.t(), "d": net.weight[:, :2]}
    Checkpoints(tmp_path).save(1, tied, {})
    newest = Checkpoints(tmp_path).newest()
    assert all(torch.equal(newest.weights[name], tied[name]) for name in tied)


@pytest.mark.parametrize("end", ["safetensors", "pt", "json"])
def test_wherever_a_byte_was_flipped_the_one_before_is_used_and_the_reason_said(tmp_path, end):
    saved(tmp_path, 1, 2)
    path = tmp_path / f"2.{end}"
    whole = path.read_bytes()
    rng = random.Random(0)
    places = [0, len(whole) - 1, *(rng.randrange(len(whole)) for _ in range(100))]
    for place in places:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            newest = Checkpoints(tmp_path).newest()
        assert newest.step == 1
        assert torch.equal(newest.weights["a"], weights(1)["a"])
        assert len(told) == 1
        assert "checkpoint of step 2 is skipped" in str(told[0].message)


@pytest.mark.parametrize("end", ["safetensors", "pt", "json"])
@pytest.mark.parametrize("share", [0, 0.5, 0.99])
def test_a_file_cut_short_is_noticed(tmp_path, end, share):
    saved(tmp_path, 1, 2)
    path = tmp_path / f"2.{end}"
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.warns(UserWarning, match="cut short"):
        assert Checkpoints(tmp_path).newest().step == 1


def test_a_lost_file_is_noticed(tmp_path):
    saved(tmp_path, 1, 2)
    (tmp_path / "2.pt").unlink()
    with pytest.warns(UserWarning, match=r"2\.pt cannot be read: No such file"):
        assert Checkpoints(tmp_path).newest().step == 1


def test_swapped_checkpoints_are_noticed(tmp_path):
    saved(tmp_path, 1, 2)
    (tmp_path / "2.json").write_bytes((tmp_path / "1.json").read_bytes())
    with pytest.warns(UserWarning, match="another step"):
        assert Checkpoints(tmp_path).newest().step == 1


def test_a_checkpoint_of_another_format_says_so(tmp_path):
    saved(tmp_path, 2)
    seal = json.loads((tmp_path / "2.json").read_text())
    (tmp_path / "2.json").write_text(json.dumps(seal | {"version": 99}))
    with pytest.warns(UserWarning, match="has format 99; this winze reads format 3"):
        assert Checkpoints(tmp_path).newest() is None


@pytest.mark.parametrize("name", ["winze", "torch"])
def test_a_checkpoint_of_another_version_is_passed_over(tmp_path, name):
    saved(tmp_path, 2)
    seal = json.loads((tmp_path / "2.json").read_text())
    seal["by"][name] = "0.0.1"
    (tmp_path / "2.json").write_text(json.dumps(seal))
    with pytest.warns(
        UserWarning, match=rf"was written with .*{name} 0.0.1.*, this is .*{re.escape(torch.__version__)}"
    ):
        assert Checkpoints(tmp_path).newest() is None


def test_a_state_with_code_in_it_is_not_run_even_where_its_hash_is_right(tmp_path, monkeypatch):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "evil_was_here"),)

    monkeypatch.setattr("winze.train.checkpoints._check_plain", lambda *_: None)
    saved(tmp_path, 1)
    Checkpoints(tmp_path).save(2, weights(2), {"a": Evil()})
    with pytest.warns(UserWarning, match="is not the state of a training run"):
        assert Checkpoints(tmp_path).newest().step == 1
    assert not (tmp_path / "evil_was_here").exists()


@pytest.mark.parametrize("value", [{1, 2}, np.float64(1), np.zeros(2), print, torch.float32, {"a": [object()]}])
def test_what_could_not_be_read_back_is_refused_at_once(tmp_path, value):
    with pytest.raises(TypeError, match=r"state\['x'\]"):
        Checkpoints(tmp_path).save(1, {}, {"x": value})
    assert not list(tmp_path.iterdir())


def test_at_least_one_is_kept(tmp_path):
    with pytest.raises(ValueError, match="at least 1"):
        Checkpoints(tmp_path, keep=0)


@pytest.mark.parametrize("keep", [1, 2])
def test_whenever_saving_dies_a_whole_checkpoint_is_left_and_saving_goes_on(tmp_path, keep):
    found = []
    deaths = every_death(
        lambda checkpoints: checkpoints.save(3, weights(3), STATE),
        lambda number: saved(tmp_path / str(number), 1, 2, keep=keep),
    )
    for checkpoints in deaths:
        newest = checkpoints.newest()  # no warning: nothing was broken, only unfinished
        assert torch.equal(newest.weights["a"], weights(newest.step)["a"])
        found.append(newest.step)
        checkpoints.save(3, weights(3), STATE)
        checkpoints.save(4, weights(4), STATE)
        left = {path.name for path in checkpoints.folder.iterdir()}
        assert left == {f"{s}.{e}" for s in (4, 3)[:keep] for e in ("json", "pt", "safetensors")}
    assert found == sorted(found)
    assert set(found) == {2, 3}
    assert len(found) > 10


def test_whenever_saving_the_same_step_again_dies_nothing_broken_is_taken(tmp_path):
    for checkpoints in every_death(
        lambda checkpoints: checkpoints.save(2, weights(2), STATE | {"epochs": 20}),
        lambda number: saved(tmp_path / str(number), 1, 2),
    ):
        newest = checkpoints.newest()
        assert (newest.step, newest.state["epochs"]) in {(1, 1), (2, 2), (2, 20)}


@pytest.mark.parametrize("writes", [0, 1, 2])
def test_a_disk_that_fills_up_while_saving_leaves_the_checkpoint_before(tmp_path, writes):
    checkpoints = saved(tmp_path, 1)
    with full_disk_after(writes), pytest.raises(StoreError, match="disk is full"):
        checkpoints.save(2, weights(2), STATE)
    assert checkpoints.newest().step == 1
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    checkpoints.save(2, weights(2), STATE)
    assert checkpoints.newest().step == 2
