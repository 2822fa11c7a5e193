"""Data by name: load a set, see what is at hand, make batches of it."""

from winze.data.batches import Batches
from winze.data.classes import SYNTAX
from winze.data.dataset import Dataset
from winze.data.errors import CorruptDataError, DataError, MissingDataError, UnknownDataError
from winze.data.listing import Listing, available
from winze.data.loading import load
from winze.data.pixels import channel_statistics
from winze.data.preprocess import Preprocess
from winze.data.toy import spiral

__all__ = [
    "SYNTAX",
    "Batches",
    "CorruptDataError",
    "DataError",
    "Dataset",
    "Listing",
    "MissingDataError",
    "Preprocess",
    "UnknownDataError",
    "available",
    "channel_statistics",
    "load",
    "spiral",
]
