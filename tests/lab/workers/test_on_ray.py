"""A real Ray cluster of two nodes, and addresses where there is none."""

import json
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from lasting_work import jobs

from winze.lab.runs.store import Runs, read
from winze.lab.workers.ray import SECONDS, OnRay, RayError, _Pulse
from winze.readings import Readings

pytestmark = pytest.mark.slow


def on_the_cluster(folder):
    """What happened on a cluster of two nodes: one test, since the cluster takes its time to rise."""
    script = str(Path(__file__).parents[1].joinpath("ray_cluster.py"))
    done = subprocess.run([sys.executable, script, str(folder)], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_a_cluster_that_loses_a_node_loses_no_result_doubles_none_shares_gpus_and_scans_in_shards(tmp_path):
    told = on_the_cluster(tmp_path)
    begun = {seed for what, seed, node in told["marks"] if what == "begin" and node == told["doomed"]}
    ended = Counter(seed for what, seed, _ in told["marks"] if what == "end")
    assert begun - {seed for what, seed, node in told["marks"] if what == "end" and node == told["doomed"]}
    assert ended == {str(seed): 1 for seed in range(4)}
    assert told["errors"] == [None] * 4
    runs, todo = Runs(tmp_path / "runs"), jobs(tmp_path / "marks.txt", 4, seconds=1.0)
    assert {facts.key for facts in runs.all()} == {job.key for job in todo}
    for job in todo:
        assert read(runs.folder(job))["status"] == "done"
        assert [row.value for row in Readings.load(runs.folder(job)).rows] == [job.seed**2]
    assert told["shares"]["size"] == 2
    assert [given["GPU"] for given in told["shares"]["given"]] == [0.5] * 3
    assert told["scan"]["size"] == 2
    assert told["scan"]["values"] > 30
    assert told["scan"]["apart"] < 1e-10


@pytest.mark.parametrize(
    ("address", "says"), [("nowhere", "HOST:PORT"), ("127.0.0.1:1", "127.0.0.1:1 does not answer")]
)
def test_an_address_without_a_cluster_is_refused(monkeypatch, address, says):
    monkeypatch.setenv("RAY_ADDRESS", address)
    began = time.monotonic()
    with pytest.raises(RayError, match=says):
        OnRay()
    assert time.monotonic() - began < 30


def test_a_cluster_that_is_gone_is_noticed(monkeypatch):
    monkeypatch.setattr("winze.lab.workers.ray.SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        pulse = _Pulse(f"127.0.0.1:{server.getsockname()[1]}")
        time.sleep(1.1)
        pulse.check()
        assert pulse.beats
    time.sleep(1.1)
    with pytest.raises(RayError, match=r"the Ray cluster at 127.0.0.1:\d+ is gone; finished runs are kept"):
        pulse.check()
    assert not pulse.beats


def test_a_head_that_was_never_reached_is_not_missed(monkeypatch):
    monkeypatch.setattr("winze.lab.workers.ray.SECONDS", 0.0)
    pulse = _Pulse("127.0.0.1:1")
    time.sleep(1.1)
    pulse.check()
    assert pulse.beats


def test_somebody_else_who_answers_is_no_cluster(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{port}")
        began = time.monotonic()
        with pytest.raises(RayError, match="is not a Ray cluster"):
            OnRay()
    assert time.monotonic() - began < SECONDS + 20
