"""Figures, sentences and an HTML page from stored readings; nothing here runs a network."""

from winze.report.figures import (
    cka_map,
    class_variances,
    curves_over_training,
    cuts,
    depth_profile,
    embedding,
    save_all,
    spectra,
)
from winze.report.html import write
from winze.report.summary import comparison, summary

__all__ = [
    "cka_map",
    "class_variances",
    "comparison",
    "curves_over_training",
    "cuts",
    "depth_profile",
    "embedding",
    "save_all",
    "spectra",
    "summary",
    "write",
]
