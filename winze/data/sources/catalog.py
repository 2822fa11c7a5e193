"""Every set that has a name, what it is, and which code reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from winze.data import synthetic as toy
from winze.data.sources import local
from winze.data.sources.image_folder import folder_source
from winze.data.sources.source import Source
from winze.data.sources.torchvision import ORIGINALS, Original

ReadSource = Callable[[Path], Source]


@dataclass(frozen=True)
class Known:
    """A named set: made on the spot, read from `folder` (where a file matches `pattern`), or torchvision's.

    `published` is (train, test, classes) for sets too big to be counted.
    """

    name: str
    about: str
    make: Callable[[], Source] | None = None
    read: ReadSource | None = None
    folder: str = ""
    pattern: str = "*"
    published: tuple[int, int, int] | None = None

    @property
    def original(self) -> Original | None:
        """torchvision's class for it, where there is one."""
        return ORIGINALS.get(self.name)


def _small(name: str, folder: str, about: str) -> Known:
    """A set of which small 32 x 32 tiles are kept as files."""
    read = partial(local.read_small, name, f"{about}; torchvision/{name} names the original")
    return Known(name, about, read=read, folder=folder)


_ALL = (
    Known("digits", "scikit-learn's digits", make=toy.digits_source),
    Known("digit_sums", "two digits side by side, by the last digit of their sum", make=toy.digit_sums_source),
    Known("spiral", "two spiral arms in the plane", make=toy.spiral_source),
    Known("mnist", "handwritten digits", read=local.read_mnist, folder="mnist", pattern="*.gz"),
    Known("fashion_mnist", "pieces of clothing", read=local.read_fashion, folder="fashion_mnist", pattern="*.gz"),
    Known("usps", "digits from envelopes", read=local.read_usps, folder="usps"),
    Known("cifar10", "ten kinds of things", read=local.read_cifar10, folder="cifar10"),
    Known("tinyimagenet", "Tiny-ImageNet", read=local.read_tinyimagenet, folder="tinyimagenet"),
    Known(
        "tinyimagenet100",
        "100 classes of Tiny-ImageNet",
        read=local.read_tinyimagenet100,
        folder="tinyimagenet100",
    ),
    _small("dtd", "dtd10_32", "10 of the 47 classes of Describable Textures at 32 x 32"),
    _small("caltech101", "caltech101_32", "30 images per class of Caltech-101 at 32 x 32"),
    _small("pets", "oxford_pet_32", "50 images per breed of Oxford-IIIT Pet at 32 x 32"),
    Known("cifar100", "a hundred kinds of things"),
    Known(
        "cinic10",
        "CINIC-10 as folders train/ and test/; valid/ is left out",
        folder="cinic10",
        pattern="train",
        published=(90000, 90000, 10),
    ),
    Known("svhn", "house numbers"),
    Known("stl10", "ten kinds of things at 96 x 96"),
    Known("food101", "dishes"),
    Known("flowers102", "flowers"),
    Known("places365", "scenes"),
    Known(
        "imagenet",
        "ImageNet-1k as folders train/ and val/",
        folder="imagenet",
        pattern="train",
        published=(1281167, 50000, 1000),
    ),
)

CATALOG = {known.name: known for known in _ALL}

ALIASES = {known.folder: known.name for known in _ALL if known.folder} | {
    "fashionmnist": "fashion_mnist",
    "cifar_10": "cifar10",
    "cifar_100": "cifar100",
    "cinic_10": "cinic10",
    "tiny_imagenet": "tinyimagenet",
    "textures": "dtd",
    "caltech_101": "caltech101",
    "oxford_iiit_pet": "pets",
    "oxfordiiitpet": "pets",
    "stl_10": "stl10",
    "food_101": "food101",
    "flowers_102": "flowers102",
    "places_365": "places365",
    "imagenet1k": "imagenet",
    "imagenet_1k": "imagenet",
}


def reader(known: Known, size: int | None) -> ReadSource | None:
    """What reads this set from its folder; images in many sizes are brought to `size`."""
    if known.read is None and known.folder:
        return lambda folder: folder_source(known.name, folder, size)
    return known.read
