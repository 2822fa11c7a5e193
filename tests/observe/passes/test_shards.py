"""A scan in shards gives what one pass gives.

Accumulators that were merged have added the same float64 numbers in another order, hence 1e-10; whatever belongs to
one sample is the same bit for bit.
"""

import numpy as np
import pytest
import torch
from nets import ResidualMLP, ResNet
from torch.utils.data import DataLoader, TensorDataset

import winze
from winze.data import Batches
from winze.lab.workers.processes import Processes
from winze.observe.passes.feed import Feed
from winze.observe.passes.pieces import cut


class Row:
    """A crew that works in this process, last task first, by way of the same bytes."""

    def __init__(self, size):
        self.size, self.tasks = size, 0

    def each(self, work, tasks):
        self.tasks += len(tasks)
        for index in reversed(range(len(tasks))):
            yield index, work(tasks[index])


def samples(n, seed, classes=3):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (n,), generator=generator)
    return torch.randn(n, 3, 2, 2, generator=generator) + labels[:, None, None, None], labels


def assert_same(sharded, whole, exact=False):
    tolerance = 0.0 if exact else 1e-10
    assert [(row.place, row.measure, row.n, row.note) for row in sharded.readings.rows] == [
        (row.place, row.measure, row.n, row.note) for row in whole.readings.rows
    ]
    for one, other in zip(sharded.readings.rows, whole.readings.rows, strict=True):
        if other.measure != "features":
            assert one.value == pytest.approx(other.value, rel=tolerance, abs=tolerance, nan_ok=True), other.measure
    assert sharded.readings.arrays.keys() == whole.readings.arrays.keys()
    for key, array in whole.readings.arrays.items():
        if key.startswith("correct/") or exact:
            assert np.array_equal(sharded.readings.arrays[key], array), key
        elif key.startswith("probe/"):  # stored in float32
            np.testing.assert_allclose(sharded.readings.arrays[key], array, rtol=1e-6, atol=1e-9)
        elif not key.startswith("embedding/"):
            np.testing.assert_allclose(sharded.readings.arrays[key], array, rtol=1e-10, atol=1e-12, err_msg=key)
    told = {"seconds"}
    assert {k: v for k, v in sharded.readings.conventions.items() if k not in told} == {
        k: v for k, v in whole.readings.conventions.items() if k not in told
    }


def as_pair(x, y):
    return x, y


def as_batches(x, y):
    return Batches(x, y, size=20)


def as_list(x, y):
    return [(x[i : i + 20], y[i : i + 20]) for i in range(0, len(y), 20)]


def as_loader(x, y):
    return DataLoader(TensorDataset(x, y), 20)


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    return ResidualMLP()


@pytest.mark.parametrize(
    ("kind", "pieces"), [(as_pair, 2), (as_pair, 50), (as_batches, 3), (as_list, 2), (as_loader, 3)]
)
def test_a_scan_in_shards_equals_one_pass(net, kind, pieces):
    data = kind(*samples(207, 1)), kind(*samples(102, 2))  # a last batch of 2 waits for four samples in CKA
    crew = Row(pieces)
    whole = winze.scan(net, *data, batch=20)
    assert_same(winze.scan(net, *data, batch=20, crew=crew), whole)
    assert crew.tasks == min(pieces, 11) + min(pieces, 6)


def test_convolutions_ood_data_and_embeddings_come_in_shards_too():
    torch.manual_seed(0)
    net, x, y = ResNet(), *samples(90, 1)
    data, ood = ((x, y), samples(61, 2)), {"other": (samples(80, 3), samples(50, 4))}
    options = {"batch": 16, "embed": "pca", "places": "layers"}
    whole = winze.scan(net, *data, ood, **options)
    sharded = winze.scan(net, *data, ood, **options, crew=Row(3))
    assert_same(sharded, whole)
    embeddings = [key for key in whole.readings.arrays if key.startswith("embedding/")]
    assert embeddings
    for key in embeddings:  # the same samples in the same order
        np.testing.assert_allclose(sharded.readings.arrays[key], whole.readings.arrays[key], rtol=1e-4, atol=1e-4)


def test_held_out_tenths_go_by_position_among_the_classes_that_count(net):
    x, y = samples(203, 1, classes=5)
    train = (x, y)
    test = samples(90, 2, classes=3)  # so that two classes of train are left out
    whole = winze.scan(net, train, test, batch=20)
    assert whole.readings.conventions["notes"]
    assert_same(winze.scan(net, train, test, batch=20, crew=Row(3)), whole)


