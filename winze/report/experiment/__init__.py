"""Figures of experiments over their axes: a measure over depth, over training, or over a setting."""

from winze.report.experiment.drawing import Drawing, PointRuns, first_seeds, of_scans
from winze.report.experiment.over_depth import over_depth
from winze.report.experiment.over_setting import over_setting
from winze.report.experiment.over_training import over_training
from winze.report.experiment.profiles import profiles
from winze.report.experiment.tunnel_starts import tunnel_starts
from winze.report.scan.scans import UnreadError

__all__ = [
    "Drawing",
    "PointRuns",
    "UnreadError",
    "first_seeds",
    "of_scans",
    "over_depth",
    "over_setting",
    "over_training",
    "profiles",
    "tunnel_starts",
]
