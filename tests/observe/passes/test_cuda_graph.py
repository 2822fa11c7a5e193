"""A forward that is recorded on a GPU gives the readings of the plain one; on the CPU a stand-in repeats it instead."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from nets import ResNet, mlp
from samples import images, lively, loader, outputs_of, rows
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import winze
from winze.measure import CKA, CentredBatch
from winze.measure.streaming import gram, moments_table
from winze.observe.passes import cuda_graph as replay
from winze.observe.passes import reduction
from winze.observe.passes.feed import Batch, Feed
from winze.observe.passes.probes import features_of
from winze.observe.passes.reader import Reader
from winze.observe.places.find_places import find_spots

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")
BATCH = 20
TRAIN, TEST = images(20 * BATCH), images(15 * BATCH + 7, seed=1)


class Recorder:
    """Repeats the work into the memory of its first results, as a recording on a GPU does."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        stuck: bool = False,
        error: Exception | None = None,
        gathered: int | None = None,
    ) -> None:
        self.recorded = self.replayed = self.done = 0
        self.stuck, self.error = stuck, error
        monkeypatch.setattr(replay, "DEVICES", ("cpu",))
        monkeypatch.setattr(replay, "record", self.record)
        if gathered is not None:  # samples, before moments and class means take them
            monkeypatch.setattr(moments_table, "DEVICES", ("cpu",))
            monkeypatch.setattr(moments_table, "GATHERED", gathered)

    def record(
        self, work: Callable[[], Any], device: torch.device
    ) -> tuple[Callable[[], None], Any, Callable[[], None]]:
        if self.error is not None:
            raise self.error
        self.recorded += 1
        found = work()

        def again() -> None:
            self.replayed += 1
            if self.stuck:
                return
            for old, new in zip(*(pytree.tree_leaves(results) for results in (found, work())), strict=True):
                if isinstance(old, Tensor):
                    old.copy_(new)

        def done() -> None:
            self.done += 1

        return again, found, done


def undecided() -> nn.Module:
    """A network that takes its samples for each of the classes now and then."""
    net = lively(ResNet())
    with torch.no_grad():
        net.head.bias -= net(TEST[0]).mean(0)
        assert net(TEST[0]).argmax(1).bincount(minlength=3).min() > 20
    return net


def read(net: nn.Module, **options: Any) -> winze.Scan:
    return winze.scan(net, TRAIN, TEST, ood={"other": (TEST, TRAIN)}, batch=BATCH, progress=False, **options)


def check_same(one: winze.Scan, other: winze.Scan) -> None:
    assert len(one.readings.rows) == len(other.readings.rows) > 4
    for a, b in zip(one.readings.rows, other.readings.rows, strict=True):
        assert (a.measure, a.place, a.data) == (b.measure, b.place, b.data)
        assert a.value == pytest.approx(b.value, rel=1e-6, abs=1e-9, nan_ok=True), a
    for name, array in one.readings.arrays.items():
        np.testing.assert_allclose(array, other.readings.arrays[name], rtol=1e-5, atol=1e-8, err_msg=name)