def test_batches_too_small_for_cka_stay_together(net):
    data = samples(24, 1), samples(17, 2)
    for batch in (2, 3):
        assert_same(winze.scan(net, *data, batch=batch, crew=Row(4)), winze.scan(net, *data, batch=batch))


def test_places_in_groups_come_in_shards_too(net):
    data = samples(60, 1), samples(50, 2)
    few = {"batch": 16, "memory": 3 * 8 * 10 * 10 * 2}
    assert_same(winze.scan(net, *data, **few, crew=Row(2)), winze.scan(net, *data, **few))


@pytest.mark.parametrize("measures", [("probe",), ("cka",), ("rank", "norm")])
def test_single_measures_come_in_shards_too(net, measures):
    data = samples(60, 1), samples(50, 2)
    whole = winze.scan(net, *data, batch=16, measures=measures)
    assert_same(winze.scan(net, *data, batch=16, measures=measures, crew=Row(2)), whole)


def test_adam_probes_see_the_same_features_in_the_same_order(net):
    data = samples(70, 1), samples(50, 2)
    options = {"probe": "adam", "measures": ("probe",), "batch": 16}
    assert_same(winze.scan(net, *data, **options, crew=Row(3)), winze.scan(net, *data, **options), exact=True)


@pytest.mark.parametrize("kind", [as_pair, as_batches, as_list, as_loader])
def test_shards_end_where_batches_end_and_know_what_comes_before(kind):
    feed = Feed(kind(*samples(95, 1)), "data", batch=20)
    pieces = cut(feed, 3)
    whole = [(batch.offset, batch.labels.tolist()) for batch in feed]
    assert [(batch.offset, batch.labels.tolist()) for piece in pieces for batch in piece] == whole
    assert [piece.offset for piece in pieces] == [0, 20, 60]


def test_a_shard_of_a_shard_counts_on():
    half = Batches(*samples(80, 1), size=10, shard=(1, 2))
    assert [piece.offset for piece in cut(Feed(half, "data"), 2)] == [40, 60]


def test_a_shard_carries_its_own_samples_only():
    images, labels = samples(64, 1)
    first = cut(Feed((images, labels), "data", batch=16), 4)[1].data
    assert first[0].untyped_storage().nbytes() == images[:16].nbytes


@pytest.mark.parametrize(
    "data",
    [
        DataLoader(TensorDataset(*samples(40, 1)), 10, shuffle=True),
        [(x, y) for x, y in (samples(5, 1), samples(7, 2), samples(5, 3))],
        type("Stream", (), {"__iter__": lambda self: iter([samples(20, 1)])})(),
    ],
)
def test_data_that_cannot_be_cut_is_refused(net, data):
    with pytest.raises(ValueError, match="cannot be cut into shards"):
        winze.scan(net, data, samples(40, 2), crew=Row(2))


def test_a_network_that_cannot_be_sent_is_refused():
    net = ResidualMLP()
    net.secret = lambda x: x
    with pytest.raises(ValueError, match="ResidualMLP cannot be sent to another process"):
        winze.scan(net, samples(40, 1), samples(40, 2), batch=10, crew=Row(2))


def test_nan_features_are_told_as_in_one_pass(net):
    x, y = samples(60, 1)
    x[45] = torch.nan
    with pytest.raises(ValueError, match=r"1 of \d+ samples hold NaN") as whole:
        winze.scan(net, (x, y), samples(40, 2), batch=10)
    with pytest.raises(ValueError, match="NaN") as sharded:
        winze.scan(net, (x, y), samples(40, 2), batch=10, crew=Row(3))
    assert str(sharded.value) == str(whole.value)


@pytest.mark.slow
def test_two_real_processes_give_what_one_pass_gives():
    torch.manual_seed(0)
    net, data = winze.rewire(ResNet(), winze.DecayedIdentity(0.6)), (samples(130, 1), samples(90, 2))
    threads = torch.get_num_threads()
    with Processes(2, threads=threads) as crew:  # another number of threads would round features differently
        sharded = winze.scan(net, *data, batch=20, crew=crew)
    assert_same(sharded, winze.scan(net, *data, batch=20))
