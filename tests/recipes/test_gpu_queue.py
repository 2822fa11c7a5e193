"""The queue of runs for one GPU: what it chooses in the time that is left, and what it brings back."""

import importlib.util
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from winze.lab import recipe
from winze.lab.runs import store
from winze.lab.runs.store import Runs
from winze.lab.runs.sweep import sweep
from winze.train import Hardware

FILE = Path(__file__).parents[2] / "benchmarks" / "gpu_queue.py"


@pytest.fixture(scope="module")
def queue():
    spec = importlib.util.spec_from_file_location("gpu_queue", FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def item(queue, name="tunnel/neural_collapse", number=1, **line):
    """An item with every run of a recipe, none of them kept."""
    made = recipe(name)
    told = queue.Line(name, **{"cost": 10, "alone": 30} | line)
    return queue.Item(number, told, made, tuple(made.jobs("gpu")), 0)


@pytest.mark.slow
def test_every_line_of_the_queue_chooses_runs_and_has_a_miniature(queue):
    for number in range(1, len(queue.PLAN) + 1):
        line = queue.PLAN[number - 1]
        assert queue.recipe(line.recipe).jobs(line.scale, line.at, line.seeds), line
        small = queue.Item.of(number, mini=True).jobs[0].config
        assert small.pairs == 2 if hasattr(small, "pairs") else small.data.limit <= 600, line


def test_items_are_chosen_by_numbers_and_ranges_in_the_order_given(queue):
    assert queue.numbers("9-11,3") == [9, 10, 11, 3]
    for text in ("0", "5-4", "x", "1,", f"1-{len(queue.PLAN) + 1}"):
        with pytest.raises(ValueError, match="--items are numbers and ranges"):
            queue.numbers(text)


def test_kept_runs_are_not_run_again(queue, monkeypatch):
    monkeypatch.setattr(queue, "PLAN", (queue.Line("tunnel/neural_collapse", 10, 30),))
    jobs = recipe("tunnel/neural_collapse").jobs("gpu")
    monkeypatch.setattr(queue, "load", lambda recipe: {"gpu": {jobs[0].point: {jobs[0].seed: None}}})
    found = queue.Item.of(1)
    assert (found.kept, list(found.jobs)) == (1, jobs[1:])


def test_runs_are_chosen_in_order_as_far_as_they_end_in_time(queue, tmp_path):
    whole = item(queue)
    chosen = queue.fitting([whole], Runs(tmp_path), set(), left=35)
    assert [job for _, job in chosen] == list(whole.jobs[:3])
    assert not queue.fitting([whole], Runs(tmp_path), set(), left=29), "a run alone takes 30 s"
    assert not queue.fitting([whole], Runs(tmp_path), {job.key for job in whole.jobs}, left=1e6)


def test_runs_that_were_begun_come_first(queue, tmp_path):
    whole = item(queue)
    (tmp_path / whole.jobs[-1].key).mkdir()
    assert queue.fitting([whole], Runs(tmp_path), set(), left=35)[0][1] == whole.jobs[-1]


def test_a_damaged_run_is_named_and_stops_no_other(queue, tmp_path, capsys):
    whole = item(queue)
    damaged = tmp_path / whole.jobs[0].key / store.RUN
    damaged.parent.mkdir()
    damaged.write_text("{")
    queue.perform([replace(whole, jobs=whole.jobs[:1])], tmp_path, 1e6, Hardware("cpu"))
    assert f"{damaged} was cut short or is not JSON" in capsys.readouterr().out
    assert queue.fitting([whole], Runs(tmp_path), {whole.jobs[0].key}, left=35)[0][1] == whole.jobs[1]


def test_runs_that_wait_for_a_training_come_last_in_the_pool_and_cost_what_reading_does(queue, tmp_path):
    first, same = item(queue, "erosion/layers"), item(queue, "erosion/similarity", number=2, again=1)
    alone = item(queue, number=3)
    chosen = [job for _, job in queue.fitting([first, same, alone], Runs(tmp_path), set(), left=1e6)]
    assert chosen == [*first.jobs, *alone.jobs, *same.jobs]
    left = 10.0 * len(first.jobs) + len(same.jobs)
    assert len(queue.fitting([first, same, alone], Runs(tmp_path), set(), left)) == len(first.jobs) + len(same.jobs)


def test_a_run_of_two_items_is_in_a_pool_once(queue, tmp_path):
    whole = item(queue)
    chosen = queue.fitting([whole, replace(whole, number=2)], Runs(tmp_path), set(), left=1e6)
    assert [job for _, job in chosen] == list(whole.jobs)


@pytest.mark.slow
def test_what_is_planned_for_one_machine_fits_into_its_time(queue, tmp_path):
    for chosen in queue.MACHINES:
        trained = set()
        items = [queue.Item.of(number) for number in queue.numbers(chosen)]
        seconds = sum(sum(item.ahead(Runs(tmp_path), trained)) for item in items)
        assert seconds <= 60 * queue.MINUTES - queue.RESERVE, chosen


def test_a_run_whose_training_is_there_costs_what_reading_does(queue):
    line, job = queue.Line("erosion/layers", 42, 220, again=8), recipe("erosion/layers").jobs("gpu")[0]
    assert queue.cost(line, job, set()) == 42
    assert queue.cost(line, job, {queue.training_of(job)}) == 8


def test_the_time_of_the_machine_runs_from_the_first_command_on(queue, tmp_path, monkeypatch):
    assert queue.held(tmp_path, 10) == 600
    now = queue.time.time()
    monkeypatch.setattr(queue.time, "time", lambda: now + 100)
    assert queue.held(tmp_path, 10) == pytest.approx(500, abs=5)
    monkeypatch.setattr(queue.time, "time", lambda: now + 1000)
    assert queue.held(tmp_path, 10) == 600, "another machine"


def test_finished_runs_come_back_without_weights_and_are_whole(queue, tmp_path):
    made = recipe("temperature/softmax_rank")
    jobs = tuple(made.jobs("smoke"))
    assert all(one.error is None for one in sweep(jobs, tmp_path / "runs", hardware=Hardware("cpu"), progress=False))
    runs = Runs(tmp_path / "runs")
    (runs.folder(jobs[0]) / "net.safetensors").write_bytes(b"weights")
    whole = queue.Item(1, queue.Line(made.name, 1, 1), made, jobs, 0)
    unfinished = replace(jobs[0], seed=7)
    runs.folder(unfinished).mkdir()
    queue.pack([replace(whole, jobs=(*jobs, unfinished))], runs, tmp_path / "out")
    assert queue.unpack(tmp_path / "out", tmp_path / "here") == len(jobs)
    for job in jobs:
        assert store.check(Runs(tmp_path / "here").folder(job))["status"] == "done"
    assert not list((tmp_path / "here").rglob("*.safetensors"))


@pytest.mark.parametrize(
    ("size", "limits", "fit", "archives"),
    [
        (1000, {"ARCHIVES": 2, "ROOM": 2500}, 4, 2),
        (1000, {"ROOM": 2500, "TOGETHER": 5500}, 5, 3),
        (3000, {"ROOM": 2500}, 0, 0),
    ],
)
def test_archives_are_few_and_small_and_what_does_not_fit_is_said(
    queue, tmp_path, monkeypatch, size, limits, fit, archives
):
    jobs = tuple(recipe("tunnel/neural_collapse").jobs("gpu"))
    runs = Runs(tmp_path / "runs")
    monkeypatch.setattr(Runs, "is_done", lambda self, job: True)
    for name, value in limits.items():
        monkeypatch.setattr(queue, name, value)
    for job in jobs:
        runs.folder(job).mkdir(parents=True)
        (runs.folder(job) / "readings.csv").write_bytes(bytes(size))
    whole = queue.Item(1, queue.Line("tunnel/neural_collapse", 1, 1), recipe("tunnel/neural_collapse"), jobs, 0)
    assert queue.pack([whole], runs, tmp_path / "out").endswith(f"{len(jobs) - fit} did not fit")
    assert len(list((tmp_path / "out").iterdir())) == archives


def test_the_queue_needs_no_package_of_the_command_line():
    absent = "import sys; sys.modules |= dict.fromkeys(('tyro', 'ray', 'plotly', 'rich', 'beartype')); "
    run = f"sys.path.insert(0, {str(FILE.parent)!r}); import gpu_queue; print(len(gpu_queue.Item.of(1).jobs))"
    done = subprocess.run([sys.executable, "-c", absent + run], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
