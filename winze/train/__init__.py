"""Trains a network: the plain loop and its accuracy."""

from winze.train.fit import DivergedError, History, evaluate, fit

__all__ = ["DivergedError", "History", "evaluate", "fit"]
