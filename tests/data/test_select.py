"""Classes, halves and limits: which rows of a set are used."""

import numpy as np
import pytest
import torch

from winze.data import DataError, load
from winze.data.class_names import resolve, split_name
from winze.data.select import choose, halves, spread
from winze.data.sources.source import Source, held

NAMES = ("cat", "dog", "go-kart", "T-shirt/top", "Emu")
UNEVEN = np.repeat(np.arange(4), [50, 7, 2, 31]).astype(np.int64)


def source(train, test, classes=NAMES):
    parts = [
        None
        if labels is None
        else held(torch.arange(len(labels)).view(-1, 1).float(), np.array(labels, np.int64), "toy")
        for labels in (train, test)
    ]
    return Source("toy", classes, *parts, "nowhere")


@pytest.mark.parametrize(
    ("text", "name", "classes"),
    [
        ("cifar10", "cifar10", None),
        ("cifar10[0-4]", "cifar10", "0-4"),
        (" cifar10 [cat, dog] ", "cifar10", "cat, dog"),
        ("some/folder[1]", "some/folder", "1"),
        ("cifar10[]", "cifar10", ""),
    ],
)
def test_a_name_and_its_bracket_come_apart(text, name, classes):
    assert split_name(text) == (name, classes)


def test_a_hundred_classes_by_number_are_no_file_name():
    numbers = ",".join(map(str, range(100)))
    assert split_name(f"cifar100[{numbers}]") == ("cifar100", numbers)


def test_a_folder_keeps_the_brackets_in_its_name(tmp_path):
    folder = tmp_path / "data[1]"
    folder.mkdir()
    assert split_name(str(folder)) == (str(folder), None)


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        (None, [0, 1, 2, 3, 4]),
        ("0-2", [0, 1, 2]),
        ("4,0-1", [4, 0, 1]),
        ("2", [2]),
        ("dog,cat", [1, 0]),
        ("go-kart", [2]),
        ("emu, CAT", [4, 0]),
        ("T-shirt/top,1", [3, 1]),
        ([3, 1], [3, 1]),
        (["dog", 0], [1, 0]),
        (range(1, 4), [1, 2, 3]),
        (np.array([2, 0]).tolist(), [2, 0]),
    ],
)
def test_classes_are_numbers_ranges_and_names_in_the_order_given(wanted, numbers):
    assert resolve(wanted, NAMES, "toy") == numbers


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ("5", r"class 5 is out of range, it has 5 \(0-4\)"),
        ("3-9", "class 9 is out of range"),
        ("7-9", "class 7 is out of range"),
        ([-1], "class -1 is out of range"),
        ("4-2", "runs backwards"),
        ("0,0", r"class 0 \(cat\) was asked for twice"),
        ("0-2,cat", "asked for twice"),
        ("", "empty class name"),
        ("cat,,dog", "empty class name"),
        ([], "no classes were asked for"),
        ("dgo", "did you mean dog"),
        (["1"], "no class '1'"),
        ("0:3", "no class '0:3'"),
    ],
)
def test_classes_that_make_no_sense_are_refused(wanted, says):
    with pytest.raises(DataError, match=says):
        resolve(wanted, NAMES, "toy")


def test_names_that_differ_in_capitals_only_must_be_exact():
    assert resolve("Cat", ("cat", "Cat"), "toy") == [1]
    with pytest.raises(DataError, match="no class 'CAT'"):
        resolve("CAT", ("cat", "Cat"), "toy")


def test_halves_hold_every_sample_once():
    first, second = halves(UNEVEN)
    assert sorted([*first, *second]) == list(range(len(UNEVEN)))


def test_halves_are_even_class_by_class():
    first, second = halves(UNEVEN)
    assert np.bincount(UNEVEN[first]).tolist() == [25, 4, 1, 16]
    assert np.bincount(UNEVEN[second]).tolist() == [25, 3, 1, 15]


