"""npz archives: train and test arrays of one's own."""

import io
import zipfile

import numpy as np
import pytest
import torch
from tiny import labels_of, random_images

from winze.data import CorruptDataError, DataError, load


def archive(path, **arrays):
    np.savez(path, **arrays)
    return str(path)


def four(x=None, y=None):
    x = random_images(12, 4, 5) if x is None else x
    y = labels_of(12, 3) if y is None else y
    return {"x_train": x, "y_train": y, "x_test": x, "y_test": y}


@pytest.mark.parametrize(
    ("shape", "stored"),
    [((12, 4, 5), (1, 4, 5)), ((12, 4, 5, 1), (1, 4, 5)), ((12, 4, 5, 3), (3, 4, 5)), ((12, 3, 4, 5), (3, 4, 5))],
)
def test_an_archive_may_hold_grey_or_colour_channel_first_or_last(tmp_path, shape, stored):
    x = random_images(*shape)
    data = load(archive(tmp_path / "mine.npz", **four(x)))
    assert data.shape == stored
    order = x.transpose(0, 3, 1, 2) if x.ndim == 4 and shape[-1] in (1, 3) else x.reshape(12, *stored)
    np.testing.assert_array_equal(data.train_images, order)


def test_an_archive_of_x_and_y_is_halved(tmp_path):
    data = load(archive(tmp_path / "mine.npz", x=random_images(12, 4, 5), y=labels_of(12, 3)))
    assert torch.bincount(data.test_labels).tolist() == [2, 2, 2]


def test_an_archive_of_points_stays_points(tmp_path):
    data = load(archive(tmp_path / "mine.npz", **four(np.random.default_rng(0).normal(size=(12, 7)))))
    assert data.train_images.dtype == torch.float32
    assert not data.holds_images


def test_labels_with_gaps_name_themselves(tmp_path):
    data = load(archive(tmp_path / "mine.npz", **four(y=np.tile([7, 1000000, 3], 4))))
    assert data.classes == ("3", "7", "1000000")
    assert data.train_labels[:3].tolist() == [1, 2, 0]
    (note,) = data.notes
    assert "not 0 to 2 are numbered anew: 3, 7, 1000000; the network's own accuracy" in note


def test_labels_from_0_on_are_taken_as_they_are(tmp_path):
    data = load(archive(tmp_path / "mine.npz", **four()))
    assert data.notes == ()
    assert data.train_labels.tolist() == labels_of(12, 3).tolist()


def test_an_archive_may_name_its_classes(tmp_path):
    data = load(archive(tmp_path / "mine.npz", **four(), classes=np.array(["a", "b", "c"])))
    assert data.classes == ("a", "b", "c")


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"a": np.zeros(3)}, "it has a"),
        ({}, "it has nothing"),
        (four(x=random_images(11, 4, 5)), "11 images but 12 labels"),
        (four(x=np.zeros((12, 4, 5))), "images are uint8"),
        (four(x=random_images(12, 3, 4, 3)), "could be channel first or last"),
        (four(x=random_images(12, 2, 4, 5)), "is not"),
        (four(x=random_images(12, 4)), "is not"),
        (four(x=np.full((12, 2), np.nan)), "24 values are NaN or infinite"),
        (four(y=np.zeros(12)), "labels are whole numbers"),
        (four(y=np.zeros((12, 3), int)), "labels are whole numbers"),
        (four(y=np.zeros(12, int)), "1 class"),
        (four(y=np.tile([0, 1, -1], 4)), "y_train: labels start at 0, sample 2 has -1"),
        (four() | {"y_test": np.tile([0, 1, -1], 4)}, "y_test: labels start at 0, sample 2 has -1"),
        (four(x=random_images(0, 4, 5), y=np.zeros(0, int)), "no samples"),
        (four() | {"classes": np.array(["a", "b"])}, "label 2 of sample 2 does not fit 2 classes"),
        (four() | {"x_test": random_images(12, 6, 6)}, r"shape \(1, 4, 5\), test samples \(1, 6, 6\)"),
        (four() | {"x_train": np.array([{}] * 12)}, "cannot be read"),
    ],
)
def test_archives_that_hold_no_data_are_refused(tmp_path, arrays, says):
    with pytest.raises(DataError, match=says):
        load(archive(tmp_path / "mine.npz", **arrays))


def test_a_truncated_archive_is_named(tmp_path):
    path = tmp_path / "mine.npz"
    archive(path, **four())
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(CorruptDataError, match=r"mine\.npz"):
        load(str(path))


def test_a_single_array_under_the_name_of_an_archive_is_refused(tmp_path):
    np.save(tmp_path / "mine.npy", np.zeros(3))
    (tmp_path / "mine.npy").rename(tmp_path / "mine.npz")
    with pytest.raises(CorruptDataError, match="single array"):
        load(str(tmp_path / "mine.npz"))


def lying(path, claimed):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": claimed})
    labels = io.BytesIO()
    np.save(labels, np.arange(20) % 2)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", header.getvalue() + bytes(20 * 64))
        archive.writestr("y.npy", labels.getvalue())
    return str(path)


def test_an_array_that_is_not_as_large_as_it_claims_is_not_allocated(tmp_path):
    assert load(lying(tmp_path / "true.npz", (20, 8, 8))).shape == (1, 8, 8)
    with pytest.raises(CorruptDataError, match=r"x\.npy claims \[1000000000, 8, 8\] of uint8, more than its"):
        load(lying(tmp_path / "lie.npz", (10**9, 8, 8)))


def test_an_archive_that_would_not_fit_in_memory_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr("winze.data.sources.npz.available", lambda device: 1000)
    with pytest.raises(DataError, match=r"true\.npz would unpack to .* GB are free"):
        load(lying(tmp_path / "true.npz", (20, 8, 8)))


def test_memory_that_runs_out_names_the_archive(tmp_path, monkeypatch):
    def spent(*_, **__):
        raise MemoryError("Unable to allocate 3.00 GiB")

    file = lying(tmp_path / "true.npz", (20, 8, 8))
    monkeypatch.setattr(np, "load", spent)
    with pytest.raises(MemoryError, match=r"true\.npz: memory ran out .*; store fewer or smaller samples"):
        load(file)
