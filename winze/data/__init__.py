"""Data by name: load a set, see what is at hand, make batches of it."""

from winze.data.augment import Augment, Augmentation, ColourJitter, Flip, Noise, PadCrop, RandomResizedCrop
from winze.data.available import Listing, available
from winze.data.batches import Batches
from winze.data.class_names import SYNTAX
from winze.data.data_error import CorruptDataError, DataError, MissingDataError, UnknownDataError
from winze.data.dataset import Dataset
from winze.data.image_tensors import channel_statistics
from winze.data.load import load
from winze.data.plane import plane
from winze.data.preprocess import Preprocess
from winze.data.squares import Squares, with_squares
from winze.data.stream import FolderStream
from winze.data.synthetic import spiral
from winze.data.tasks import Task, split_classes, subset, thinned

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
