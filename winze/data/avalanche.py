"""Benchmarks of Avalanche (Lomonaco et al., 2021), read as pairs of tensors; the package itself is not imported.

winze.continual(net, SplitMNIST(n_experiences=5), training)
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from winze.data.data_error import DataError


def is_benchmark(given: Any) -> bool:
    """Whether something has the two streams of experiences that every Avalanche benchmark has."""
    return hasattr(given, "train_stream") and hasattr(given, "test_stream")


def pairs_of(benchmark: Any) -> list[tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]]:
    """The (train, test) tensors of every experience, with the benchmark's evaluation transforms and labels."""
    train, test = list(benchmark.train_stream), list(benchmark.test_stream)
    if len(train) != len(test):
        raise DataError(
            f"{type(benchmark).__name__} has {len(train)} training and {len(test)} test experiences; a sequence of "
            "tasks needs a test set per task"
        )
    return [(_stacked(one.dataset), _stacked(other.dataset)) for one, other in zip(train, test, strict=True)]


def _stacked(dataset: Any) -> tuple[Tensor, Tensor]:
    """All samples of an experience; an Avalanche sample is (x, y, task label)."""
    plain = dataset.eval() if hasattr(dataset, "eval") else dataset
    rows = [plain[spot] for spot in range(len(plain))]
    return torch.stack([torch.as_tensor(row[0]) for row in rows]), torch.tensor([int(row[1]) for row in rows])
