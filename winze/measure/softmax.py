"""What softmax and alignment do to singular values (Masarczyk et al., 2025, arXiv 2506.01562).

Here columns are samples, and every function takes one matrix or a batch of them.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

Matrix = Float[Tensor, "*batch row column"]
Scalar = Float[Tensor, "*batch"]


def column_softmax(matrix: Matrix, c: float = 1.0) -> Matrix:
    """Give the softmax of every column of c A, which is a temperature of T = 1/c.

    >>> column_softmax(torch.zeros(2, 3))[0]
    tensor([0.5000, 0.5000, 0.5000])
    """
    return (c * matrix).softmax(-2)


def singular_gap(matrix: Matrix) -> Scalar:
    """Give how far the largest singular value lies above the smallest, σ_1 − σ_n."""
    values: Tensor = torch.linalg.svdvals(matrix)
    return values[..., 0] - values[..., -1]


def singular_gap_bound(matrix: Matrix) -> Scalar:
    """Bound `singular_gap` of a square matrix whose columns are probabilities, by their inner products.

    σ_1 − σ_n ≤ √(1 + r) − √max(1/n − r, 0),   r = max_i Σ_{j≠i} ⟨m_i, m_j⟩
    """
    gram = matrix.mT @ matrix
    radius = (gram.sum(-1) - gram.diagonal(dim1=-2, dim2=-1)).amax(-1)
    return (1 + radius).sqrt() - (1 / matrix.shape[-1] - radius).clamp(min=0).sqrt()


def aligned_norm(weight: Float[Tensor, "*batch out inner"], features: Float[Tensor, "*batch inner column"]) -> Scalar:
    """Give the largest norm that W A can have when A may be turned: that of aligned singular vectors.

    ‖W A‖_F ≤ ‖Σ_W Σ_A‖_F
    """
    left, right = (torch.linalg.svdvals(one) for one in (weight, features))
    shared = min(left.shape[-1], right.shape[-1])
    return (left[..., :shared] * right[..., :shared]).norm(dim=-1)
