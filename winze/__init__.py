"""Shape and measure what a neural network represents at every depth."""

from winze.depth import Place
from winze.shape import (
    Alternation,
    CaptureError,
    DecayedIdentity,
    DropPath,
    Highway,
    Junction,
    NoShortcut,
    ResidualDropPath,
    Rule,
    Scaled,
    Standard,
    Temperature,
    junctions,
    rewire,
)

__version__ = "0.1.0"

__all__ = [
    "Alternation",
    "CaptureError",
    "DecayedIdentity",
    "DropPath",
    "Highway",
    "Junction",
    "NoShortcut",
    "Place",
    "ResidualDropPath",
    "Rule",
    "Scaled",
    "Standard",
    "Temperature",
    "junctions",
    "rewire",
]
