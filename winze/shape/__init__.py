"""Changes a network: junctions, their rules, and the alternation of stages."""

from winze.shape.alternation import Alternation
from winze.shape.find import junctions
from winze.shape.junction import Junction
from winze.shape.live.definition import CaptureError
from winze.shape.rewire import rewire
from winze.shape.rule import Rule
from winze.shape.rules.decayed_identity import DecayedIdentity
from winze.shape.rules.drop_path import DropPath
from winze.shape.rules.highway import Highway
from winze.shape.rules.no_shortcut import NoShortcut
from winze.shape.rules.residual_drop_path import ResidualDropPath
from winze.shape.rules.scaled import Scaled
from winze.shape.rules.standard import Standard
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
