"""A sweep does every job, whatever becomes of the others."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lasting_work import Lasting, jobs, marked
from small_work import RECIPE, job, outcome
from waiting import soon

from winze.lab.runs.perform import perform
from winze.lab.runs.store import Runs, read
from winze.lab.runs.sweep import sweep
from winze.train import Hardware, HardwareError

CPU = Hardware(accelerator="cpu")
HERE = Path(__file__).parents[1]


def ends(marks):
    return sorted(seed for what, seed, _ in marked(marks) if what == "end")


def stored(runs):
    return [facts.status for facts in Runs(runs).all()].count("done")


def test_every_job_is_done_and_told_in_order(tmp_path):
    todo = jobs(tmp_path / "marks", 3)
    outcomes = sweep(todo, tmp_path / "runs", recipe=Lasting())
    assert [one.job for one in outcomes] == todo
    assert [one.folder for one in outcomes] == [tmp_path / "runs" / job.key for job in todo]
    assert [one.error for one in outcomes] == [None] * 3
    assert ends(tmp_path / "marks") == ["0", "1", "2"]


def test_a_second_sweep_does_nothing(tmp_path):
    todo = jobs(tmp_path / "marks", 2)
    first = sweep(todo, tmp_path / "runs", recipe=Lasting())
    assert sweep(todo, tmp_path / "runs", recipe=Lasting(), on="processes", jobs_at_once=2) == first
    assert ends(tmp_path / "marks") == ["0", "1"]


def test_a_failing_job_does_not_stop_the_others_and_is_tried_again_next_time(tmp_path):
    todo = jobs(tmp_path / "marks", 3, bad=[1])
    outcomes = sweep(todo, tmp_path / "runs", recipe=Lasting())
    assert [str(one.error) for one in outcomes] == ["None", "seed 1 is bad", "None"]
    assert isinstance(outcomes[1].error, ValueError)
    assert read(outcomes[1].folder)["status"] == "failed"
    sweep(todo, tmp_path / "runs", recipe=Lasting())
    begun = [seed for what, seed, _ in marked(tmp_path / "marks") if what == "begin"]
    assert sorted(begun) == ["0", "1", "1", "2"]


def test_jobs_of_equal_content_are_one_run(tmp_path):
    (one,) = jobs(tmp_path / "marks", 1)
    outcomes = sweep([one, one], tmp_path / "runs", recipe=Lasting())
    assert [outcome.error for outcome in outcomes] == [None, None]
    assert ends(tmp_path / "marks") == ["0"]


def test_what_was_interrupted_is_resumed(tmp_path, monkeypatch):
    todo = jobs(tmp_path / "marks", 2, seconds=0.01)

    def interrupted(seconds):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sweep(todo, tmp_path / "runs", recipe=Lasting())
    sweep(todo, tmp_path / "runs", recipe=Lasting())
    assert ends(tmp_path / "marks") == ["0", "1"]


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"jobs_at_once": 0}, ValueError, "at least 1, got 0"),
        ({"hardware": Hardware(accelerator="cuda")}, HardwareError, "no GPU"),
        ({"hardware": Hardware(devices=2)}, HardwareError, "torchrun --nproc-per-node 2"),
        ({"hardware": Hardware(strategy="magic")}, HardwareError, "magic"),
    ],
)
def test_bad_wishes_are_refused_before_any_work(tmp_path, monkeypatch, options, error, says):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(error, match=says):
        sweep(jobs(tmp_path / "marks", 1), tmp_path / "runs", recipe=Lasting(), **options)
    assert not (tmp_path / "runs").exists()


def test_torchrun_and_jobs_side_by_side_exclude_each_other(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="torchrun shares each run"):
        sweep(jobs(tmp_path / "marks", 1), tmp_path, recipe=Lasting(), on="processes", jobs_at_once=2)


@pytest.mark.slow
def test_two_processes_work_side_by_side_and_one_failure_stays_alone(tmp_path):
    todo = jobs(tmp_path / "marks", 5, bad=[2], together=2)
    outcomes = sweep(todo, tmp_path / "runs", recipe=Lasting(), on="processes", jobs_at_once=2)
    assert [str(one.error) for one in outcomes] == ["None", "None", "seed 2 is bad", "None", "None"]
    lines = marked(tmp_path / "marks")
    assert len({place for _, _, place in lines}) == 2
    assert str(os.getpid()) not in {place for _, _, place in lines}
    at_work = [0]
    for what, seed, _ in lines:
        if seed != "2":
            at_work.append(at_work[-1] + (1 if what == "begin" else -1))
    assert max(at_work) == 2


@pytest.mark.slow
def test_a_training_in_two_processes_is_bit_identical_to_one_in_this_process(tmp_path):
    todo = [job(seed=0), job(seed=1)]
    hardware = Hardware(accelerator="cpu", threads=1)
    side = sweep(todo, tmp_path / "side", recipe=RECIPE, on="processes", jobs_at_once=2, hardware=hardware)
    assert [one.error for one in side] == [None, None]
    for one in side:
        alone = perform(one.job, Runs(tmp_path / "alone"), recipe=RECIPE, hardware=hardware)
        assert outcome(one.folder) == outcome(alone)


@pytest.mark.slow
def test_a_killed_worker_costs_another_try_and_a_killed_sweep_its_runs_go_on(tmp_path):
    script = f"""
import sys; sys.path.insert(0, {str(HERE)!r})
from lasting_work import Lasting, jobs
from winze.lab.runs.sweep import sweep
todo = jobs({str(tmp_path / "marks")!r}, 4, seconds=1.5)
print([one.error for one in sweep(todo, {str(tmp_path / "runs")!r}, on="processes", jobs_at_once=2, recipe=Lasting())])
"""
    first = subprocess.Popen([sys.executable, "-c", script])
    try:
        worker = soon(lambda: [int(place) for what, _, place in marked(tmp_path / "marks") if what == "begin"])[0]
        os.kill(worker, signal.SIGKILL)
        soon(lambda: len(marked(tmp_path / "marks")) > 3)
        soon(lambda: stored(tmp_path / "runs") == len(ends(tmp_path / "marks")))  # none is between its end and its file
    finally:
        first.kill()
        first.wait()
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "[None, None, None, None]", done.stderr
    assert ends(tmp_path / "marks") == ["0", "1", "2", "3"]