def test_halves_are_the_same_every_time_and_not_the_file_order():
    assert np.array_equal(halves(UNEVEN)[0], halves(UNEVEN)[0])
    assert not np.array_equal(halves(UNEVEN)[0][:25], np.arange(25))


@pytest.mark.parametrize("limit", [4, 5, 10, 45, 89, 90, 1000])
def test_a_limit_keeps_its_promise_and_loses_no_class(limit):
    rows = spread(UNEVEN, limit, "toy")
    assert len(rows) == min(limit, len(UNEVEN))
    assert set(UNEVEN[rows]) == {0, 1, 2, 3}
    assert np.array_equal(rows, np.unique(rows))


def test_a_limit_keeps_the_proportions():
    counts = np.bincount(UNEVEN[spread(UNEVEN, 45, "toy")])
    np.testing.assert_allclose(counts, np.bincount(UNEVEN) / 2, atol=1)


def test_a_limit_below_the_number_of_classes_is_refused():
    with pytest.raises(DataError, match="below the number of classes, 4"):
        spread(UNEVEN, 3, "toy")


def test_common_classes_are_used_and_numbered_anew():
    chosen = choose(source([0, 2, 2, 4], [4, 2, 1, 3]))
    assert chosen.classes == ("go-kart", "Emu")
    assert chosen.train.labels.tolist() == [0, 0, 1]
    assert chosen.test.labels.tolist() == [1, 0]
    assert chosen.test.read()[0].flatten().tolist() == [0.0, 1.0]
    assert chosen.notes == ("train has 3 classes and test 4: the 2 common ones are used, numbered anew",)


@pytest.mark.parametrize("parts", [(None, [0, 1, 1, 0]), ([0, 1, 1, 0], None), ([], [0, 1, 1, 0]), ([0, 1, 1, 0], [])])
def test_a_single_part_becomes_two(parts):
    chosen = choose(source(*parts, classes=("a", "b")))
    assert sorted(chosen.train.labels) == sorted(chosen.test.labels) == [0, 1]
    assert "half and half by class, seed 0" in chosen.notes[0]


@pytest.mark.parametrize(
    ("parts", "wanted", "says"),
    [
        (([0, 1], [2, 3]), None, "0 class with both train and test samples"),
        (([0, 1], [1, 2]), None, "1 class with both"),
        (([0, 0], [0, 0]), None, "1 class"),
        ((None, [0, 0, 0]), None, "1 class"),
        ((None, [0, 1, 2]), None, "0 class"),
        (([0, 1], [0, 1]), "0", "1 class"),
        (([0, 1], [0, 1, 2]), "0-2", r"class 2 \(go-kart\) has no train samples; classes with both: cat, dog"),
        (([0, 1, 2], [0, 1]), "2,0", "has no test samples"),
    ],
)
def test_fewer_than_two_usable_classes_are_refused(parts, wanted, says):
    with pytest.raises(DataError, match=says):
        choose(source(*parts), wanted)


def test_no_samples_at_all_are_refused():
    with pytest.raises(DataError, match="no samples"):
        source([], None)


def test_brackets_and_the_argument_pick_the_same_classes():
    one, other = load("digits[3,1]"), load("digits", classes=[3, 1])
    assert torch.equal(one.train_images, other.train_images)
    assert torch.equal(one.test_labels, other.test_labels)
    assert one.classes == ("3", "1")
    assert "2 of 10 classes, numbered anew: 3, 1" in one.notes


def test_brackets_and_the_argument_together_are_refused():
    with pytest.raises(DataError, match="give one of them"):
        load("digits[3,1]", classes=[3, 1])


def test_a_limit_is_noted_and_holds_for_both_parts():
    data = load("digits", limit=100)
    assert (len(data.train_labels), len(data.test_labels)) == (100, 100)
    assert "limit 100: 100 of 1347 train, 100 of 450 test, seed 0" in data.notes
