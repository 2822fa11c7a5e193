"""Places that are worked on together give what each gives alone, for the operations of one."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from references import features, labels
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from winze import measure
from winze.measure import CKA, CentredBatch, Classes, Moments, Probe
from winze.measure.streaming import moments_table
from winze.measure.streaming.moments_table import MomentsTable
from winze.measure.streaming.stack import on_cpu

PARTS = ("mean", "scatter", "norm_sum", "broken", "counts", "class_means", "class_scatter")
WIDTHS = [8, 8, 8, 5, 8, 8]
OFFSETS = [0.0, 100.0, 3.0, 0.0, 1.0, 100.0]


def places(n: int = 90) -> list[Tensor]:
    return [features(n, width, offset, seed=i) for i, (width, offset) in enumerate(zip(WIDTHS, OFFSETS, strict=True))]


def stacked(rows: list[Tensor]) -> list[tuple[int, CentredBatch]]:
    """The places in blocks of two and one, as a reader may hand them on."""
    return [
        (0, CentredBatch(torch.stack(rows[:2]))),
        *((i, CentredBatch(rows[i][None])) for i in (2, 3)),
        (4, CentredBatch(torch.stack(rows[4:]))),
    ]


def table(rows: list[Tensor], y: Tensor, batch: int = 32) -> list[Moments]:
    gathered = MomentsTable(WIDTHS, 4, [f"place {i}" for i in range(len(rows))])
    for start in range(0, len(y), batch):
        some = [each[start : start + batch] for each in rows]
        marks = Classes.of(y[start : start + batch], len(some[0]), 4)
        for first, block in stacked(some):
            gathered.add(first, block, marks)
    return gathered.moments()


class Counting(TorchDispatchMode):
    """Counts operations."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


def operations(work: Callable[[], object]) -> int:
    with Counting() as mode:
        work()
    return mode.count


def test_moments_of_blocks_are_those_of_each_place() -> None:
    rows, y = places(), labels(90, 4)
    for found, each in zip(table(rows, y), rows, strict=True):
        alone = Moments.of(each, y, 4)
        assert (found.n, found.sums.relative) == (alone.n, alone.sums.relative)
        for part in PARTS:
            torch.testing.assert_close(getattr(found, part), getattr(alone, part), rtol=1e-9, atol=1e-9)


def test_a_table_takes_a_large_block_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, y = places(), labels(90, 4)
    whole = table(rows, y, batch=90)
    monkeypatch.setattr("winze.measure.streaming.moments.ELEMENTS", 2 * 8 * 13)
    for found, other in zip(table(rows, y, batch=90), whole, strict=True):
        for part in PARTS:
            torch.testing.assert_close(getattr(found, part), getattr(other, part), rtol=1e-9, atol=1e-9)


def test_moments_of_a_table_go_on_alone() -> None:
    rows, y = places(), labels(90, 4)
    halves = table([each[:40] for each in rows], y[:40])
    for found, each in zip(halves, rows, strict=True):
        found.merge(Moments.of(each[40:60], y[40:60], 4)).update(each[60:], y[60:])
        torch.testing.assert_close(found.scatter, Moments.of(each, y, 4).scatter, rtol=1e-9, atol=1e-9)


def test_a_block_of_another_width_is_named() -> None:
    gathered = MomentsTable([3, 3, 4], None, ["a", "b", "c"])
    with pytest.raises(ValueError, match="b: expected 3 features, got 4"):
        gathered.add(1, CentredBatch(torch.zeros(1, 5, 4)), None)
    with pytest.raises(ValueError, match="b: expected 3 features"):
        gathered.add(1, CentredBatch(torch.zeros(2, 5, 3)), None)


