"""Workers do every task once, even when some of them die."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import worker_tasks
from waiting import soon

from winze.lab.workers.processes import Processes, threads_each
from winze.lab.workers.workers import Here, LostError

HERE = str(Path(__file__).parents[1])
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pair():
    with Processes(2) as workers:
        yield workers


def ended(workers, work, tasks, hear=None):
    """Value or error of each task, in order; raises where one ended twice or never."""
    done = list(workers.run(work, tasks, hear))
    assert sorted(one.index for one in done) == list(range(len(tasks)))
    return [one.error or one.value for one in sorted(done, key=lambda one: one.index)]


def test_every_task_is_done_once(pair):
    assert ended(pair, worker_tasks.square, range(7)) == [0, 1, 4, 9, 16, 25, 36]
    assert ended(Here(), worker_tasks.square, range(7)) == [0, 1, 4, 9, 16, 25, 36]


def test_an_error_stays_with_its_task_and_keeps_its_kind_and_its_traceback(pair):
    for workers in (pair, Here()):
        zero, one, two, three = ended(workers, worker_tasks.grumble, range(4))
        assert (zero, three) == (0, 3)
        assert isinstance(one, ValueError)
        assert "in grumble" in "".join(one.__notes__)
        assert "two" in str(two)


def test_the_first_error_is_raised_where_all_values_are_wanted(pair):
    with pytest.raises(ValueError, match="not welcome"):
        list(pair.each(worker_tasks.grumble, [0, 1, 3]))
    assert dict(pair.each(worker_tasks.square, [3, 4])) == {0: 9, 1: 16}  # and the workers goes on working


def test_what_tasks_tell_is_heard_with_their_number(pair):
    for workers in (pair, Here()):
        heard: list[tuple] = []
        ended(workers, worker_tasks.say, [5, 6, 7], lambda *words, heard=heard: heard.append(words))
        assert sorted(heard) == [(i, (i + 5, word)) for i in range(3) for word in ("first", "second")]


def test_a_task_that_cannot_be_sent_fails_alone(pair):
    one, two = ended(pair, worker_tasks.square, [lambda: 0, 2])
    assert isinstance(one, Exception)
    assert two == 4


def test_a_worker_that_is_killed_costs_another_try(tmp_path, pair):
    assert ended(pair, worker_tasks.die_once, [(str(tmp_path), i) for i in range(4)]) == [0, 1, 2, 3]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.0", "1.0", "1.1", "2.0", "3.0", "3.1"]


def test_a_task_that_kills_every_worker_is_given_up_and_the_others_are_done(pair):
    zero, lost, two = ended(pair, worker_tasks.die_always, range(3))
    assert (zero, two) == (0, 2)
    assert isinstance(lost, LostError)
    assert "3 workers died while running it, the last one killed by signal 9" in str(lost)


def test_a_worker_that_leaves_by_itself_is_told_by_its_exit_code(pair):
    (lost,) = ended(pair, worker_tasks.leave, [0])
    assert "exit code 7" in str(lost)


def test_threads_are_shared_out_and_each_seat_has_its_environment():
    assert threads_each(1) >= threads_each(2) >= 1
    assert threads_each(10_000) == 1
    with Processes(2, threads=3, environments=[{"SEAT": "left"}, {"SEAT": "right"}]) as workers:
        values = ended(workers, worker_tasks.threads, range(2))
    assert sorted(values) == [(3, "3", "left"), (3, "3", "right")]
    assert "SEAT" not in os.environ


def test_workers_end_when_their_parent_is_killed(tmp_path):
    script = f"""
import sys; sys.path.insert(0, {HERE!r})
import worker_tasks
from winze.lab.workers.processes import Processes
with Processes(1) as workers: list(workers.run(worker_tasks.sleep, [({str(tmp_path)!r}, 60)]))
"""
    parent = subprocess.Popen([sys.executable, "-c", script])
    try:
        worker = soon(lambda: [int(path.name) for path in tmp_path.iterdir()])[0]
    finally:
        parent.kill()
        parent.wait()
    soon(lambda: not Path(f"/proc/{worker}").exists() or "zombie" in Path(f"/proc/{worker}/status").read_text())


def test_a_crew_of_nobody_is_refused():
    with pytest.raises(ValueError, match="at least 1, got 0"):
        Processes(0)
