"""Trains a network: one loop, from a laptop's CPU to captured graphs on a GPU, that survives being killed."""

from winze.files import StoreError
from winze.train.checkpoints import Checkpoint, Checkpoints
from winze.train.config import Hardware, Ramp, Training
from winze.train.evaluate import evaluate
from winze.train.fit import DivergedError, History, fit
from winze.train.objectives import Classify, Objective
from winze.train.place import HardwareError
from winze.train.side_by_side import fit_side_by_side

__all__ = [
    "Checkpoint",
    "Checkpoints",
    "Classify",
    "DivergedError",
    "Hardware",
    "HardwareError",
    "History",
    "Objective",
    "Ramp",
    "StoreError",
    "Training",
    "evaluate",
    "fit",
    "fit_side_by_side",
]