def test_spectra_and_ridge_probes_of_many_places_are_those_of_each() -> None:
    rows, y = places(), labels(90, 4)
    kept, held = table([each[:70] for each in rows], y[:70]), table([each[70:] for each in rows], y[70:])
    for found, each in zip(measure.spectra(kept), kept, strict=True):
        torch.testing.assert_close(found, each.spectrum(), rtol=1e-12, atol=1e-12)
    for found, each, other in zip(measure.ridges(kept, held), kept, held, strict=True):
        alone = measure.ridge(each, other)
        assert found.penalty == alone.penalty
        torch.testing.assert_close(found.weight, alone.weight, rtol=1e-9, atol=1e-10)
        torch.testing.assert_close(found.bias, alone.bias, rtol=1e-9, atol=1e-10)


def test_one_constant_place_among_others_is_marked_alone() -> None:
    y = labels(60, 4)
    gathered = MomentsTable([4, 4, 4], 4, ["a", "b", "c"])
    block = torch.stack([features(60, 4, seed=1), torch.full((60, 4), 0.7), features(60, 4, seed=2)])
    gathered.add(0, CentredBatch(block), Classes.of(y, 60, 4))
    notes = [probe.note for probe in measure.ridges(gathered.moments(), None, [1e-3])]
    assert [bool(note) for note in notes] == [False, True, False]
    assert [bool(spectrum.any()) for spectrum in measure.spectra(gathered.moments())] == [True, False, True]


def test_the_place_with_nan_is_named_among_others() -> None:
    gathered = MomentsTable([4, 4], None, ["good", "bad"])
    block = torch.stack([features(60, 4), features(60, 4)])
    block[1, 3, 2] = torch.nan
    gathered.add(0, CentredBatch(block), None)
    with pytest.raises(ValueError, match="bad: 1 of 60 samples hold NaN"):
        measure.spectra(gathered.moments())


