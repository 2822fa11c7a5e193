"""Objectives: what is minimised, and how a network is judged."""

from winze.train.objectives.base import Function, Objective, judged
from winze.train.objectives.classify import CrossEntropy, evaluate

__all__ = ["CrossEntropy", "Function", "Objective", "evaluate", "judged"]
