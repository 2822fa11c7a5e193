"""Batches keep order, count and place."""

import pytest
import torch

from winze.data import Batches, DataError, Preprocess, load

IMAGES = torch.arange(10 * 4, dtype=torch.uint8).view(10, 1, 2, 2)
LABELS = torch.arange(10)
PLAIN = Preprocess(None, (0.0,), (1.0,), channels=1)


def labels_in(batches):
    return torch.cat([y for _, y in batches]).tolist()


@pytest.mark.parametrize("size", [1, 3, 5, 10, 11])
def test_every_sample_comes_once_and_in_order(size):
    batches = Batches(IMAGES, LABELS, size=size)
    assert labels_in(batches) == list(range(10))
    assert torch.equal(torch.cat([x for x, _ in batches]), IMAGES)


@pytest.mark.parametrize("size", [1, 3, 5, 10, 11])
def test_the_length_is_the_number_of_batches(size):
    batches = Batches(IMAGES, LABELS, size=size)
    assert len(batches) == len(list(batches))


def test_batches_can_be_walked_through_again():
    batches = Batches(IMAGES, LABELS, size=4)
    assert labels_in(batches) == labels_in(batches)


def test_preprocessing_a_batch_equals_preprocessing_all():
    batches = Batches(IMAGES, LABELS, size=3, preprocess=PLAIN)
    assert torch.equal(torch.cat([x for x, _ in batches]), PLAIN(IMAGES))


def test_a_limit_takes_the_first_samples():
    assert labels_in(Batches(IMAGES, LABELS, size=4, limit=6)) == [0, 1, 2, 3, 4, 5]
    assert labels_in(Batches(IMAGES, LABELS, size=4, limit=60)) == list(range(10))


@pytest.mark.parametrize("pieces", [1, 2, 3, 7, 9])
@pytest.mark.parametrize("limit", [None, 10, 9])
def test_shards_together_are_the_whole_and_know_their_offset(pieces, limit):
    shards = [Batches(IMAGES, LABELS, size=2, limit=limit, shard=(i, pieces)) for i in range(pieces)]
    assert [label for shard in shards for label in labels_in(shard)] == list(range(limit or 10))
    assert [labels_in(shard)[0] for shard in shards] == [shard.offset for shard in shards]


def test_batches_land_on_the_asked_device():
    x, y = next(iter(Batches(IMAGES, LABELS, device="meta", preprocess=PLAIN)))
    assert x.device.type == y.device.type == "meta"


def test_a_data_set_unpacks_into_batches():
    data = load("digits")
    assert len(Batches(*data.train, size=100)) == 14


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"labels": LABELS[:9]}, "10 samples but 9 labels"),
        ({"size": 0}, "at least one sample"),
        ({"limit": 0}, "limit is 0"),
        ({"shard": (2, 2)}, "shard 2 of 2 does not exist"),
        ({"shard": (-1, 2)}, "shard -1 of 2"),
        ({"shard": (0, 0)}, "shard 0 of 0"),
        ({"shard": (0, 11)}, "no samples in this shard"),
        ({"images": IMAGES[:0], "labels": LABELS[:0]}, "no samples"),
    ],
)
def test_impossible_batches_are_refused(arguments, says):
    with pytest.raises(DataError, match=says):
        Batches(**({"images": IMAGES, "labels": LABELS} | arguments))
