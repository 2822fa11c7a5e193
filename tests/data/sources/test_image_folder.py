"""Image folders, and names that lead to no data."""

import pytest
import torch
from PIL import Image
from tiny import write_folder

from winze.data import CorruptDataError, DataError, MissingDataError, UnknownDataError, load


@pytest.mark.parametrize("train_name", ["train", "Train", "TRAINING"])
@pytest.mark.parametrize("test_name", ["test", "val", "valid", "validation", "Testing", "Validation"])
def test_a_folder_with_two_parts_keeps_them(tmp_path, train_name, test_name):
    data = load(str(write_folder(tmp_path / "mine", (train_name, test_name))))
    assert (len(data.train_labels), len(data.test_labels)) == (8, 8)
    assert data.classes == ("cat", "dog")
    assert torch.equal(data.train_images[:, 1, 0, 0].long(), data.train_labels)
    assert data.notes == ()


def test_cinic10_is_its_train_and_test_folders_without_valid(tmp_path):
    root = write_folder(tmp_path / "cinic10", ("train", "valid", "test"))
    Image.new("RGB", (6, 6)).save(root / "train" / "cat" / "z.png")
    data = load("CINIC-10", root=tmp_path)
    assert (len(data.train_labels), len(data.test_labels)) == (9, 8)
    assert data.classes == ("cat", "dog")


@pytest.mark.parametrize("splits", [("train",), (".",), ("validation",)])
def test_a_folder_with_one_part_is_halved(tmp_path, splits):
    data = load(str(write_folder(tmp_path / "mine", splits)))
    assert torch.bincount(data.train_labels).tolist() == torch.bincount(data.test_labels).tolist() == [2, 2]
    assert any("half and half" in note for note in data.notes)


def test_a_class_may_be_called_like_a_split(tmp_path):
    assert load(str(write_folder(tmp_path / "mine", (".",), ("bus", "train")))).classes == ("bus", "train")


def test_test_images_without_classes_are_passed_by_where_validation_images_have_them(tmp_path):
    root = write_folder(tmp_path / "mine", ("train", "val"))
    (root / "test").mkdir()
    assert len(load(str(root)).test_labels) == 8


def test_a_validation_folder_beside_a_test_folder_is_left_out_and_noted(tmp_path):
    assert load(str(write_folder(tmp_path / "mine", ("train", "Val", "test")))).notes == ("Val/ is left out",)


@pytest.mark.parametrize(
    ("splits", "says"),
    [
        (("train", "training", "test"), "train/ and training/"),
        (("train", "val", "validation"), "val/ and validation/"),
        (("test", "val"), "test/ and val/, but no train/"),
        (("learn", "test"), "test/ and learn/, but no train/"),
    ],
)
def test_folders_whose_splits_are_unclear_are_refused(tmp_path, splits, says):
    with pytest.raises(DataError, match=says):
        load(str(write_folder(tmp_path / "mine", splits)))


def test_splits_without_class_folders_are_no_classes(tmp_path):
    with pytest.raises(DataError, match="test/ and train/ hold no class folders"):
        load(str(write_folder(tmp_path / "mine", (".",), ("train", "test"))))


def test_images_of_one_size_keep_it(tmp_path):
    assert load(str(write_folder(tmp_path / "mine", size=(9, 5)))).shape == (3, 5, 9)


def test_images_of_several_sizes_become_squares_and_say_so(tmp_path):
    root = write_folder(tmp_path / "mine")
    Image.new("L", (40, 20), 200).save(root / "train" / "cat" / "other.jpg")
    data = load(str(root))
    assert data.shape == (3, 224, 224)
    assert any("centre squares of 224 x 224" in note for note in data.notes)


def test_a_size_brings_all_images_to_it(tmp_path):
    root = write_folder(tmp_path / "mine")
    Image.new("RGB", (40, 20), (9, 8, 7)).save(root / "train" / "cat" / "z.jpg")
    data = load(str(root), size=16)
    assert data.shape == (3, 16, 16)
    assert data.train_images[4].flatten(1).float().mean(1).round().tolist() == pytest.approx([9, 8, 7], abs=2)


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "CMYK", "1", "LA"])
def test_images_of_any_mode_become_rgb(tmp_path, mode):
    root = write_folder(tmp_path / "mine")
    suffix = "jpg" if mode == "CMYK" else "png"
    Image.new("RGB", (6, 6), (255, 255, 255)).convert(mode).save(root / "train" / "cat" / f"z.{suffix}")
    assert (load(str(root)).train_images[4] >= 250).all()


def test_only_the_picked_images_are_decoded(tmp_path):
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


def test_a_class_without_test_images_is_left_out_and_noted(tmp_path):
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


def no_images(root):
    (root / "train" / "cat").mkdir(parents=True)


def one_class(root):
    write_folder(root, classes=("cat",))


def broken(root):
    write_folder(root)
    (root / "train" / "cat" / "0.png").write_bytes(b"nothing")


@pytest.mark.parametrize(
    ("make", "says"),
    [(empty, "no class folders"), (no_images, "no images"), (one_class, "1 class"), (broken, r"0\.png")],
)
def test_folders_that_hold_no_data_are_refused(tmp_path, make, says):
    make(tmp_path / "mine")
    with pytest.raises(DataError, match=says):
        load(str(tmp_path / "mine"))


def test_more_images_than_memory_are_refused_before_any_is_decoded(tmp_path):
    root = write_folder(tmp_path / "mine")
    with pytest.raises(DataError, match="GiB memory: set a limit"):
        load(str(root), size=2_000_000)


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("no/such/folder", MissingDataError, "no such folder"),
        ("nowhere.npz", MissingDataError, r"no such folder or \.npz"),
        ("cifra10", UnknownDataError, "did you mean cifar10"),
        ("fashion", UnknownDataError, "did you mean fashion"),
        ("qqqq", UnknownDataError, "known: digits, digit_sums, spiral"),
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
    with pytest.raises(UnknownDataError, match=r"not an \.npz archive"):
        load(str(tmp_path / "a.txt"))


@pytest.mark.parametrize("argument", ["limit", "size"])
@pytest.mark.parametrize("number", [0, -3])
def test_limits_and_sizes_below_one_are_refused(argument, number):
    with pytest.raises(DataError, match=f"{argument} is {number}"):
        load("digits", **{argument: number})
