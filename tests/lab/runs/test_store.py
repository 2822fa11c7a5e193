import json
import os
import random
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from forked import Forked
from small_work import names

from winze.lab.runs.job import Job
from winze.lab.runs.store import RUN, BusyError, Runs, read, sealed
from winze.readings import Point
from winze.train import StoreError


@dataclass(frozen=True)
class Config:
    width: int = 1


JOB = Job("tunnel/main", "cpu", Point(blocks=8), 0, Config())


@pytest.fixture
def runs(tmp_path):
    return Runs(tmp_path / "runs")


def begun(runs, job=JOB, **facts):
    with runs.open(job) as run:
        run.tell(**({"status": "running", "started": "2024-01-01", "seconds": 1.5} | facts))
    return runs.folder(job)


def test_a_new_run_knows_its_job(runs):
    told = read(begun(runs))
    assert {name: told[name] for name in ("recipe", "scale", "point", "seed", "key")} == {
        "recipe": "tunnel/main",
        "scale": "cpu",
        "point": {"blocks": 8},
        "seed": 0,
        "key": JOB.key,
    }
    assert told["config"] == {"type": "Config", "width": 1}
    assert runs.folder(JOB).name == JOB.key


def test_a_run_opened_again_is_as_it_was_left(runs):
    begun(runs, threads=7)
    with runs.open(JOB) as run:
        assert run.told["threads"] == 7


def test_looking_at_a_run_that_is_not_there_writes_nothing(runs):
    assert read(runs.folder(JOB)) is None
    assert not runs.is_done(JOB)
    assert runs.all() == []
    assert not runs.root.exists()


def test_only_a_finished_run_is_done(runs):
    begun(runs)
    assert not runs.is_done(JOB)
    begun(runs, status="done")
    assert runs.is_done(JOB)


def test_what_a_killed_writer_left_is_swept_away(runs):
    folder = begun(runs)
    (folder / ".run.json.4242").write_text("hal")
    with runs.open(JOB):
        assert names(folder) == [RUN]


def test_a_second_writer_in_the_same_process_is_refused(runs):
    busy = pytest.raises(BusyError, match=rf"{JOB.key} is being written by process {os.getpid()} on")
    with runs.open(JOB), busy, runs.open(JOB):
        pass


def test_two_jobs_are_written_side_by_side(runs):
    with runs.open(JOB) as one, runs.open(replace(JOB, seed=1)) as other:
        assert one.folder != other.folder


HOLD = """
import sys, time
from winze.lab.runs.job import Job
from winze.lab.runs.store import Runs
sys.path[:0] = {here!r}
from test_store import JOB
with Runs({root!r}).open(JOB) as run:
    run.tell(status="running")
    print("open", flush=True)
    time.sleep(60)
"""


def script(folder, code):
    (folder / "script.py").write_text(code)
    return folder / "script.py"


@pytest.fixture
def holder(runs, tmp_path):
    """Another process that has the run open."""
    code = HOLD.format(here=[str(one) for one in Path(__file__).parents[:2]], root=str(runs.root))
    with Forked(script(tmp_path, code)) as process:
        assert process.stdout.readline() == "open\n"
        yield process
        process.kill()


def test_two_processes_never_write_one_run_and_a_killed_one_lets_go(runs, holder):
    with pytest.raises(BusyError, match=f"process {holder.pid} on"), runs.open(JOB):
        pass
    with pytest.raises(BusyError):
        runs.remove(JOB.key)
    assert [facts.status for facts in runs.all()] == ["running"]
    holder.kill()
    holder.wait()
    assert [facts.status for facts in runs.all()] == ["unfinished"]
    with runs.open(JOB) as run:
        assert run.told["status"] == "running"


def test_whoever_only_looks_does_not_get_in_the_way(runs, tmp_path):
    begun(runs)
    code = f"""
from winze.lab.runs.store import Runs
print("go", flush=True)
while True: Runs({str(runs.root)!r}).is_busy({JOB.key!r})
"""
    with Forked(script(tmp_path, code)) as looker:
        assert looker.stdout.readline() == "go\n"
        end = time.monotonic() + 2
        while time.monotonic() < end:
            with runs.open(JOB):
                pass
        looker.kill()


