"""Fewer train images of each class."""

import pytest
import torch

from winze.data import DataError, load, thinned


def test_at_most_so_many_of_each_class_are_left_and_the_test_part_stays():
    whole = load("digits")
    few = thinned(whole, 7)
    assert torch.bincount(few.train_labels).tolist() == [7] * 10
    assert torch.equal(few.test_images, whole.test_images)
    assert "70 of" in few.notes[-1]


def test_a_smaller_count_takes_some_of_what_a_larger_one_does():
    whole = load("digits")
    few, more = (thinned(whole, count).train_images.flatten(1).tolist() for count in (3, 20))
    assert all(image in more for image in few)
    assert len(few) == 30


def test_a_class_with_fewer_keeps_them_all():
    whole = load("digits")
    assert torch.equal(thinned(whole, 10_000).train_images, whole.train_images)


def test_no_image_at_all_is_refused():
    with pytest.raises(DataError, match="per_class is 0; it must be at least 1"):
        thinned(load("digits"), 0)
