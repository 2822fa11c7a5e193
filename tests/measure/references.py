"""Float64 NumPy versions of the definitions, written as they stand in the papers."""

import numpy as np
import torch
from torch import Tensor


def features(
    n: int = 300, d: int = 20, offset: float = 0.0, dtype: torch.dtype = torch.float32, seed: int = 0
) -> Tensor:
    """Correlated features with a falling spectrum, whose mean is `offset` times their spread."""
    g = torch.Generator().manual_seed(seed)
    mix = torch.randn(d, d, generator=g, dtype=torch.float64) * torch.logspace(0, -3, d, dtype=torch.float64)
    x = torch.randn(n, d, generator=g, dtype=torch.float64) @ mix.T
    return (x + offset * x.std(0)).to(dtype)


def labels(n: int = 300, classes: int = 5, seed: int = 0) -> Tensor:
    """Labels in no order, every class present where n allows."""
    g = torch.Generator().manual_seed(seed)
    return (torch.arange(n) % classes)[torch.randperm(n, generator=g)]


def wide(x: Tensor) -> np.ndarray:
    return x.double().numpy()


def squares(x: Tensor) -> np.ndarray:
    z = wide(x)
    return np.linalg.svd(z - z.mean(0), compute_uv=False) ** 2


def numerical_rank(x: Tensor) -> float:
    s = squares(x)
    return float((s > 1e-3 * s[0]).sum())


def effective_rank(x: Tensor) -> float:
    p = squares(x) / squares(x).sum()
    return float(-(p[p > 0] * np.log(p[p > 0])).sum())


def participation_ratio(x: Tensor) -> float:
    s = squares(x)
    return float(s.sum() ** 2 / (s**2).sum())


def gram(x: Tensor) -> np.ndarray:
    z = wide(x)
    z = z - z.mean(0)
    return z @ z.T


def hsic0(k: np.ndarray, l: np.ndarray) -> float:  # noqa: E741
    return float((k * l).sum() / (len(k) - 1) ** 2)


def hsic1(k: np.ndarray, l: np.ndarray) -> float:  # noqa: E741
    n, one = len(k), np.ones(len(k))
    k, l = k - np.diag(np.diag(k)), l - np.diag(np.diag(l))  # noqa: E741
    inner = (
        np.trace(k @ l) + (one @ k @ one) * (one @ l @ one) / ((n - 1) * (n - 2)) - 2 / (n - 2) * (one @ k @ l @ one)
    )
    return float(inner / (n * (n - 3)))


def cka(xs: list[Tensor], ys: list[Tensor], unbiased: bool) -> float:
    """CKA over minibatches, each weighted by its samples."""
    hsic = hsic1 if unbiased else hsic0
    n = np.array([len(x) for x in xs])
    pairs = [(gram(x), gram(y)) for x, y in zip(xs, ys, strict=True)]
    sides = (pairs, [(k, k) for k, _ in pairs], [(other, other) for _, other in pairs])
    xy, xx, yy = (np.average([hsic(*pair) for pair in side], weights=n) for side in sides)
    return float(xy / np.sqrt(xx * yy))


def class_variance(x: Tensor, y: Tensor) -> tuple[float, float]:
    z, t = wide(x), y.numpy()
    groups = [z[t == c] for c in np.unique(t)]
    means = np.stack([g.mean(0) for g in groups])
    intra = np.mean([((g - m) ** 2).sum(1).mean() for g, m in zip(groups, means, strict=True)])
    far = [((a - b) ** 2).sum() for i, a in enumerate(means) for j, b in enumerate(means) if i != j]
    return float(intra), float(np.mean(far))


def nc1(x: Tensor, y: Tensor) -> float:
    z, t = wide(x), y.numpy()
    means = np.stack([z[t == c].mean(0) for c in np.unique(t)])
    residual = z - means[t]
    arms = means - means.mean(0)
    within, between = residual.T @ residual / len(z), arms.T @ arms / len(means)
    return float(np.trace(within @ np.linalg.pinv(between, rcond=1e-10, hermitian=True)) / len(means))
