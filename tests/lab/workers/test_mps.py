"""The control program of CUDA MPS, played by a script that writes down what it is told."""

import os
from pathlib import Path

import pytest

from winze.lab.runs.sweep import workers_for
from winze.lab.workers.mps import CONTROL, mps
from winze.train import Hardware

SCRIPT = """#!/bin/sh
echo "$* $CUDA_MPS_PIPE_DIRECTORY $(test -d "$CUDA_MPS_PIPE_DIRECTORY" && echo there) $(cat)" >> {log}
exit {code}
"""


@pytest.fixture
def log(tmp_path, monkeypatch):
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    return control(tmp_path, monkeypatch)


def control(folder, monkeypatch, code=0):
    script, log = folder / CONTROL, folder / "log"
    script.write_text(SCRIPT.format(log=log, code=code))
    script.chmod(0o755)
    log.touch()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return log


def test_the_service_has_a_folder_of_its_own_and_ends_with_the_block(log):
    with mps() as service:
        pipe = service["CUDA_MPS_PIPE_DIRECTORY"]
        assert log.read_text().split() == ["-d", pipe, "there"]
        assert "CUDA_MPS_PIPE_DIRECTORY" not in os.environ
    assert log.read_text().splitlines()[1].split() == [pipe, "there", "quit"]
    assert not Path(pipe).exists()


def test_the_service_ends_after_an_error_too(log):
    with pytest.raises(KeyboardInterrupt), mps():
        raise KeyboardInterrupt
    assert "quit" in log.read_text()


def test_a_service_that_does_not_start_leaves_the_environment_empty(tmp_path, monkeypatch):
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    log = control(tmp_path, monkeypatch, code=1)
    with mps() as service:
        assert service == {}
    assert "quit" not in log.read_text()


def test_a_service_that_the_user_runs_is_left_alone(log, monkeypatch):
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "theirs")
    with mps() as service:
        assert service == {}
    assert log.read_text() == ""


def test_without_the_program_or_the_wish_nothing_happens(log, monkeypatch):
    with mps(False) as service:
        assert service == {}
    assert log.read_text() == ""
    monkeypatch.setenv("PATH", "")
    with mps() as service:
        assert service == {}


@pytest.mark.parametrize(
    ("gpus", "size", "services", "seen"),
    [(1, 4, 1, [None] * 4), (2, 4, 1, ["0", "1", "0", "1"]), (2, 2, 0, ["0", "1"]), (0, 2, 0, [None] * 2)],
)
def test_jobs_are_dealt_out_to_gpus_and_share_them_by_the_service(log, monkeypatch, gpus, size, services, seen):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr("torch.cuda.device_count", lambda: gpus)
    with workers_for("processes", size, Hardware(), range(9)) as workers:
        given = workers._environments
    assert [one.get("CUDA_VISIBLE_DEVICES") for one in given] == seen
    assert all(("CUDA_MPS_PIPE_DIRECTORY" in one) == bool(services) for one in given)
    assert len(log.read_text().splitlines()) == 2 * services
