"""Every file format gives back the pixels that went in, and names the file where it cannot."""

import gzip

import numpy as np
import pytest
import torch
from tiny import (
    idx_bytes,
    labels_of,
    random_images,
    sheet,
    write_cifar10,
    write_dtd,
    write_jpegs,
    write_mnist,
    write_tinyimagenet,
    write_tinyimagenet100,
)

from winze.data import CorruptDataError, DataError, MissingDataError, load


def test_idx_files_give_back_their_pixels(tmp_path):
    write_mnist(tmp_path)
    data = load("mnist", root=tmp_path)
    np.testing.assert_array_equal(data.train_images[:, 0], random_images(40, 5, 4))
    np.testing.assert_array_equal(data.test_labels, labels_of(40, 10))


def test_one_sheet_gives_back_its_tiles(tmp_path):
    write_dtd(tmp_path)
    data = load("dtd", root=tmp_path)
    tiles = {image.tobytes() for image in random_images(60, 32, 32, 3).transpose(0, 3, 1, 2)}
    both = torch.cat([data.train_images, data.test_images]).numpy()
    assert {image.tobytes() for image in both} == tiles


def test_several_sheets_are_read_in_order(tmp_path):
    write_cifar10(tmp_path)
    data = load("cifar10", root=tmp_path)
    images = random_images(120, 32, 32, 3).transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(torch.cat([data.train_images, data.test_images]), images)


def test_a_class_subset_takes_the_same_tiles_as_the_whole(tmp_path):
    write_cifar10(tmp_path)
    whole, some = load("cifar10", root=tmp_path), load("cifar10[7,2]", root=tmp_path)
    assert torch.equal(some.train_images[some.train_labels == 0], whole.train_images[whole.train_labels == 7])
    assert some.classes == ("horse", "bird")


def test_jpeg_files_come_with_their_own_labels(tmp_path):
    write_tinyimagenet(tmp_path)
    data = load("tinyimagenet", root=tmp_path)
    assert data.classes == ("word 0", "word 2")
    blue = data.test_images[:, 2].float().mean((1, 2)).round()  # the maker paints 60 times the class into blue
    assert (blue - data.test_labels * 120).abs().max() < 10


def test_jpeg_files_in_two_parts_are_joined(tmp_path):
    write_tinyimagenet(tmp_path)
    write_tinyimagenet100(tmp_path)
    data = load("tinyimagenet100", root=tmp_path)
    assert data.train_labels.tolist() == [0, 1, 1, 0, 1, 0]
    assert data.classes == ("word 1", "word 3")
    assert len(data.test_labels) == 12


def test_tinyimagenet_without_its_train_files_is_halved(tmp_path):
    write_tinyimagenet(tmp_path, train=())
    data = load("tinyimagenet", root=tmp_path)
    assert (len(data.train_labels), len(data.test_labels), len(data.classes)) == (12, 12, 4)
    assert any("half and half" in note for note in data.notes)


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def scribble(path):
    path.write_bytes(b"not what it says" * 20)


def remove(path):
    path.unlink()


MAKERS = {
    "mnist": (write_mnist, "train-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"),
    "dtd": (write_dtd, "test.webp", "test_labels.npy"),
    "cifar10": (write_cifar10, "train_3.webp", "train_labels.npy"),
    "tinyimagenet": (write_tinyimagenet, "val.jpgs", "val_offsets.npy", "train10_labels.npy"),
}


@pytest.mark.parametrize("damage", [cut, scribble, remove])
@pytest.mark.parametrize(("name", "file"), [(name, file) for name, (_, *files) in MAKERS.items() for file in files])
def test_a_damaged_or_missing_file_is_named(tmp_path, name, file, damage):
    folder = MAKERS[name][0](tmp_path)
    damage(folder / file)
    kind = MissingDataError if damage is remove else CorruptDataError
    with pytest.raises(kind, match=file) as caught:
        load(name, root=tmp_path)
    assert "\n" not in str(caught.value)


def test_one_bad_jpeg_among_good_ones_is_numbered(tmp_path):
    folder = write_tinyimagenet(tmp_path)
    body = bytearray((folder / "val.jpgs").read_bytes())
    offsets = np.load(folder / "val_offsets.npy")
    body[offsets[4] : offsets[5]] = bytes(int(offsets[5] - offsets[4]))
    (folder / "val.jpgs").write_bytes(body)
    with pytest.raises(CorruptDataError, match=r"val\.jpgs.*image 4"):
        load("tinyimagenet", root=tmp_path)


def test_an_idx_file_that_promises_more_than_it_has_is_refused(tmp_path):
    folder = write_mnist(tmp_path)
    body = idx_bytes(random_images(40, 5, 4))[:-1]
    (folder / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(body))
    with pytest.raises(CorruptDataError, match="799 bytes where its header promises 800"):
        load("mnist", root=tmp_path)


def test_fewer_labels_than_images_are_refused(tmp_path):
    folder = write_mnist(tmp_path)
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx_bytes(labels_of(39, 10))))
    with pytest.raises(DataError, match=r"40 images.*39 labels"):
        load("mnist", root=tmp_path)


def test_a_label_beyond_the_classes_is_refused(tmp_path):
    folder = write_mnist(tmp_path)
    labels = labels_of(40, 10)
    labels[3] = 11
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx_bytes(labels)))
    with pytest.raises(DataError, match="label 11 of sample 3 does not fit 10 classes"):
        load("mnist", root=tmp_path)


def test_a_sheet_too_small_for_its_labels_is_refused(tmp_path):
    folder = write_dtd(tmp_path)
    sheet(random_images(14, 32, 32, 3), wide=7).save(folder / "test.webp", lossless=True)
    with pytest.raises(CorruptDataError, match="do not hold 60 tiles"):
        load("dtd", root=tmp_path)


def test_labels_that_do_not_spread_over_the_sheets_are_refused(tmp_path):
    folder = write_cifar10(tmp_path)
    np.save(folder / "train_labels.npy", labels_of(99, 10))
    with pytest.raises(DataError, match="cannot be split evenly"):
        load("cifar10", root=tmp_path)


def test_a_pickle_in_place_of_labels_is_refused(tmp_path):
    folder = write_dtd(tmp_path)
    np.save(folder / "test_labels.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(CorruptDataError, match=r"test_labels\.npy"):
        load("dtd", root=tmp_path)


def test_train_labels_outside_the_hundred_classes_are_refused(tmp_path):
    write_tinyimagenet(tmp_path)
    write_jpegs(write_tinyimagenet100(tmp_path), "train_2", [3, 2])
    with pytest.raises(CorruptDataError, match="train label 2 is not in class_ids"):
        load("tinyimagenet100", root=tmp_path)
