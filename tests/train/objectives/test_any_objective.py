"""Six ways to learn that are no plain classification, each in a file of its own on top of the library.

All resume bit for bit after a real kill in the middle of an epoch.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

LEARNERS = Path(__file__).parents[1].joinpath("learners")
sys.path.insert(0, str(LEARNERS))

from killed import NAMES, learner  # noqa: E402

KILLED_AT = {
    "autoencoder": 11,
    "gan": 47,
    "teach": 13,
    "two_tasks": 70,
    "unlabelled": 21,
    "vae": 15,
}  # steps, over all fits
LEARNED = {
    "autoencoder": ("reconstruction", 0.6),
    "gan": ("off", 0.5),
    "teach": ("loss", 0.9),
    "two_tasks": ("task 1: test_loss", 0.5),
    "unlabelled": ("error", 0.6),
    "vae": ("reconstruction", 0.9),
}
"""the metric by which each is judged, and the share of its first value that is left at the end"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Each learner's history and end, never stopped."""
    return {name: learner(name, tmp_path_factory.mktemp(name)) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_it_learns_by_its_own_measure(whole, name):
    metric, share = LEARNED[name]
    values = [row[metric] for row in whole[name][0].metrics if metric in row]
    assert values[-1] < share * values[0]


@pytest.fixture(scope="module")
def started():
    """A process that starts learners to be killed."""
    command = [sys.executable, str(LEARNERS / "killed.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.stdin.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_it_resumes_bit_for_bit_after_a_kill_in_the_middle_of_an_epoch(whole, started, name, tmp_path):
    started.stdin.write(f"{name} {tmp_path} {KILLED_AT[name]}\n")
    started.stdin.flush()
    os.kill(int(started.stdout.readline()), signal.SIGKILL)
    assert started.stdout.readline() == f"{-signal.SIGKILL}\n"
    history, end = learner(name, tmp_path)
    assert history.metrics == whole[name][0].metrics
    assert end.keys() == whole[name][1].keys()
    assert all(torch.equal(end[key], value) for key, value in whole[name][1].items())


@pytest.mark.parametrize("name", NAMES)
def test_it_takes_at_most_sixty_lines_on_top_of_the_library(name):
    assert len((LEARNERS / f"{name}.py").read_text().splitlines()) <= 60
