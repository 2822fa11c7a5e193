"""Changes a network: junctions, the rules at them, and what steers the rules."""

from winze.shape.alternation import Alternation
from winze.shape.decayed_identity import DecayedIdentity
from winze.shape.drop_path import DropPath
from winze.shape.find import junctions
from winze.shape.highway import Highway
from winze.shape.junction import Junction
from winze.shape.no_shortcut import NoShortcut
from winze.shape.plans import CaptureError
from winze.shape.residual_drop_path import ResidualDropPath
from winze.shape.rewire import rewire
from winze.shape.rule import Rule
from winze.shape.scaled import Scaled
from winze.shape.standard import Standard
from winze.shape.temperature import Temperature

__all__ = [
    "Alternation",
    "CaptureError",
    "DecayedIdentity",
    "DropPath",
    "Highway",
    "Junction",
    "NoShortcut",
    "ResidualDropPath",
    "Rule",
    "Scaled",
    "Standard",
    "Temperature",
    "junctions",
    "rewire",
]
