"""Avalanche benchmarks as tasks: with the real package where it is installed, and what has no test set per task."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import winze
from winze.data import DataError
from winze.data.task_list import task_list
from winze.train import SGD, Epochs, Training


def test_a_benchmark_of_avalanche_is_a_sequence_of_tasks():
    benchmarks = pytest.importorskip("avalanche.benchmarks", reason="avalanche-lib is not installed")
    x = torch.rand(80, 6, generator=torch.Generator().manual_seed(0))
    y = torch.arange(80) % 4
    train, test = (_with_targets(x[rows], y[rows]) for rows in _halves())
    benchmark = benchmarks.nc_benchmark(train, test, n_experiences=2, task_labels=False, seed=1, shuffle=True)
    listed = task_list(benchmark)
    assert len(listed.parts) == 2
    for experience, part in zip(benchmark.train_stream, listed.parts, strict=True):
        assert set(part.classes) == set(experience.classes_in_this_experience)
        assert torch.equal(part.train[0][0], experience.dataset[0][0])
    sequence = winze.continual(nn.Linear(6, 4), benchmark, Training(Epochs(1), 8, SGD(0.1)), measures=())
    assert sequence.matrix.shape == (2, 2)


def test_a_benchmark_without_a_test_set_per_task_is_refused():
    one = SimpleNamespace(dataset=_with_targets(torch.zeros(4, 2), torch.tensor([0, 1, 0, 1])))
    with pytest.raises(DataError, match="2 training and 1 test"):
        task_list(SimpleNamespace(train_stream=[one, one], test_stream=[one]))


def _halves():
    return slice(0, 40), slice(40, 80)


def _with_targets(x, y):
    data = TensorDataset(x, y)
    data.targets = y.tolist()
    return data
