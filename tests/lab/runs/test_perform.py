import os
import random
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from deaths import Death, death_at, every_death, full_disk_after, small_disk
from forked import Forked
from small_work import OUTCOME, RECIPE, job, names, outcome, settled, spots, work
from torch import nn
from waiting import soon

from winze.atomic import sha256
from winze.lab.runs.perform import perform
from winze.lab.runs.store import RUN, BusyError, Runs, read, sealed
from winze.readings import Readings
from winze.train import Epochs, Hardware, StoreError, Training


@pytest.fixture
def runs(tmp_path):
    return Runs(tmp_path / "runs")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The outcome of a run that was never stopped."""
    return outcome(perform(job(), Runs(tmp_path_factory.mktemp("whole")), recipe=RECIPE))


def resumed(runs, recipe=RECIPE):
    folder = perform(job(), runs, recipe=recipe)
    assert settled(folder), list(folder.iterdir())
    assert read(folder)["status"] == "done"
    return outcome(folder)


def recipe(doing):
    return SimpleNamespace(work=doing)


def little(config, bench):
    """A work without training."""
    bench.readings.add("drawn", torch.rand(()))


def test_a_finished_run_is_never_run_again(runs):
    calls = []
    counted = recipe(lambda config, bench: calls.append(config) or little(config, bench))
    folder = perform(job(), runs, recipe=counted)
    assert perform(job(), runs, recipe=counted) == folder == runs.folder(job())
    assert len(calls) == 1
    assert calls[0] == job().config


def test_what_was_read_is_stored_with_its_hashes(runs):
    folder = perform(job(), runs, recipe=RECIPE)
    told = read(folder)
    assert told["sha256"] == {name: sha256(folder / name) for name in OUTCOME}
    rows = Readings.load(folder).rows
    assert {"loss", "drawn", "numerical_rank", "probe"} <= {row.measure for row in rows}


def test_run_json_says_with_what_where_and_how_long(runs):
    told = read(perform(job(), runs, recipe=recipe(little), hardware=Hardware(accelerator="cpu")))
    assert told["versions"].keys() == {"python", "torch", "winze"}
    assert told["versions"]["torch"] == torch.__version__
    assert "CPU" in told["device"]
    assert told["threads"] == torch.get_num_threads()
    assert 0 <= told["seconds"] < 60
    assert told["started"].startswith("20")
    assert (told["resumed"], told["notes"], told["error"]) == (0, [], None)


def test_two_runs_of_one_job_agree_byte_for_byte(runs, whole):
    torch.rand(17)
    assert resumed(runs) == whole


def test_another_seed_gives_another_run(runs, whole):
    other = outcome(perform(job(seed=1), runs, recipe=RECIPE))
    assert all(other[name] != whole[name] for name in ("readings.csv", "metrics.jsonl", "net.safetensors"))


def test_random_state_and_threads_of_the_caller_are_left_alone(runs):
    def state():
        return torch.get_rng_state().tolist(), np.random.get_state()[1].tolist()

    before, threads = state(), torch.get_num_threads()
    perform(job(), runs, recipe=recipe(little), hardware=Hardware(threads=threads + 1))
    assert state() == before
    assert torch.get_num_threads() == threads


def test_a_failed_run_says_why_and_goes_on_when_called_again(runs, whole):
    def failing(config, bench):
        work(config, bench)
        raise ZeroDivisionError("the rest\nis missing")

    with pytest.raises(ZeroDivisionError):
        perform(job(), runs, recipe=recipe(failing))
    told = read(runs.folder(job()))
    assert (told["status"], told["error"]) == ("failed", "ZeroDivisionError: the rest is missing")
    assert resumed(runs) == whole
    told = read(runs.folder(job()))
    assert (told["error"], told["resumed"]) == (None, 1)


def test_an_interrupted_run_is_unfinished_not_failed(runs, whole):
    def interrupt(_, step):
        if step == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        perform(job(), runs, recipe=recipe(lambda config, bench: work(config, bench, interrupt)))
    assert [facts.status for facts in runs.all()] == ["unfinished"]
    assert resumed(runs) == whole


def test_seconds_add_up_over_the_times_a_run_was_at_work(runs):
    with pytest.raises(ZeroDivisionError):
        perform(job(), runs, recipe=recipe(lambda config, bench: 1 / 0))
    folder = runs.folder(job())
    (folder / RUN).write_bytes(sealed(read(folder) | {"seconds": 1000.0}))
    told = read(perform(job(), runs, recipe=recipe(little)))
    assert told["seconds"] > 1000


def test_a_run_goes_on_with_the_threads_it_was_begun_with(runs):
    seen = []

    def counting(config, bench):
        seen.append((torch.get_num_threads(), bench.hardware.threads))
        if len(seen) == 1:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        perform(job(), runs, recipe=recipe(counting), hardware=Hardware(threads=3))
    perform(job(), runs, recipe=recipe(counting), hardware=Hardware(threads=1))
    assert seen == [(3, 3), (3, 3)]
    assert read(runs.folder(job()))["threads"] == 3


def half_done(runs, **kwargs):
    """A run that was stopped after the first of its two trainings, with a checkpoint of it."""

    def stopping(config, bench):
        bench.train(nn.Linear(4, 3), spots(), config.first, name="first")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        perform(job(), runs, recipe=recipe(stopping), **kwargs)
    return runs.folder(job())


@pytest.mark.parametrize(
    ("what", "now"),
    [
        ("versions", {"python": "3", "torch": "9.9", "winze": "0.1.0"}),
        ("versions", {"python": "3", "torch": torch.__version__, "winze": "9.9"}),
        ("source", "0123456789abcdef"),
        ("device", "another GPU"),
    ],
)
def test_a_half_done_run_of_another_version_or_device_is_begun_anew_and_set_aside(runs, whole, monkeypatch, what, now):
    folder = half_done(runs)
    before = read(folder)
    monkeypatch.setattr(f"winze.lab.runs.machine.{what}", lambda *_: now)
    with pytest.warns(UserWarning, match=rf"{folder.name} is begun anew.*{what} .*; what there was lies in .*\.aside"):
        assert resumed(runs) == whole
    told = read(folder)
    assert (told[what], told["resumed"]) == (now, 0)
    assert told["notes"][0].startswith(f"begun anew, since it was begun with something else: {what} ")
    (aside,) = (runs.root / ".aside").iterdir()
    assert read(aside) == before
    assert list((aside / "phases" / "first").glob("*.safetensors"))
    assert [facts.key for facts in runs.all()] == [folder.name]


@pytest.mark.parametrize("flag", ["compile", "deterministic"])
def test_a_half_done_run_with_other_flags_is_begun_anew_and_flags_are_recorded(runs, flag):
    folder = half_done(runs)
    assert read(folder)["flags"][flag] is False
    with pytest.warns(UserWarning, match=f"begun anew.*flags.*'{flag}': True"):
        perform(job(), runs, recipe=recipe(little), hardware=Hardware(**{flag: True}))
    assert read(folder)["flags"][flag] is True


def test_a_run_set_aside_twice_is_kept_twice(runs, monkeypatch):
    for number in range(3):
        monkeypatch.setattr("winze.lab.runs.machine.source", lambda file, number=number: f"{number}")
        if number:
            with pytest.warns(UserWarning, match="begun anew"):
                half_done(runs)
        else:
            half_done(runs)
    assert names(runs.root / ".aside") == [f"{job().key}-1", f"{job().key}-2"]


def test_a_finished_run_of_another_version_stays_as_it_is(runs, monkeypatch):
    folder = perform(job(), runs, recipe=recipe(little))
    before = (folder / RUN).read_bytes()
    monkeypatch.setattr("winze.lab.runs.machine.source", lambda file: "another")
    perform(job(), runs, recipe=recipe(little))
    assert (folder / RUN).read_bytes() == before


def test_a_run_resumed_from_another_commit_of_the_same_code_notes_it(runs, monkeypatch):
    with pytest.raises(ZeroDivisionError):
        perform(job(), runs, recipe=recipe(lambda config, bench: 1 / 0))
    monkeypatch.setattr("winze.lab.runs.perform.commit", lambda: "abc")
    told = read(perform(job(), runs, recipe=recipe(little)))
    assert told["notes"][0].startswith("resumed with commit ")
    assert told["notes"][0].endswith(" -> abc")


def test_times_are_told_in_run_json_alone(runs):
    folder = perform(job(), runs, recipe=recipe(lambda config, bench: bench.readings.declare(seconds=1.5)))
    assert "seconds" not in Readings.load(folder).conventions


def test_what_a_kill_after_the_last_word_left_is_swept_away(runs):
    folder = perform(job(), runs, recipe=recipe(little))
    (folder / "phases" / "train").mkdir(parents=True)
    (folder / "mine").mkdir()
    perform(job(), runs, recipe=recipe(little))
    assert not (folder / "phases").exists()
    assert (folder / "mine").exists()


# deaths


def changes(runs):
    """How often a run changes the disk."""
    with death_at(None) as disk:
        perform(job(), runs, recipe=RECIPE)
    return disk.count


def dies_at(runs, last):
    with death_at(last) as disk:
        perform(job(), runs, recipe=RECIPE)
    assert disk.dead


def test_a_run_that_died_while_writing_ends_as_if_it_had_not(tmp_path, whole):
    total = changes(Runs(tmp_path / "count"))
    assert total > 100
    for last in (0, total - 1, *random.Random(1).sample(range(total), 4)):
        runs = Runs(tmp_path / str(last))
        dies_at(runs, last)
        assert resumed(runs) == whole, f"after dying at change {last} of {total}"


def brief(config, bench):
    """Little work that still writes everything a run may write."""
    net = nn.Linear(4, 3)
    bench.train(net, spots(), config.first)
    bench.readings.add("weight", net.weight.sum().item())
    bench.keep(net, "winze/mlp1")


@pytest.mark.slow
def test_a_run_that_died_at_any_write_at_all_ends_as_if_it_had_not(tmp_path):
    whole = outcome(perform(job(), Runs(tmp_path / "whole"), recipe=recipe(brief)))
    deaths = every_death(
        lambda runs: perform(job(), runs, recipe=recipe(brief)), lambda number: Runs(tmp_path / str(number))
    )
    count = 0
    for count, runs in enumerate(deaths, 1):
        folder = perform(job(), runs, recipe=recipe(brief))
        assert settled(folder)
        assert outcome(folder) == whole, f"after death {count}"
    assert count > 60


@pytest.mark.parametrize("seed", range(3))
def test_a_run_that_dies_again_and_again_ends_as_if_it_had_not(runs, whole, seed):
    rng, deaths = random.Random(seed), 0
    while True:
        with death_at(rng.randrange(15, 70)) as disk:
            perform(job(), runs, recipe=RECIPE)
        if not disk.dead:
            break
        deaths += 1
        assert deaths < 100
    assert deaths >= 3
    assert outcome(runs.folder(job())) == whole


@pytest.mark.parametrize("step", random.Random(2).sample(range(1, 9), 3))
def test_a_run_that_died_at_some_step_ends_as_if_it_had_not(runs, whole, step):
    def dying(_, now):
        if now == step:
            raise Death

    with pytest.raises(Death):
        perform(job(), runs, recipe=recipe(lambda config, bench: work(config, bench, dying)))
    assert resumed(runs) == whole


def test_a_tampered_checkpoint_is_passed_over_and_the_run_ends_the_same(runs, whole):
    def dying(_, now):
        if now == 11:
            raise Death

    long = job(epochs=5)
    for root, stop in ((Runs(runs.root / "a"), None), (runs, dying)):
        doing = recipe(lambda config, bench, stop=stop: work(config, bench, stop))
        try:
            perform(long, root, recipe=doing)
        except Death:
            newest = max(
                (root.folder(long) / "phases" / "first").glob("*.safetensors"), key=lambda path: int(path.stem)
            )
            body = bytearray(newest.read_bytes())
            body[-1] ^= 1
            newest.write_bytes(body)
            with pytest.warns(UserWarning, match="is skipped"):
                perform(long, root, recipe=RECIPE)
    assert outcome(runs.folder(long)) == outcome(Runs(runs.root / "a").folder(long))


# a full disk


@pytest.mark.parametrize("writes", [0, 1, 5, 9, 15])
def test_a_disk_that_fills_up_stops_with_a_clear_word_and_the_run_goes_on_later(runs, whole, writes):
    with full_disk_after(writes), pytest.raises(StoreError, match=r"disk is full.*make room"):
        perform(job(), runs, recipe=RECIPE)
    assert resumed(runs) == whole


def test_readings_that_do_not_fit_are_told_in_words_too(runs, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("winze.readings.disk.write_atomically", full)
    with pytest.raises(StoreError, match="disk is full"):
        perform(job(), runs, recipe=recipe(little))
    assert read(runs.folder(job()))["status"] == "failed"


def test_a_run_on_a_disk_that_is_really_full_goes_on_when_there_is_room(tmp_path, whole):
    with small_disk(tmp_path / "small", 2**20) as disk:
        (disk / "ballast").write_bytes(bytes(2**20 - 2**15))
        with pytest.raises(StoreError, match="disk is full"):
            perform(job(), Runs(disk / "runs"), recipe=RECIPE)
        (disk / "ballast").unlink()
        assert resumed(Runs(disk / "runs")) == whole


# several processes


def test_a_run_that_another_process_is_writing_is_refused(runs):
    begun, end = threading.Event(), threading.Event()

    def waiting(config, bench):
        begun.set()
        assert end.wait(60)
        little(config, bench)

    other = threading.Thread(target=perform, args=(job(), runs), kwargs={"recipe": recipe(waiting)})
    other.start()
    assert begun.wait(60)
    try:
        with pytest.raises(BusyError, match=f"process {os.getpid()}"):
            perform(job(), runs, recipe=RECIPE)
    finally:
        end.set()
        other.join()
    assert runs.is_done(job())


def test_the_other_processes_of_torchrun_work_along_and_write_nothing(runs, monkeypatch):
    with runs.open(job()) as run:
        run.tell(status="running", threads=1)
    seen = []

    def working(config, bench):
        seen.append(bench.writes)
        net = nn.Linear(4, 3)
        bench.keep(net, "winze/mlp1")
        bench.readings.add("x", 1)

    monkeypatch.setenv("RANK", "1")
    perform(job(), runs, recipe=recipe(working))
    assert seen == [False]
    assert names(runs.folder(job())) == [RUN]


def test_the_other_processes_wait_until_the_first_of_their_own_start_has_begun(runs, monkeypatch):
    with runs.open(job()) as run:
        run.tell(status="running", threads=1, launch="before 0 29500")  # what an earlier start left
    for name, value in {"RANK": "1", "TORCHELASTIC_RUN_ID": "now", "TORCHELASTIC_RESTART_COUNT": "0"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("winze.lab.runs.perform._end_with_parent", lambda: None)
    monkeypatch.setattr("winze.lab.runs.perform.PATIENCE", 0.2)
    with pytest.raises(StoreError, match="did not begin"):
        perform(job(), runs, recipe=recipe(little))


def test_the_other_processes_do_not_wait_for_ever(runs, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr("winze.lab.runs.perform.PATIENCE", 0.2)
    with pytest.raises(StoreError, match="did not begin"):
        perform(job(), runs, recipe=recipe(little))


CHILD = """
import time
from winze.lab.runs.perform import _end_with_parent
_end_with_parent()
print("ready", flush=True)
time.sleep(300)
"""


@pytest.mark.slow
def test_a_process_of_torchrun_ends_when_torchrun_was_killed():
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {CHILD!r}])"
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.kill()
        assert process.stdout.read() == ""  # comes to its end when the child, which holds the other end, is gone


@pytest.mark.slow
def test_a_run_killed_for_real_ends_as_if_it_had_not(tmp_path):
    script = str(Path(__file__).parents[1].joinpath("small_work.py"))

    def started(root):
        process = Forked(script, root, 12, 1)
        assert process.stdout.readline() == "begin\n"
        return process

    with started(tmp_path / "whole") as process:
        assert process.stdout.readline() == "end\n"
    long, rng, kills = job(epochs=12), random.Random(0), 0
    whole, runs = Runs(tmp_path / "whole"), Runs(tmp_path / "killed")
    seconds = read(whole.folder(long))["seconds"]
    for _ in range(3):
        with started(runs.root) as process:
            soon(lambda: list(runs.root.glob(f"*/{RUN}")))
            try:
                process.wait(timeout=rng.uniform(0.1, 0.5) * seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                kills += 1
    with started(runs.root) as process:
        assert process.stdout.readline() == "end\n"
    assert kills > 0
    assert read(runs.folder(long))["resumed"] > 0
    assert settled(runs.folder(long))
    assert outcome(runs.folder(long)) == outcome(whole.folder(long))


def test_a_work_that_trains_nothing_has_no_metrics(runs):
    folder = perform(job(), runs, recipe=recipe(little))
    assert names(folder) == sorted(("arrays.npz", "readings.csv", RUN, "scan.json"))


def test_diverging_training_is_told_in_run_json(runs):
    def lost(config, bench):
        x, y = spots()
        bench.train(nn.Linear(4, 3), (x * float("nan"), y), Training(Epochs(1)))

    with pytest.raises(RuntimeError):
        perform(job(), runs, recipe=recipe(lost))
    assert read(runs.folder(job()))["error"].startswith("DivergedError: training diverged: the loss is nan at step 1")
