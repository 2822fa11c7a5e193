"""What a sequence of tasks costs and gives, from its accuracy matrix R[t, k]: accuracy on task k after task t.

Backward and forward transfer: Lopez-Paz and Ranzato, 2017, arXiv 1706.08840.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def average_accuracy(matrix: Array) -> Array:
    """The mean accuracy, after each task, on the tasks seen so far: A_t = mean over k <= t of R[t, k]."""
    return np.array([matrix[t, : t + 1].mean() for t in range(len(_square(matrix)))])


def forgetting(matrix: Array) -> Array:
    """What is lost of each task from right after it to the end: F_k = R[k, k] - R[T, k]."""
    return np.asarray(_square(matrix).diagonal() - matrix[-1])


def backward_transfer(matrix: Array) -> float:
    """What the tasks before the last gained by those after them: mean over k < T of R[T, k] - R[k, k]."""
    return -float(forgetting(matrix)[:-1].mean()) if len(matrix) > 1 else float("nan")


def forward_transfer(matrix: Array, start: Array) -> float:
    """What a task gains from those before it: mean over k > 1 of R[k - 1, k] - b_k, with b_k before the first task."""
    before = _square(matrix).diagonal(1) - np.asarray(start)[1:]
    return float(before.mean()) if len(matrix) > 1 else float("nan")


def _square(matrix: Array) -> Array:
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"an accuracy matrix has one row and one column per task, not the shape {matrix.shape}")
    return matrix
