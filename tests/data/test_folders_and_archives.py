"""Image folders and npz archives: data of one's own."""

import numpy as np
import pytest
import torch
from PIL import Image
from tiny import labels_of, random_images, write_folder

from winze.data import CorruptDataError, DataError, MissingDataError, UnknownDataError, load


@pytest.mark.parametrize("test_name", ["test", "val", "valid", "validation"])
def test_a_folder_with_two_parts_keeps_them(tmp_path, test_name):
    data = load(str(write_folder(tmp_path / "mine", ("train", test_name))))
    assert (len(data.train_labels), len(data.test_labels)) == (8, 8)
    assert data.classes == ("cat", "dog")
    assert torch.equal(data.train_images[:, 1, 0, 0].long(), data.train_labels)
    assert data.notes == ()


@pytest.mark.parametrize("splits", [("train",), (".",)])
def test_a_folder_with_one_part_is_halved(tmp_path, splits):
    data = load(str(write_folder(tmp_path / "mine", splits)))
    assert torch.bincount(data.train_labels).tolist() == torch.bincount(data.test_labels).tolist() == [2, 2]
    assert any("half and half" in note for note in data.notes)


def test_pictures_of_one_size_keep_it(tmp_path):
    assert load(str(write_folder(tmp_path / "mine", size=(9, 5)))).shape == (3, 5, 9)


def test_pictures_of_several_sizes_become_squares_and_say_so(tmp_path):
    root = write_folder(tmp_path / "mine")
    Image.new("L", (40, 20), 200).save(root / "train" / "cat" / "other.jpg")
    data = load(str(root))
    assert data.shape == (3, 224, 224)
    assert any("resized to 224 x 224" in note for note in data.notes)


def test_a_size_brings_all_pictures_to_it(tmp_path):
    root = write_folder(tmp_path / "mine")
    Image.new("RGB", (40, 20), (9, 8, 7)).save(root / "train" / "cat" / "z.jpg")
    data = load(str(root), size=16)
    assert data.shape == (3, 16, 16)
    assert data.train_images[4].flatten(1).float().mean(1).round().tolist() == pytest.approx([9, 8, 7], abs=2)


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "CMYK", "1", "LA"])
def test_pictures_of_any_mode_become_rgb(tmp_path, mode):
    root = write_folder(tmp_path / "mine")
    suffix = "jpg" if mode == "CMYK" else "png"
    Image.new("RGB", (6, 6), (255, 255, 255)).convert(mode).save(root / "train" / "cat" / f"z.{suffix}")
    assert (load(str(root)).train_images[4] >= 250).all()


def test_only_the_picked_pictures_are_decoded(tmp_path):
    root = write_folder(tmp_path / "mine", classes=("ant", "bee", "broken"))
    for path in root.rglob("broken/*.png"):
        path.write_bytes(path.read_bytes()[:45])  # the header is whole, the pixels are gone
    assert load(f"{root}[ant,bee]").classes == ("ant", "bee")
    with pytest.raises(CorruptDataError, match=r"broken.*\.png"):
        load(str(root))


def test_other_files_and_hidden_folders_are_passed_by(tmp_path):
    root = write_folder(tmp_path / "mine")
    (root / "train" / ".cache").mkdir()
    (root / "train" / "cat" / "notes.txt").write_text("nothing")
    assert len(load(str(root)).train_labels) == 8


def test_a_class_without_test_pictures_is_left_out_and_noted(tmp_path):
    root = write_folder(tmp_path / "mine")
    write_folder(root, ("train",), ("emu",))
    data = load(str(root))
    assert data.classes == ("cat", "dog")
    assert any("2 common" in note for note in data.notes)


def test_a_known_name_wins_over_a_folder_of_that_name(tmp_path, monkeypatch):
    write_folder(tmp_path / "digits")
    monkeypatch.chdir(tmp_path)
    assert load("digits").shape == (1, 8, 8)
    assert load("./digits").shape == (3, 6, 6)


def empty(root):
    root.mkdir()


def no_pictures(root):
    (root / "train" / "cat").mkdir(parents=True)


def one_class(root):
    write_folder(root, classes=("cat",))


def broken(root):
    write_folder(root)
    (root / "train" / "cat" / "0.png").write_bytes(b"nothing")


@pytest.mark.parametrize(
    ("make", "says"),
    [(empty, "no class folders"), (no_pictures, "not one image"), (one_class, "1 class"), (broken, r"0\.png")],
)
def test_folders_that_hold_no_data_are_refused(tmp_path, make, says):
    make(tmp_path / "mine")
    with pytest.raises(DataError, match=says):
        load(str(tmp_path / "mine"))


def test_more_pictures_than_memory_are_refused_before_any_is_decoded(tmp_path):
    root = write_folder(tmp_path / "mine")
    with pytest.raises(DataError, match="GiB memory: set a limit"):
        load(str(root), size=2_000_000)


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
    assert not data.pictures


def test_labels_with_gaps_name_themselves(tmp_path):
    data = load(archive(tmp_path / "mine.npz", **four(y=np.tile([7, 1000000, 3], 4))))
    assert data.classes == ("3", "7", "1000000")
    assert data.train_labels[:3].tolist() == [1, 2, 0]


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
        (four(x=random_images(0, 4, 5), y=np.zeros(0, int)), "not one sample"),
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


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("no/such/folder", MissingDataError, "no such folder"),
        ("nowhere.npz", MissingDataError, r"no such folder or \.npz"),
        ("cifra10", UnknownDataError, "did you mean cifar10"),
        ("fashion", UnknownDataError, "did you mean fashion"),
        ("qqqq", UnknownDataError, "known: digits, spiral"),
        ("", UnknownDataError, "unknown data set"),
        ("torchvision/digits", UnknownDataError, "torchvision has no data set"),
        ("cifar10[0-4", DataError, "picks classes"),
        ("digits[0-10]", DataError, "class 10 is out of range"),
        ("digits[zero]", DataError, "no class 'zero'"),
    ],
)
def test_names_that_mean_nothing_are_refused_in_one_line(name, kind, says):
    with pytest.raises(kind, match=says) as caught:
        load(name)
    assert "\n" not in str(caught.value)


def test_a_file_of_another_kind_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(UnknownDataError, match=r"no \.npz archive"):
        load(str(tmp_path / "a.txt"))


@pytest.mark.parametrize("argument", ["limit", "size"])
@pytest.mark.parametrize("number", [0, -3])
def test_limits_and_sizes_below_one_are_refused(argument, number):
    with pytest.raises(DataError, match=f"{argument} is {number}"):
        load("digits", **{argument: number})
