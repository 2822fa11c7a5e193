"""Class subsets and sequences of tasks."""

import numpy as np
import pytest
import torch

from winze.data import DataError, Dataset, load, split_classes, subset
from winze.data.class_names import resolve


def letters(classes=10, each=3):
    """A set whose every image shows the number of its class, and its row."""
    labels = torch.arange(classes * each) % classes
    images = torch.stack((labels, torch.arange(len(labels)))).T.to(torch.uint8).view(-1, 1, 1, 2)
    names = tuple("abcdefghij"[:classes])
    return Dataset("letters", images, labels, images.flip(0), labels.flip(0), names, "here", ("made up",))


def test_tasks_take_the_classes_in_turn():
    tasks = split_classes(letters(), (5, 5))
    assert [task.classes for task in tasks] == [tuple("abcde"), tuple("fghij")]
    assert [task.numbers for task in tasks] == [(0, 1, 2, 3, 4), (5, 6, 7, 8, 9)]
    assert [task.number for task in tasks] == [0, 1]


@pytest.mark.parametrize("classes", [(5, 5), (3, 7), (2, 2, 2, 2, 2), (4,), ("a,c", [8, 1, 3])])
def test_labels_are_numbered_from_0_within_a_task_and_images_go_with_them(classes):
    for task in split_classes(letters(), classes):
        for images, labels in (task.train, task.test):
            assert torch.equal(torch.tensor(task.numbers)[labels], images[:, 0, 0, 0].long())
            assert set(labels.tolist()) == set(range(len(task.classes)))


def test_samples_stay_in_the_order_of_the_set():
    task = split_classes(letters(), ([7, 2],))[0]
    assert task.train_images[:, 0, 0, 1].tolist() == [2, 7, 12, 17, 22, 27]


def test_every_sample_is_in_exactly_one_task():
    tasks = split_classes(letters(), (2, 3, 5), seed=4)
    rows = torch.cat([task.train_images[:, 0, 0, 1] for task in tasks])
    assert sorted(rows.tolist()) == list(range(30))


def test_a_seed_draws_the_order_of_classes():
    orders = [[t.numbers for t in split_classes(letters(), (5, 5), seed=seed)] for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    drawn = np.random.default_rng(0).permutation(10).tolist()
    assert orders[0] == [tuple(drawn[:5]), tuple(drawn[5:])]


def test_a_task_says_where_it_comes_from():
    task = split_classes(letters(), (3, 7))[1]
    assert task.notes == ("made up", "task 2 of 2: d, e, f, g, h, i, j")
    assert task.name == "letters"


def test_for_one_head_the_labels_are_those_of_the_whole_set():
    whole = letters()
    shared = split_classes(whole, (5, 5), seed=2)[1].for_one_head()
    assert shared.classes == whole.classes
    for images, labels in (shared.train, shared.test):
        assert torch.equal(labels, images[:, 0, 0, 0].long())


def test_a_task_moved_to_a_device_is_still_a_task():
    assert split_classes(letters(), (5, 5))[1].to("cpu").number == 1


def test_a_subset_is_what_loading_those_classes_gives():
    picked, loaded = subset(load("digits"), "5-9"), load("digits[5-9]")
    assert picked.classes == loaded.classes
    for ours, theirs in zip((*picked.train, *picked.test), (*loaded.train, *loaded.test), strict=True):
        assert torch.equal(ours, theirs)


def test_classes_are_picked_by_name_in_the_order_given():
    picked = subset(letters(), ["c", "a"])
    assert picked.classes == ("c", "a")
    assert set(picked.train_images[picked.train_labels == 0][:, 0, 0, 0].tolist()) == {resolve("c", "abc", "x")[0]}


@pytest.mark.parametrize(
    ("classes", "seed", "says"),
    [
        ((5, 6), None, r"tasks of \(5, 6\) classes need 11 classes, it has 10"),
        ((9, 1), None, "at least two classes"),
        ((), None, "at least two classes"),
        (([0, 1], [1, 2]), None, r"class 1 \(b\) is in two tasks"),
        (([0, 1, 0],), None, r"class 0 \(a\) was asked for twice"),
        (([0, 1], [2]), None, "at least two are needed"),
        (("a,b", "x,c"), None, "no class 'x'"),
        (([0, 10],), None, "out of range"),
        (([0, 1],), 3, "a seed orders classes"),
        ((5, [1, 2]), None, "sizes or classes"),
    ],
)
def test_tasks_that_cannot_be_are_refused(classes, seed, says):
    with pytest.raises(DataError, match=says):
        split_classes(letters(), classes, seed)
