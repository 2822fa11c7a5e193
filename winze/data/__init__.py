"""Data by name: load a set, see what is at hand, make batches of it."""

from winze.data.augment import Augment, Augmentation, ColourJitter, Flip, Noise, PadCrop, RandomResizedCrop
from winze.data.batches import Batches
from winze.data.classes import SYNTAX
from winze.data.dataset import Dataset
from winze.data.errors import CorruptDataError, DataError, MissingDataError, UnknownDataError
from winze.data.listing import Listing, available
from winze.data.loading import load
from winze.data.patterns import Squares, with_squares
from winze.data.pixels import channel_statistics
from winze.data.plane import plane
from winze.data.preprocess import Preprocess
from winze.data.stream import FolderStream
from winze.data.tasks import Task, split_classes, subset, thinned
from winze.data.toy import spiral

__all__ = [
    "SYNTAX",
    "Augment",
    "Augmentation",
    "Batches",
    "ColourJitter",
    "CorruptDataError",
    "DataError",
    "Dataset",
    "Flip",
    "FolderStream",
    "Listing",
    "MissingDataError",
    "Noise",
    "PadCrop",
    "Preprocess",
    "RandomResizedCrop",
    "Squares",
    "Task",
    "UnknownDataError",
    "available",
    "channel_statistics",
    "load",
    "plane",
    "spiral",
    "split_classes",
    "subset",
    "thinned",
    "with_squares",
]
