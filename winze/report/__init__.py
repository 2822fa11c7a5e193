"""Figures, sentences and an HTML page from stored readings; nothing here runs a network."""

from winze.report.scan.figure_files import (
    cka_map,
    class_variances,
    curves_over_training,
    cuts,
    depth_profile,
    embedding,
    save_all,
    spectra,
)
from winze.report.scan.scan_page import write
from winze.report.scan.summary import comparison, summary

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
