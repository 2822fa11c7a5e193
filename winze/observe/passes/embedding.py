"""Embeddings of a place's features: each sample as a point in the plane."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from winze.measure.features import centred, few_threads

METHODS = ("pca", "tsne", "umap")


def embed_places(indices: Sequence[int], rows: Sequence[Tensor], method: str, most: int = 8) -> dict[int, np.ndarray]:
    """Points for at most `most` places, spread evenly over depth with the first and the last."""
    if method not in METHODS:
        raise ValueError(f"embed must be one of {', '.join(METHODS)}, got {method!r}")
    chosen = sorted({round(i) for i in np.linspace(0, len(indices) - 1, min(most, len(indices)))})
    return {indices[i]: _plane(rows[i], method) for i in chosen}


def _plane(features: Tensor, method: str) -> np.ndarray:
    spread = centred(features, least=1)
    if not spread.any():  # t-SNE would divide by the spread, and end the process
        return np.zeros((len(spread), 2), np.float32)
    with few_threads(spread):
        _, _, directions = torch.linalg.svd(spread, full_matrices=False)
    if method == "pca" or min(spread.shape) <= 2:
        points = (spread @ directions[:2].T).numpy()
        return np.pad(points, ((0, 0), (0, 2 - points.shape[1]))).astype(np.float32)
    narrow = (spread @ directions[:50].T).numpy()
    if method == "umap":
        try:
            from umap import UMAP  # type: ignore[import-not-found,unused-ignore]
        except ImportError as error:
            raise ValueError('embed="umap" needs another package: pip install umap-learn') from error
        return np.asarray(UMAP(random_state=0).fit_transform(narrow), dtype=np.float32)
    from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(narrow) - 1) / 3)
    return TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(narrow).astype(np.float32)
