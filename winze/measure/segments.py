"""Segments without labels: clusters of patch features, matched with the true classes of pixels; maps in colour."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from winze.measure.features import Features, check_finite, detached, flat
from winze.measure.value import Value, missing

IGNORED = 255  # the class of pixels that do not count


@detached
def matched_iou(
    predicted: Int[Tensor, "..."], truth: Int[Tensor, "..."], classes: int, ignored: int = IGNORED
) -> Value:
    """The mean intersection over union of clusters and classes, after the best one-to-one match (Hungarian method).

        IoU_c = |P_c ∩ T_c| / |P_c ∪ T_c|,   averaged over the classes that occur

    Clusters are numbered from 0, and there are at most as many as classes.
    """
    from scipy.optimize import linear_sum_assignment

    if predicted.shape != truth.shape:
        raise ValueError(f"clusters {tuple(predicted.shape)} and classes {tuple(truth.shape)} differ in shape")
    counted = truth.flatten() != ignored
    found, true = predicted.flatten()[counted].long(), truth.flatten()[counted].long()
    if not len(true):
        return missing("no pixel has a class")
    for name, one in (("clusters", found), ("classes", true)):
        if int(one.min()) < 0 or int(one.max()) >= classes:
            raise ValueError(f"{name} are numbered from 0 to {classes - 1}, not {int(one.min())} to {int(one.max())}")
    table = torch.bincount(found * classes + true, minlength=classes**2).view(classes, classes).double().cpu().numpy()
    rows, columns = linear_sum_assignment(-table)
    both = table[rows, columns]
    union = table.sum(1)[rows] + table.sum(0)[columns] - both
    there = table.sum(0)[columns] > 0
    return Value(float((both[there] / union[there]).mean()))


@detached
def clusters(features: Features, count: int, seed: int = 0) -> Int[Tensor, " sample"]:
    """The cluster of every row by k-means on features of unit length."""
    from sklearn.cluster import KMeans

    rows = torch.nn.functional.normalize(flat(features).float(), dim=1).cpu()
    check_finite(rows)
    if not 1 <= count <= len(rows):
        raise ValueError(f"{len(rows)} rows cannot make {count} clusters")
    return torch.from_numpy(KMeans(count, n_init=4, random_state=seed).fit_predict(rows.numpy())).long()


@detached
def spectral_colours(features: Features, seed: int = 0) -> Float[Tensor, "sample 3"]:
    """A colour for every row: the first three eigenvectors of the normalised Laplacian of cosine similarities.

    Each is stretched from its 2nd to its 98th percentile onto [0, 1]; rows with similar features have similar colours.
    """
    from sklearn.manifold import spectral_embedding

    rows = torch.nn.functional.normalize(flat(features).double(), dim=1)
    check_finite(rows)
    if len(rows) < 5:
        raise ValueError(f"three eigenvectors need at least 5 rows, not {len(rows)}")
    near = (rows @ rows.T).clamp_min(0).cpu().numpy() + 1e-6  # connected, however different two groups are
    found = spectral_embedding(near, n_components=3, random_state=seed)
    low, high = np.percentile(found, (2, 98), axis=0)
    return torch.from_numpy(((found - low) / np.maximum(high - low, 1e-12)).clip(0, 1)).float()