@pytest.mark.parametrize(
    ("options", "gathered"),
    [
        ({}, None),
        ({}, 3 * BATCH),
        ({"pool": "flatten"}, None),
        ({"pool": 2}, 3 * BATCH),
        ({"embed": "pca"}, None),
        ({"pool": "flatten", "max_features": 10, "probe": "adam"}, None),
    ],
)
def test_a_scan_by_recordings_reads_the_same(
    options: dict[str, Any], gathered: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = undecided()
    plain = read(net, **options)
    recorder = Recorder(monkeypatch, gathered=gathered)
    recorded = read(net, **options)
    assert recorder.recorded == recorder.done >= 4  # train and test, of two data sets
    assert recorder.replayed >= 2 * (20 + 15) - 4 * (replay.BEFORE + 2)  # two replays each are checks
    check_same(plain, recorded)


@pytest.mark.parametrize("sizes", [[BATCH] * 15 + [2], [BATCH] * 8 + [2] + [BATCH] * 8, [2] + [BATCH] * 13 + [1, 1]])
def test_batches_too_small_for_cka_wait_beside_recorded_ones(sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = images(sum(sizes))
    batches = list(zip(x.split(sizes), y.split(sizes), strict=True))
    net, shares = undecided(), []
    plain = winze.scan(net, None, batches, progress=False)
    Recorder(monkeypatch)
    add = CKA.add
    monkeypatch.setattr(CKA, "add", lambda cka, *args: shares.append(args[2]) or add(cka, *args))
    recorded = winze.scan(net, None, batches, progress=False)
    waited = 1 if 2 in sizes[1:-1] else 0  # the batch behind the small one is taken with what waits
    assert shares == [BATCH] * (sizes.count(BATCH) - (replay.BEFORE - (sizes[0] == 2)) - waited)
    check_same(plain, recorded)


def test_batches_that_are_all_too_small_for_cka_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = images(3 * 14)
    batches, net = list(zip(x.split(3), y.split(3), strict=True)), undecided()
    plain = winze.scan(net, None, batches, progress=False)
    recorder = Recorder(monkeypatch)
    check_same(plain, winze.scan(net, None, batches, progress=False))
    assert recorder.recorded == 1


def test_places_in_groups_are_recorded_group_by_group(monkeypatch: pytest.MonkeyPatch) -> None:
    net = undecided()
    plain = read(net, memory=1)
    recorder = Recorder(monkeypatch)
    check_same(plain, read(net, memory=1))
    assert recorder.recorded > 4


def test_a_recording_keeps_what_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Indices that others may drop from the cache while the recording is replayed."""
    found: list[Any] = []
    read_at: dict[int, list[Tensor]] = {}
    recorder, above = Recorder(monkeypatch), gram._above
    record = recorder.record

    def watched(places: int, n: int, device: torch.device) -> Tensor:
        read_at.setdefault(n, []).append(above(places, n, device))
        return read_at[n][-1]

    monkeypatch.setattr(gram, "_above", watched)
    monkeypatch.setattr(replay, "record", lambda *args: found.append(record(*args)) or found[-1])
    read(undecided(), measures=["cka"])
    (_, (_, _, reduced), _), *_ = found
    held = {id(leaf) for leaf in pytree.tree_leaves(reduced)}
    assert {id(index) for index in read_at[BATCH]} <= held


def test_wide_features_enter_cka_outside_the_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    net = undecided()
    plain = read(net)
    recorder = Recorder(monkeypatch)
    monkeypatch.setattr(reduction, "WIDE", max(map(int, plain.curve("features"))))  # of the widest place only
    monkeypatch.setattr(CKA, "add", lambda *args: pytest.fail("a GPU would have waited"))
    check_same(plain, read(net))
    assert recorder.recorded == 4


def test_features_are_read_before_an_in_place_operation_by_recordings_too(monkeypatch: pytest.MonkeyPatch) -> None:
    net = nn.Sequential(
        nn.Linear(12, 5), nn.ReLU(inplace=True), nn.Linear(5, 4), nn.ReLU(inplace=True), nn.Linear(4, 3)
    )
    monkeypatch.setattr("winze.observe.passes.reader.AT_ONCE", 1)  # each place is handed on by itself, without a copy
    data, options = rows(15 * BATCH), {"places": ["0", "2"], "pool": "flatten", "batch": BATCH, "progress": False}
    plain = winze.scan(net, data, data, **options)
    Recorder(monkeypatch)
    check_same(plain, winze.scan(net, data, data, **options))


def test_probes_by_adam_and_the_last_layer_are_read_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    net = undecided()
    plain = read(net, probe="adam", measures=["probe", "collapse"])
    recorder = Recorder(monkeypatch)
    check_same(plain, read(net, probe="adam", measures=["probe", "collapse"]))
    assert recorder.recorded > 4


def test_probes_that_learn_from_a_stream_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    net = undecided()
    train, test = loader(TRAIN, BATCH)[: replay.WORTH], loader(TEST, BATCH)
    few = {"places": ["blocks.0", "blocks.2"], "probe": "adam", "measures": ["probe"], "memory": 1, "progress": False}
    monkeypatch.setattr("winze.observe.passes.probes.EPOCHS", 3)
    plain = winze.scan(net, train, test, **few)
    recorder = Recorder(monkeypatch)
    recorded = winze.scan(net, train, test, **few)
    assert recorder.recorded >= 3  # in each epoch anew
    check_same(plain, recorded)


class Normalising(nn.Module):
    """Changes its input in place."""

    def __init__(self) -> None:
        super().__init__()
        self.net = undecided()

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x.sub_(1).div_(2))


@pytest.mark.parametrize("stuck", [False, True])
def test_a_forward_that_changes_its_input_reads_each_batch_once(stuck: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    class Fresh:
        """Batches that are copied each time, as from a disk."""

        labels = TEST[1]

        def __len__(self) -> int:
            return 16

        def __iter__(self) -> Any:
            return iter([(x.clone(), y) for x, y in loader(TEST, BATCH)])

    net = Normalising()
    plain = winze.scan(net, None, Fresh(), measures=["rank", "norm", "cka"], progress=False)
    recorder = Recorder(monkeypatch, stuck=stuck)
    recorded = winze.scan(net, None, Fresh(), measures=["rank", "norm", "cka"], progress=False)
    assert recorder.recorded == 1
    check_same(plain, recorded)


def test_a_network_with_somebodys_hooks_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    net, calls = undecided(), []
    net.blocks[0].register_forward_hook(lambda *_: calls.append(1))
    recorder = Recorder(monkeypatch)
    winze.scan(net, None, TEST, measures=["rank"], batch=BATCH, progress=False)
    assert recorder.recorded == 0
    assert len(calls) >= 16


def test_features_that_are_kept_are_each_batch_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    net, (x, y) = undecided(), TEST
    recorder = Recorder(monkeypatch)
    reader = Reader(net, find_spots(net, x[:2], ["blocks.0", "blocks.2"]), recorded=True)
    found, _ = features_of(reader, Feed((x, y), "data", BATCH, torch.device("cpu")))
    torch.testing.assert_close(found[0], outputs_of(net, "blocks.0", x).mean((2, 3)), rtol=1e-4, atol=1e-5)
    assert recorder.recorded == 1


def test_a_recording_that_gives_other_numbers_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    net = undecided()
    plain = read(net)
    recorder = Recorder(monkeypatch, stuck=True)
    check_same(plain, read(net))
    assert recorder.recorded == 4
    assert recorder.replayed == 4  # the first check fails


def silent_after(first: int, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """A recorder whose replays write the first outputs only, all others holding what was there at the capture."""
    recorder = Recorder(monkeypatch)
    record = recorder.record

    def partly(work: Callable[[], Any], device: torch.device) -> Any:
        again, found, done = record(work, device)
        late = [leaf for leaf in pytree.tree_leaves(found) if isinstance(leaf, Tensor)][first:]

        def replayed() -> None:
            held = [leaf.clone() for leaf in late]
            again()
            for leaf, old in zip(late, held, strict=True):
                leaf.copy_(old)

        return replayed, found, done

    monkeypatch.setattr(replay, "record", partly)
    return recorder


@pytest.mark.parametrize("written", [0, 1, 2])
def test_outputs_that_a_replay_does_not_write_are_never_read(written: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where the batches compared are equal, so that what was there at the capture is right for both."""
    x, y = TEST
    first = BATCH * (replay.BEFORE + 2)
    x = torch.cat([x[:BATCH].repeat(replay.BEFORE + 2, 1, 1, 1), x[first:]])
    net, options = undecided(), {"measures": ["rank", "norm", "cka"], "batch": BATCH, "progress": False}
    plain = winze.scan(net, None, (x, y), **options)
    recorder = silent_after(written, monkeypatch)
    check_same(plain, winze.scan(net, None, (x, y), **options))
    assert recorder.recorded == recorder.replayed == 1  # one check, and no replay after it


def test_spoiling_leaves_constants_and_restores_what_it_took_for_an_output() -> None:
    constant, index = torch.ones(3), torch.arange(3)
    out, choice = torch.zeros(3), torch.zeros(3, dtype=torch.long)
    known = [constant, torch.zeros(3), torch.zeros(3, dtype=torch.long), index.clone()]
    before = replay.spoil([constant, out, choice, index], (known, known))
    assert constant.equal(torch.ones(3))
    assert out.isnan().all()
    assert choice.equal(torch.ones(3, dtype=torch.long))  # zeros would be what it is to show
    assert [(leaf is one, int(copy.sum())) for (leaf, copy), one in zip(before, (out, choice, index), strict=True)] == [
        (True, 0),
        (True, 0),
        (True, 3),
    ]


class FakeGraph:
    """A capture that notes whether anything was launched, and warns as PyTorch does where nothing was."""

    def __init__(self, launches: bool) -> None:
        self.launches, self.open = launches, False

    def begin(self) -> None:
        self.open = True

    def end(self) -> None:
        self.open = False
        if not self.launches:
            warnings.warn("The CUDA Graph is empty. This usually means that the graph was ...", stacklevel=1)


def test_an_empty_graph_raises_instead_of_warning() -> None:
    full, empty = FakeGraph(True), FakeGraph(False)
    assert replay.captured(lambda: 3, full.begin, full.end) == 3
    with pytest.raises(replay.EmptyGraphError, match="nothing was launched"):
        replay.captured(lambda: 3, empty.begin, empty.end)
    assert not empty.open


def test_work_that_raises_before_its_first_kernel_ends_the_capture_with_its_own_error() -> None:
    graph = FakeGraph(False)

    def work() -> None:
        raise RuntimeError("a generator that is not registered")

    with pytest.raises(RuntimeError, match="not registered"):
        replay.captured(work, graph.begin, graph.end)
    assert not graph.open


def test_a_scan_whose_graph_is_empty_runs_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    net = undecided()
    plain = read(net)
    recorder = Recorder(monkeypatch, error=replay.EmptyGraphError("nothing was launched"))
    check_same(plain, read(net))
    assert recorder.replayed == 0


def test_a_network_that_cannot_be_recorded_runs_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    net = undecided()
    plain = read(net)
    recorder = Recorder(monkeypatch, error=RuntimeError("operation not permitted when stream is capturing"))
    check_same(plain, read(net))
    assert recorder.recorded == 0


def test_few_batches_and_what_is_large_are_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(monkeypatch)
    net = undecided()
    winze.scan(net, TRAIN, TEST, batch=100, progress=False)
    assert recorder.recorded == 0
    monkeypatch.setattr("winze.observe.passes.reader.SMALL", 100)
    read(net)
    assert recorder.recorded == 0


class Scaled(nn.Module):
    """Takes a number beside the images."""

    def __init__(self) -> None:
        super().__init__()
        self.net = undecided()

    def forward(self, x: Tensor, scale: float) -> Tensor:
        return self.net(x * scale)


def test_batches_of_another_kind_run_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Scaled()
    batches = [({"x": x, "scale": 1.0 + (i == 11)}, y) for i, (x, y) in enumerate(loader(TEST, BATCH))]
    plain = winze.scan(net, None, batches, measures=["rank", "norm", "cka"], progress=False)
    recorder = Recorder(monkeypatch)
    recorded = winze.scan(net, None, batches, measures=["rank", "norm", "cka"], progress=False)
    assert recorder.replayed == 2 + (15 - replay.BEFORE - 2 - 1)  # two checks; neither the odd one nor the short one
    assert [row.value for row in recorded.readings.rows] == pytest.approx([row.value for row in plain.readings.rows])


class WithHead(nn.Module):
    """Convolutions, and two linear layers of one width behind which ReLUs work in place."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(True), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Sequential(nn.Linear(8, 8), nn.ReLU(True), nn.Linear(8, 8), nn.ReLU(True), nn.Linear(8, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))


@pytest.mark.parametrize("by_recording", [False, True])
def test_a_grid_leaves_vectors_as_they_were_before_an_in_place_operation(
    by_recording: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(monkeypatch)
    net, (x, y) = WithHead(), TEST
    found: list[tuple[int, Tensor]] = []

    def take(first: int, block: CentredBatch, batch: Batch) -> None:
        found.append((first, block.features.clone()))

    names = ["features.0", "head.0", "head.2"]
    reader = Reader(net, find_spots(net, x[:2], names), 2, recorded=by_recording)
    for _ in reader.run(Feed((x, y), "data", BATCH, torch.device("cpu")), take, ""):
        pass
    assert recorder.recorded == by_recording
    both = torch.cat([features for first, features in found if first == 1], 1)
    for features, name in zip(both, names[1:], strict=True):
        want = outputs_of(net, name, x)
        assert (want < 0).any()
        torch.testing.assert_close(features, want)


def test_what_two_batches_must_share(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(4, 3)
    assert replay.kind(((x,), {})) is None  # on the CPU nothing is recorded
    monkeypatch.setattr(replay, "DEVICES", ("cpu",))
    assert replay.kind(((x,), {})) == replay.kind(((x + 1,), {}))
    others = [((x[:3],), {}), ((x.double(),), {}), ((x.T.contiguous().T,), {}), ((x, 1), {}), ((), {"x": x})]
    assert all(replay.kind(other) not in (None, replay.kind(((x,), {}))) for other in others)
    assert replay.kind(((x, object()), {})) is None


def test_a_feature_that_is_off_shows_beside_one_that_is_far_larger() -> None:
    right = torch.stack([1000 * torch.rand(8), torch.rand(8)], 1)[None]
    stale = torch.stack([right[0, :, 0], right[0, :, 1].flip(0)], 1)[None]
    assert replay.alike(([(0, right)], None), ([(0, right * (1 + 1e-5))], None))
    assert not replay.alike(([(0, stale)], None), ([(0, right)], None))
    broken = right.clone()
    broken[0, 0, 0] = torch.nan
    assert replay.alike(([(0, broken)], None), ([(0, broken)], None))
    assert not replay.alike(([(0, broken)], None), ([(0, right)], None))


@needs_gpu
@pytest.mark.parametrize("pool", ["mean", "flatten", 2])
def test_a_gpu_reads_the_same_by_recordings(pool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    net = undecided().cuda()
    recorded: list[int] = []
    real = replay.record

    def counted(work: Callable[[], Any], device: torch.device) -> Any:
        found = real(work, device)
        recorded.append(1)
        return found

    monkeypatch.setattr(replay, "record", counted)
    quick = read(net, pool=pool)
    assert len(recorded) == 4
    monkeypatch.setattr(replay, "DEVICES", ())
    slow = read(net, pool=pool)
    assert len(recorded) == 4
    for a, b in zip(quick.readings.rows, slow.readings.rows, strict=True):
        assert a.value == pytest.approx(b.value, rel=1e-3, abs=1e-4, nan_ok=True), a


@needs_gpu
def test_a_gpu_runs_what_cannot_be_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    class Looking(nn.Module):
        """Looks at its own numbers."""

        def __init__(self) -> None:
            super().__init__()
            self.net = mlp(width=8, depth=3)

        def forward(self, x: Tensor) -> Tensor:
            return self.net(x if float(x.sum()) > 1e9 else x + 1)

    net, data = Looking().cuda(), rows(20 * BATCH)
    monkeypatch.setattr(replay, "record", lambda work, device: pytest.fail("it waits for the GPU"))
    quick = winze.scan(net, data, data, batch=BATCH, progress=False)
    monkeypatch.setattr(replay, "DEVICES", ())
    slow = winze.scan(net, data, data, batch=BATCH, progress=False)
    assert [row.value for row in quick.readings.rows] == pytest.approx(
        [row.value for row in slow.readings.rows], rel=1e-4, abs=1e-6, nan_ok=True
    )
    torch.cuda.empty_cache()
    assert torch.rand(1, device="cuda").is_cuda


@needs_gpu
def test_memory_of_recordings_is_used_again() -> None:
    net = undecided().cuda()
    held = []
    for _ in range(4):
        read(net)
        torch.cuda.synchronize()
        held.append(torch.cuda.memory_reserved())
    assert held[3] <= held[1] + (8 << 20)


@needs_gpu
def test_a_gpu_reads_right_when_others_empty_the_cache_of_indices(monkeypatch: pytest.MonkeyPatch) -> None:
    net, add, junk = undecided().cuda(), CKA.add, []

    def disturbed(cka: CKA, *args: Any) -> CKA:
        gram._above.cache_clear()
        junk.extend(torch.full((size,), -1, dtype=torch.int32, device="cuda") for size in (190, 380, 570, 760))
        return add(cka, *args)

    monkeypatch.setattr(CKA, "add", disturbed)
    quick = read(net, measures=["cka"])
    assert junk
    monkeypatch.setattr(replay, "DEVICES", ())
    np.testing.assert_allclose(quick.cka, read(net, measures=["cka"]).cka, rtol=1e-4, atol=1e-6)
