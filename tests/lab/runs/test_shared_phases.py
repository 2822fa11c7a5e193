"""A phase of training that several runs share is trained once, whatever is killed on the way."""

import json
import random
import sys
from contextlib import ExitStack
from types import SimpleNamespace

import pytest
import torch
from deaths import death_at
from forked import Forked
from small_work import names, spots

from winze.lab.bench import Bench
from winze.lab.runs.job import Job
from winze.lab.runs.perform import perform
from winze.lab.runs.store import Runs, read
from winze.networks import MLP
from winze.readings import Point
from winze.train import SGD, Epochs, Training

FIRST = Training(Epochs(3), batch=20, optimizer=SGD(0.1, momentum=0.9))


def net():
    return MLP(4, 6, 2, 3)


def weights(network):
    return torch.cat([value.flatten() for value in network.state_dict().values()])


def steps_of(bench, shared="task 1", training=FIRST, network=None):
    """The steps that a bench took for the shared phase, and the weights after it."""
    steps, network = [], net() if network is None else network
    bench.train(network, spots(), training, name="first", followers=[lambda _, step: steps.append(step)], shared=shared)
    return [step for step in steps if step], weights(network)


def test_the_second_run_starts_from_the_weights_of_the_first(tmp_path):
    trained, first = steps_of(Bench(tmp_path / "a"))
    copied, second = steps_of(Bench(tmp_path / "b"))
    assert (trained, copied) == (list(range(1, 10)), [])
    assert torch.equal(first, second)


def test_what_follows_is_drawn_alike_in_both(tmp_path):
    drawn = []
    for name in "ab":
        bench = Bench(tmp_path / name)
        steps_of(bench)
        drawn.append(torch.rand(3).tolist())
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize(
    ("bench", "shared", "training"),
    [
        ({"seed": 1}, "task 1", FIRST),
        ({}, "another task", FIRST),
        ({}, "task 1", Training(Epochs(2), batch=20)),
        ({"about": {"device": "another GPU"}}, "task 1", FIRST),
    ],
    ids=["seed", "data", "training", "device"],
)
def test_another_seed_data_training_or_device_is_another_start(tmp_path, bench, shared, training):
    steps_of(Bench(tmp_path / "a"))
    assert steps_of(Bench(tmp_path / "b", **bench), shared, training)[0]
    assert len([one for one in (tmp_path / ".shared").iterdir() if one.name != ".locks"]) == 2


def test_a_run_keeps_its_start_when_the_shared_one_is_gone(tmp_path):
    import shutil

    _, first = steps_of(Bench(tmp_path / "a"))
    shutil.rmtree(tmp_path / ".shared")
    again, second = steps_of(Bench(tmp_path / "a"))
    assert again == []
    assert torch.equal(first, second)


def test_metrics_of_the_shared_phase_stand_in_every_run(tmp_path):
    for name in "ab":
        steps_of(Bench(tmp_path / name))
    rows = [(tmp_path / name / "metrics.jsonl").read_text().splitlines() for name in "ab"]
    assert rows[0] == rows[1]
    assert [json.loads(row)["step"] for row in rows[0]] == [3, 6, 9]


def work(config, bench):
    """A shared first task, then one of the run's own."""
    network = net()
    bench.train(network, spots(), FIRST, name="first", shared="task 1")
    bench.readings.add("start", weights(network).sum().item())
    bench.train(network, spots(), Training(Epochs(1), batch=20, optimizer=SGD(config["lr"])), name="second")
    bench.readings.add("end", weights(network).sum().item())


def job(lr):
    return Job("small/shared", "smoke", Point(lr=lr), 0, {"lr": lr})


RECIPE = SimpleNamespace(work=work)


def outcome(runs, lr):
    folder = runs.folder(job(lr))
    return {name: (folder / name).read_bytes() for name in ("readings.csv", "metrics.jsonl")}


def test_run_json_names_the_start_that_runs_share(tmp_path):
    runs = Runs(tmp_path)
    told = [read(perform(job(lr), runs, recipe=RECIPE)) for lr in (0.1, 0.2)]
    assert told[0]["shared"] == told[1]["shared"]
    assert [facts.status for facts in runs.all()] == ["done", "done"]
    assert not (runs.folder(job(0.1)) / "phases").exists()


def test_runs_that_died_in_the_middle_of_the_shared_phase_end_as_if_they_had_not(tmp_path):
    whole = Runs(tmp_path / "whole")
    with death_at(None) as disk:
        perform(job(0.1), whole, recipe=RECIPE)
    perform(job(0.2), whole, recipe=RECIPE)
    for last in random.Random(0).sample(range(disk.count), 6):
        runs = Runs(tmp_path / str(last))
        with death_at(last) as dead:
            perform(job(0.1), runs, recipe=RECIPE)
        assert dead.dead
        for lr in (0.2, 0.1):  # the other run first: it takes up what the dead one left
            perform(job(lr), runs, recipe=RECIPE)
            assert outcome(runs, lr) == outcome(whole, lr), f"after dying at change {last} of {disk.count}"


@pytest.mark.slow
def test_processes_that_want_one_start_at_once_train_it_once(tmp_path):
    with ExitStack() as stack:
        started = [stack.enter_context(Forked(__file__, tmp_path, lr)) for lr in (0.1, 0.2, 0.3)]
        took = [int(one.stdout.read()) for one in started]
    assert [one.returncode for one in started] == [0, 0, 0]
    assert sorted(took) == [0, 0, 9]
    starts = {read(Runs(tmp_path).folder(job(lr)))["shared"]["first"] for lr in (0.1, 0.2, 0.3)}
    assert len(starts) == 1
    assert names(tmp_path / ".shared") == [".locks", *starts]


if __name__ == "__main__":
    counted: list[int] = []

    def counting(config, bench):
        train = bench.train

        def watched(network, *given, name, **rest):
            follow = [lambda _, step: counted.append(step)] if name == "first" else []
            return train(network, *given, name=name, followers=follow, **rest)

        bench.train = watched
        work(config, bench)

    perform(job(float(sys.argv[2])), Runs(sys.argv[1]), recipe=SimpleNamespace(work=counting))
    sys.stdout.write(str(len([step for step in counted if step])))
