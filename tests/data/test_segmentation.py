"""Folders of images with a class for every pixel."""

import numpy as np
import pytest
from PIL import Image

from winze.data import DataError, MissingDataError
from winze.data.segmentation import load_segments


def folder(root, names=("a", "b"), mode="L"):
    """Images whose left half is bright and of class 1; the first row of masks does not count."""
    for part in ("images", "masks"):
        (root / part).mkdir(parents=True, exist_ok=True)
    for name in names:
        left = np.zeros((16, 16), np.uint8)
        left[:, :8] = 1
        Image.fromarray(np.repeat(200 * left[:, :, None], 3, 2)).save(root / "images" / f"{name}.png")
        left[0] = 255
        Image.fromarray(left).convert(mode).save(root / "masks" / f"{name}.png")
    return root


def test_images_and_masks_become_squares_of_one_size(tmp_path):
    images, masks = load_segments(str(folder(tmp_path)), 8)
    assert images.shape == (2, 3, 8, 8)
    assert masks.shape == (2, 8, 8)
    assert set(masks[0, 1:, :4].flatten().tolist()) == {1}
    assert set(masks[0, 1:, 4:].flatten().tolist()) == {0}


def test_a_folder_is_found_by_name_among_the_data(tmp_path, monkeypatch):
    folder(tmp_path / "few")
    monkeypatch.setenv("WINZE_DATA", str(tmp_path))
    assert len(load_segments("few", 8)[0]) == 2


def test_a_missing_folder_is_named_with_every_place(tmp_path, monkeypatch):
    monkeypatch.setenv("WINZE_DATA", str(tmp_path))
    with pytest.raises(MissingDataError, match=f"looked for nowhere/images, {tmp_path}/nowhere/images"):
        load_segments("nowhere", 8)


def test_an_image_without_a_mask_is_named(tmp_path):
    folder(tmp_path)
    (tmp_path / "masks" / "b.png").unlink()
    with pytest.raises(DataError, match=r"b\.png has no mask"):
        load_segments(str(tmp_path), 8)


def test_a_mask_in_colour_is_refused(tmp_path):
    with pytest.raises(DataError, match="one value per pixel, not RGB"):
        load_segments(str(folder(tmp_path, mode="RGB")), 8)
