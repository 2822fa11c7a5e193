"""Trains a network on any objective: one loop, from a laptop's CPU to CUDA graphs on a GPU, resumable after a kill."""

from winze.atomic import StoreError
from winze.train.checkpoints import Checkpoint, Checkpoints
from winze.train.ensemble import fit_ensemble
from winze.train.fit import DivergedError, History, fit
from winze.train.followers import Follower
from winze.train.hardware import Hardware, HardwareError
from winze.train.objectives import CrossEntropy, Objective, evaluate
from winze.train.training import (
    SGD,
    Adam,
    AdamW,
    Classify,
    Constant,
    Cosine,
    CosineAfterWarmup,
    Epochs,
    Goal,
    Lars,
    Milestones,
    NAdam,
    Ramp,
    Steps,
    Training,
)
from winze.train.update import Adversarial, Descend, Update

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "Adversarial",
    "Checkpoint",
    "Checkpoints",
    "Classify",
    "Constant",
    "Cosine",
    "CosineAfterWarmup",
    "CrossEntropy",
    "Descend",
    "DivergedError",
    "Epochs",
    "Follower",
    "Goal",
    "Hardware",
    "HardwareError",
    "History",
    "Lars",
    "Milestones",
    "NAdam",
    "Objective",
    "Ramp",
    "Steps",
    "StoreError",
    "Training",
    "Update",
    "evaluate",
    "fit",
    "fit_ensemble",
]
