"""The queue of runs for one GPU: its lines are commands that `winze run` takes, and its miniatures fit every recipe."""

import importlib.util
import shlex
import sys
from pathlib import Path

import pytest
import tyro

from winze.cli.run import RunVerb

FILE = Path(__file__).parents[2] / "benchmarks" / "generative_runs.py"


@pytest.fixture(scope="module")
def queue():
    spec = importlib.util.spec_from_file_location("generative_runs", FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.mark.slow
def test_every_line_of_the_queue_chooses_runs_and_has_a_miniature(queue):
    for number, line in enumerate(queue.PLAN, 1):
        verb = tyro.cli(RunVerb, args=shlex.split(line))
        jobs = verb.chosen()[1]
        assert jobs, line
        small = queue.miniature(queue.Item(number, line, None, verb, tuple(jobs), 0)).chosen()[1]
        assert small[0].config.data.limit <= 600, line


def test_items_are_chosen_by_numbers_and_ranges_in_the_order_given(queue):
    assert queue.numbers("9-11,3") == [9, 10, 11, 3]
    for text in ("0", "5-4", "x", "1,", f"1-{len(queue.PLAN) + 1}"):
        with pytest.raises(ValueError, match="--items are numbers and ranges"):
            queue.numbers(text)


def test_kept_runs_are_not_run_again(queue, monkeypatch):
    jobs = tyro.cli(RunVerb, args=["tunnel/neural_collapse", "--scale", "gpu"]).chosen()[1]
    one = jobs[0]
    monkeypatch.setattr(queue, "load", lambda recipe: {"gpu": {one.point: {one.seed: None}}})
    item = queue.Item.of(1, "tunnel/neural_collapse --scale gpu")
    assert (item.kept, list(item.jobs)) == (1, jobs[1:])
