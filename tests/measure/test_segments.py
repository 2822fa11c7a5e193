"""Matched IoU against numbers worked out by hand; clusters and colours of features whose groups are known."""

import math

import pytest
import torch

from winze.measure.segments import clusters, matched_iou, spectral_colours

GROUPS = torch.arange(60) % 3
FEATURES = torch.nn.functional.one_hot(GROUPS, 3).float() + 0.05 * torch.randn(
    60, 3, generator=torch.Generator().manual_seed(0)
)


def test_renamed_clusters_match_in_full():
    truth = torch.arange(12).view(3, 4) % 3
    assert matched_iou((truth + 1) % 3, truth, 3) == 1


def test_an_overlap_is_divided_by_the_union():
    truth = torch.tensor([0, 0, 0, 1, 1, 1])
    predicted = torch.tensor([1, 1, 0, 0, 0, 0])
    assert matched_iou(predicted, truth, 2) == pytest.approx((2 / 3 + 3 / 4) / 2)


def test_ignored_pixels_and_absent_classes_do_not_count():
    truth, predicted = torch.tensor([0, 0, 1, 255, 255]), torch.tensor([0, 0, 1, 0, 1])
    assert matched_iou(predicted, truth, 3) == 1
    nothing = matched_iou(predicted, torch.full((5,), 255), 3)
    assert math.isnan(nothing)
    assert nothing.note == "no pixel has a class"


@pytest.mark.parametrize(
    ("predicted", "truth", "said"),
    [
        (torch.zeros(3).long(), torch.zeros(4).long(), "differ in shape"),
        (torch.tensor([0, 5]), torch.tensor([0, 1]), "clusters are numbered from 0 to 1, not 0 to 5"),
        (torch.tensor([0, 1]), torch.tensor([0, 7]), "classes are numbered from 0 to 1, not 0 to 7"),
    ],
)
def test_what_cannot_be_matched_is_named(predicted, truth, said):
    with pytest.raises(ValueError, match=said):
        matched_iou(predicted, truth, 2)


def test_clusters_of_separate_groups_are_the_groups():
    assert matched_iou(clusters(FEATURES, 3), GROUPS, 3) == 1
    with pytest.raises(ValueError, match="60 rows cannot make 61 clusters"):
        clusters(FEATURES, 61)


def test_rows_of_one_group_have_one_colour_and_groups_differ():
    colours = spectral_colours(FEATURES)
    assert colours.min() >= 0
    assert colours.max() <= 1
    means = torch.stack([colours[group == GROUPS, :2].mean(0) for group in range(3)])
    within = max(float((colours[group == GROUPS, :2] - means[group]).abs().mean()) for group in range(3))
    assert torch.pdist(means).min() > 4 * within
    with pytest.raises(ValueError, match="at least 5 rows, not 3"):
        spectral_colours(FEATURES[:3])