def test_cka_of_blocks_is_that_of_each_place() -> None:
    rows = places()
    together, alone = CKA(len(rows)), CKA(len(rows))
    for start, end in ((0, 2), (2, 40), (40, 88), (88, 90)):  # with batches too small for the estimator
        some = [each[start:end] for each in rows]
        for first, block in stacked(some):
            together.block(first, block)
        together.close_batch()
        alone.update(some)
    torch.testing.assert_close(together.matrix(), alone.matrix(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("largest", [None, 15])
def test_cka_by_shares_is_that_of_batches(largest: int | None) -> None:
    rows = places()
    shared, whole = (CKA(len(rows), largest=largest) for _ in range(2))
    for start in (0, 30, 60):
        some = [each[start : start + 30] for each in rows]
        shared.add(shared.share(reversed(stacked(some))), [each[-3:] for each in some], 30)
        whole.update(some)
    torch.testing.assert_close(shared.matrix(), whole.matrix(), rtol=1e-12, atol=1e-12)
    few = [each[:2] for each in rows]  # waits, and is filled up with the last samples of the batch before
    torch.testing.assert_close(shared.update(few).matrix(), whole.update(few).matrix(), rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match="an open batch"):
        shared.add(shared.share(stacked(rows)), rows, 90)


def test_probes_of_a_block_judge_as_each_does() -> None:
    x, y = torch.stack(places()[:3]), labels(90, 4)
    for dtype in (torch.float32, torch.float64):
        probes = [Probe(torch.randn(4, 8, dtype=dtype), torch.randn(4, dtype=dtype)) for _ in range(3)]
        right = measure.answers_at_once(probes, CentredBatch(x)) == y
        assert torch.equal(right, torch.stack([p.correct(each, y) for p, each in zip(probes, x, strict=True)]))
        assert 0 < right.sum() < right.numel()


def test_moments_on_the_cpu_are_the_same() -> None:
    rows, y = places(), labels(90, 4)
    moments = table(rows, y)
    for found, each in zip(on_cpu(moments), moments, strict=True):
        assert found.name == each.name
        assert torch.equal(found.class_means, each.class_means)


@pytest.mark.parametrize("what", ["moments", "cka"])
def test_many_places_take_as_many_operations_as_one(what: str) -> None:
    """On a GPU each operation is a launch, and launches are the cost of a scan."""
    y = labels(50, 4)
    marks = Classes.of(y, 50, 4)

    def work(count: int) -> Callable[[], object]:
        block = torch.stack([features(50, 6, seed=i) for i in range(count)])
        gathered, cka = MomentsTable([6] * count, 4, ["place"] * count), CKA(count)
        gathered.add(0, CentredBatch(block), marks)  # makes room
        cka.block(0, CentredBatch(block))
        cka.close_batch()
        if what == "moments":
            return lambda: gathered.add(0, CentredBatch(block), marks)
        return lambda: cka.block(0, CentredBatch(block))

    assert operations(work(12)) == operations(work(2))


class Large(TorchDispatchMode):
    """Notes the memory of each result of at least so many bytes."""

    def __init__(self, bytes_: int) -> None:
        super().__init__()
        self.bytes, self.seen = bytes_, {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, Tensor) and tensor.untyped_storage().nbytes() >= self.bytes:
                self.seen[tensor.untyped_storage().data_ptr()] = tensor  # held, so that no address is given twice
        return result


def test_places_one_after_the_other_share_one_gram_matrix() -> None:
    n = 200
    cka = CKA(6)
    cka.place(0, features(n, 3))
    with Large(8 * n * n) as large:
        for index in range(1, 6):
            cka.place(index, features(n, 3, seed=index))
    assert len(large.seen) == 2  # the matrix, and the table of what is kept


@pytest.mark.parametrize("room", [1 << 20, 16 * 3 * 4 * 4, 1])
def test_batches_that_are_gathered_count_as_if_they_came_one_by_one(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    widths, usual, other = [4, 4, 4, 6, 6], [(0, 2), (2, 3), (3, 5)], [(0, 1), (1, 3), (3, 4), (4, 5)]
    batches = (
        [(16, usual)] * 5 + [(9, other)] + [(16, usual)] * 3 + [(700, usual), (3, other), (1, [(0, 2), (2, 3), (3, 5)])]
    )

    def moments() -> list[Moments]:
        torch.manual_seed(0)
        table = MomentsTable(widths, 3, [f"place {i}" for i in range(5)])
        for n, parts in batches:
            features = [100 + torch.randn(n, width) for width in widths]
            marks = Classes.of(torch.randint(3, (n,)), n, 3)
            for first, end in parts:
                table.add(first, CentredBatch(torch.stack(features[first:end])), marks)
        return table.moments()

    one_by_one = moments()
    monkeypatch.setattr(moments_table, "DEVICES", ("cpu",))
    monkeypatch.setattr(moments_table, "ROOM", room)
    taken: list[int] = []
    add = MomentsTable._add
    monkeypatch.setattr(MomentsTable, "_add", lambda self, *args: (taken.append(1), add(self, *args)))
    for gathered, want in zip(moments(), one_by_one, strict=True):
        assert gathered.n == want.n == sum(n for n, _ in batches)
        for mine, theirs in zip(gathered.sums.tensors, want.sums.tensors, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-11, atol=1e-10)
    pieces = sum(len(parts) for _, parts in batches)
    assert len(taken) < pieces / 2 if room > 1000 else len(taken) <= pieces


def test_the_first_samples_wait_while_they_take_less_memory_than_their_scatter(monkeypatch: pytest.MonkeyPatch) -> None:
    width, batches = 64, [torch.randn(10, 64) for _ in range(20)]
    monkeypatch.setattr(moments_table, "DEVICES", ("cpu",))
    monkeypatch.setattr(moments_table, "GATHERED", 20)
    table = MomentsTable([width], None, ["place"])
    seen = []
    for rows in batches:
        with Large(8 * width * width) as large:
            table.add(0, CentredBatch(rows[None]), None)
        seen.append(bool(large.seen))
    assert seen.index(True) == 12  # 128 samples in float32 take as much
    torch.testing.assert_close(table.moments()[0].scatter, Moments.of(torch.cat(batches)).scatter)