@pytest.mark.parametrize(
    ("version", "advice"),
    [(99, "update winze to read it"), (1, "read it with winze 0.1, which wrote it, or remove it")],
)
def test_a_folder_of_another_format_is_explained_refused_and_left_alone(runs, version, advice):
    folder = begun(runs, version=version)
    before = (folder / RUN).read_bytes()
    with pytest.raises(StoreError, match=f"is a run of format {version} and this winze reads format 2: {advice}"):
        runs.is_done(JOB)
    with pytest.raises(StoreError, match="run of format"), runs.open(JOB):
        pass
    assert (folder / RUN).read_bytes() == before
    (facts,) = runs.all()
    assert facts.status == "unreadable"
    assert f"format {version}" in facts.error


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"kind": "win', "cut short"),
        (b"[]", "kind is not .winze run."),
        (b'{"kind": "x"}', "kind is not .winze run."),
    ],
)
def test_a_run_json_that_is_not_ours_is_refused(runs, body, why):
    folder = begun(runs)
    (folder / RUN).write_bytes(body)
    with pytest.raises(StoreError, match=why), runs.open(JOB):
        pass
    assert runs.all()[0].status == "unreadable"


def test_a_run_json_that_is_a_device_is_not_read(runs):
    folder = begun(runs)
    (folder / RUN).unlink()
    (folder / RUN).symlink_to("/dev/zero")
    with pytest.raises(StoreError, match="is not a file"):
        read(folder)


def test_a_run_json_that_tells_of_another_job_is_refused(runs):
    folder = begun(runs)
    (folder / RUN).write_bytes(sealed(read(folder) | {"seed": 5}))
    with pytest.raises(StoreError, match="a job other than tunnel/main cpu blocks 8 seed 0"), runs.open(JOB):
        pass


def test_wherever_a_bit_of_run_json_was_flipped_it_is_noticed_and_the_run_listed(runs):
    folder = begun(runs, source="code", versions={"torch": "2"}, notes=[], status="done", sha256={})
    whole, rng = (folder / RUN).read_bytes(), random.Random(0)
    for place in rng.sample(range(len(whole)), 200):
        if not whole[place : place + 1].isspace():
            (folder / RUN).write_bytes(
                whole[:place] + bytes([whole[place] ^ (1 << rng.randrange(7))]) + whole[place + 1 :]
            )
            (facts,) = runs.all()
            assert facts.status == "unreadable"
            assert str(folder) in facts.error


def test_a_run_from_before_seals_is_read(runs):
    folder = begun(runs)
    told = read(folder)
    (folder / RUN).write_text(json.dumps(told))
    assert read(folder) == told


def test_all_runs_are_listed_the_youngest_last_and_other_folders_are_not(runs):
    begun(runs, replace(JOB, seed=1), started="2024-01-02", status="failed", error="ValueError: no")
    begun(runs, replace(JOB, seed=2), started="2024-01-01", status="done")
    (runs.root / "notes").mkdir()
    (runs.root / "0123456789abcdef").mkdir()
    found = [(facts.seed, facts.status, facts.error) for facts in runs.all()]
    assert found == [(2, "done", None), (1, "failed", "ValueError: no"), (None, "unfinished", None)]


def test_a_run_is_found_by_the_start_of_its_key(runs):
    begun(runs)
    assert runs.find(JOB.key[:6]).key == JOB.key
    with pytest.raises(StoreError, match="there is no run 'zz'"):
        runs.find("zz")
    begun(runs, replace(JOB, seed=1))
    with pytest.raises(StoreError, match=r"may be .* or .*: give more"):
        runs.find("")


def test_a_removed_run_is_gone(runs):
    begun(runs)
    runs.remove(JOB.key)
    assert runs.all() == []
    assert names(runs.root) == [".locks"]


def test_a_root_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "runs").touch()
    with pytest.raises(OSError, match="runs"), Runs(tmp_path / "runs").open(JOB):
        pass
