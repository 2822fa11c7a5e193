"""Tiny sets in every file format, made on the spot."""

import gzip
from io import BytesIO

import numpy as np
from PIL import Image


def idx_bytes(array):
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes((0, 0, 8, array.ndim)) + sizes + array.tobytes()


def random_images(*shape):
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def labels_of(count, classes):
    return (np.arange(count) % classes).astype(np.uint8)


def write_mnist(root, count=40, name="mnist"):
    folder = root / name
    folder.mkdir(parents=True)
    for stem in ("train", "t10k"):
        for kind, array in (("images-idx3", random_images(count, 5, 4)), ("labels-idx1", labels_of(count, 10))):
            (folder / f"{stem}-{kind}-ubyte.gz").write_bytes(gzip.compress(idx_bytes(array)))
    return folder


def sheet(images, wide):
    """Tiles put on one sheet in row-major order; the last row is filled up with black."""
    count, side = len(images), images.shape[1]
    tall = -(-count // wide)
    page = np.zeros((tall * side, wide * side, 3), np.uint8)
    for number, image in enumerate(images):
        row, column = divmod(number, wide)
        page[row * side : (row + 1) * side, column * side : (column + 1) * side] = image
    return Image.fromarray(page)


def write_dtd(root, count=60, classes=3):
    folder = root / "dtd10_32"
    folder.mkdir(parents=True)
    sheet(random_images(count, 32, 32, 3), wide=7).save(folder / "test.webp", lossless=True)
    np.save(folder / "test_labels.npy", labels_of(count, classes))
    (folder / "classes.txt").write_text("".join(f"texture {number}\n" for number in range(classes)))
    return folder


def write_cifar10(root, each=20):
    folder = root / "cifar10"
    folder.mkdir(parents=True)
    images = random_images(6 * each, 32, 32, 3)
    for number, name in enumerate(["train_1", "train_2", "train_3", "train_4", "train_5", "test"]):
        tiles = images[number * each : (number + 1) * each]
        sheet(tiles, wide=5).save(folder / f"{name}.webp", lossless=True)
    np.save(folder / "train_labels.npy", labels_of(5 * each, 10))
    np.save(folder / "test_labels.npy", labels_of(each, 10))
    return folder


def write_jpegs(folder, stem, labels):
    blobs = []
    for number in range(len(labels)):
        buffer = BytesIO()
        Image.new("RGB", (64, 64), (number % 256, 0, 60 * int(labels[number]))).save(buffer, "JPEG", quality=95)
        blobs.append(buffer.getvalue())
    (folder / f"{stem}.jpgs").write_bytes(b"".join(blobs))
    np.save(folder / f"{stem}_offsets.npy", np.cumsum([0, *map(len, blobs)]).astype(np.uint32))
    np.save(folder / f"{stem}_labels.npy", np.asarray(labels, dtype=np.uint8))


def write_tinyimagenet(root, train=(0, 2), classes=4, each=6):
    folder = root / "tinyimagenet"
    folder.mkdir(parents=True)
    lines = [f"{number}\tn{number:08}\tword {number}, other word\n" for number in range(classes)]
    (folder / "classes.txt").write_text("".join(lines))
    if train:
        write_jpegs(folder, "train10", np.repeat(train, each))
    write_jpegs(folder, "val", labels_of(classes * each, classes))
    return folder


def write_tinyimagenet100(root):
    folder = root / "tinyimagenet100"
    folder.mkdir(parents=True)
    np.save(folder / "class_ids.npy", np.array([1, 3], np.uint8))
    write_jpegs(folder, "train_1", [1, 3, 3, 1])
    write_jpegs(folder, "train_2", [3, 1])
    return folder


def write_folder(root, splits=("train", "test"), classes=("cat", "dog"), each=4, size=(6, 6)):
    for split in splits:
        for label, name in enumerate(classes):
            (root / split / name).mkdir(parents=True)
            for number in range(each):
                Image.new("RGB", size, (number, label, 0)).save(root / split / name / f"{number}.png")
    return root
