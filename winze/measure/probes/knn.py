"""How well neighbours in feature space know a sample's class."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from winze.measure.features import Features, check_finite, detached, flat
from winze.measure.value import Value

AT_ONCE = 1024  # test samples whose similarities to all train samples are held at once


@detached
def knn_accuracy(
    train: Features,
    train_labels: Int[Tensor, " sample"],
    test: Features,
    test_labels: Int[Tensor, " other"],
    neighbours: int = 20,
    temperature: float | None = 0.07,
) -> Value:
    """The accuracy of a vote of the nearest neighbours by cosine similarity s.

        score_c = Σ_{i in the k nearest, y_i = c} exp(s_i / τ)

    Wu et al., 2018, arXiv 1805.01978. `temperature` None counts all neighbours alike.
    """
    known, asked = flat(train).float(), flat(test).float()
    if len(known) != len(train_labels) or len(asked) != len(test_labels):
        raise ValueError(
            f"{len(known)} and {len(asked)} samples have {len(train_labels)} and {len(test_labels)} labels"
        )
    if not 1 <= neighbours <= len(known):
        raise ValueError(f"neighbours lie between 1 and the {len(known)} train samples, not {neighbours}")
    for rows in (known, asked):
        check_finite(rows)
    known = torch.nn.functional.normalize(known, dim=1)
    classes = int(max(train_labels.max(), test_labels.max())) + 1
    right = 0
    for rows, labels in zip(asked.split(AT_ONCE), test_labels.to(asked.device).split(AT_ONCE), strict=True):
        near = (torch.nn.functional.normalize(rows, dim=1) @ known.T).topk(neighbours, 1)
        above = near.values - near.values[:, :1]  # as a low temperature would overflow
        weights = torch.ones_like(above) if temperature is None else (above / temperature).exp()
        votes = torch.zeros(len(rows), classes, device=rows.device)
        votes.scatter_add_(1, train_labels.to(rows.device)[near.indices], weights)
        right += int((votes.argmax(1) == labels).sum())
    return Value(right / len(asked))
