"""Tasks one after the other: heads, crossed weights, the accuracy matrix, and a first task that runs share."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from winze.data import DataError
from winze.lab import Bench, Continual, Data, Network, tasks
from winze.lab.continual import over_chance
from winze.measure.task_accuracy import forgetting
from winze.readings import Readings, ReadingsError
from winze.train import SGD, Epochs, Training

study = Continual(
    Network("winze/vgg11x0.0625"),
    Data("digits", limit=200),
    Training(Epochs(1), optimizer=SGD(0.1, momentum=0.9)),
    tasks=(7, 3),
)


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    return tasks(study, Bench(tmp_path_factory.mktemp("runs") / "run"), study.tasks)


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


def test_the_head_of_task_1_stays_as_it_was_during_task_2(learned):
    first, second = learned.after
    heads = [name for name in first if ".heads." in name]
    assert [torch.equal(first[name], second[name]) for name in heads] == [True, True, False, False]
    assert [len(first[name]) for name in heads] == [7, 7, 3, 3]
    assert not same(first, second)


def test_all_layers_of_one_task_are_the_network_after_it_with_every_head_of_its_own_task(learned):
    count = len(learned.names)
    assert count == 10  # VGG-11 without its output
    assert same(learned.crossed(1, 2, 0), learned.after[1])
    assert same(learned.crossed(2, 1, count), learned.after[1])
    hidden = {name: value for name, value in learned.after[0].items() if ".heads." not in name}
    for mixed in (learned.crossed(1, 2, count), learned.crossed(2, 1, 0)):
        assert same(hidden, mixed)
        assert torch.equal(mixed["output.heads.1.weight"], learned.after[1]["output.heads.1.weight"])


def test_a_task_is_evaluated_through_its_own_head(learned):
    weights = dict(learned.after[1])
    weights["output.heads.1.weight"] = torch.zeros_like(weights["output.heads.1.weight"])
    weights["output.heads.1.bias"] = torch.tensor([0.0, 0.0, 9.0])
    labels = learned.tasks[1].test_labels
    assert learned.accuracy(weights, 2) == pytest.approx(float((labels == 2).double().mean()))
    assert learned.accuracy(weights, 1) == learned.accuracy(learned.after[1], 1)


def test_a_test_set_puts_back_the_head_that_was_in_use_even_after_an_error(learned):
    test = learned.tests["task 1"]
    test.heads.use(1)
    for _ in test:
        assert test.heads.task == 0
    assert test.heads.task == 1
    batches = iter(test)
    next(batches)
    with pytest.raises(RuntimeError):
        batches.throw(RuntimeError("out of memory"))
    assert test.heads.task == 1


def test_every_phase_evaluates_the_test_sets_of_all_tasks(learned):
    for number, history in enumerate(learned.turns.histories):
        row = history.metrics[-1]
        for k in range(2):
            assert row[f"task {k + 1}: accuracy"] == pytest.approx(learned.turns.matrix[number, k])


def test_forgetting_is_the_accuracy_right_after_a_task_minus_that_at_the_end(learned):
    matrix = np.array([[0.9, 0.1, 0.2], [0.7, 0.8, 0.2], [0.4, 0.7, 0.6]])
    assert forgetting(matrix) == pytest.approx([0.5, 0.1, 0.0])


def test_a_sequence_stores_its_matrix_and_the_three_numbers_of_each_task(learned):
    readings = Readings()
    learned.store(readings)
    found = {(row.measure, row.data): row.value for row in readings.rows}
    matrix = readings.arrays["accuracy_matrix"]
    assert found["learnt", "task 1"] == matrix[0, 0]
    assert found["kept", "task 1"] == matrix[1, 0]
    assert found["forgetting", "task 1"] == pytest.approx(matrix[0, 0] - matrix[1, 0])
    assert [row.n for row in readings.rows] == [len(task.test_labels) for task in learned.tasks for _ in range(3)]


def test_frozen_layers_and_their_statistics_do_not_change_in_later_tasks(tmp_path):
    frozen = replace(study.training, optimizer=SGD(0.1, momentum=0.9, rates=(("layers.conv[1-4].*", 0.0),)))
    found = tasks(study, Bench(tmp_path), study.tasks, later=frozen)
    first, second = found.after
    for name, value in first.items():
        if not name.endswith("num_batches_tracked") and ".heads." not in name:
            assert torch.equal(value, second[name]) == (found.layers[name] <= 4), name


def test_runs_that_differ_after_the_first_task_share_it(tmp_path):
    slow = replace(study.training, optimizer=SGD(0.001))
    one, other = (
        tasks(study, Bench(tmp_path / name), study.tasks, later) for name, later in (("one", None), ("other", slow))
    )
    assert same(one.after[0], other.after[0])
    assert not same(one.after[1], other.after[1])
    assert len(list((tmp_path / ".shared").glob("[!.]*"))) == 1


def test_a_run_that_shares_nothing_trains_the_same_first_task_on_one_machine(tmp_path, learned):
    alone = tasks(study, Bench(tmp_path / "run"), study.tasks, shared=False)
    assert all(map(same, alone.after, learned.after))
    assert not (tmp_path / ".shared").exists()


@pytest.mark.parametrize("sizes", [(1, 5), (8, 8), ()])
def test_tasks_that_the_classes_do_not_make_are_refused(sizes, tmp_path):
    with pytest.raises(DataError, match="digits"):
        tasks(study, Bench(tmp_path), sizes)


def test_accuracy_over_chance_counts_the_classes_of_the_task():
    readings = Readings(conventions={"notes": ["task 1 of 2: a, b, c", "task 2 of 2: d, e"]})
    assert over_chance(lambda _: 0.5)(readings) == 1.5
    assert over_chance(lambda _: 0.5, task=2)(readings) == 1.0
    with pytest.raises(ReadingsError, match="task 3"):
        over_chance(lambda _: 0.5, task=3)(readings)
