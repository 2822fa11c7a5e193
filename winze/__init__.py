"""Shape and measure what a neural network represents at every depth."""

from winze.interrupt import guard_import

guard_import()  # before what takes seconds to import

from importlib import import_module  # noqa: E402
from typing import TYPE_CHECKING, Any  # noqa: E402

from winze import measure  # noqa: E402
from winze.observe import Scan, Watch, cka_between, compare, extractor, load, save, scan, truncate  # noqa: E402
from winze.place import Place  # noqa: E402
from winze.shape import (  # noqa: E402
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

if TYPE_CHECKING:
    from winze.train.in_turn import continual

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
    "Scan",
    "Standard",
    "Temperature",
    "Watch",
    "cka_between",
    "compare",
    "continual",
    "extractor",
    "junctions",
    "load",
    "measure",
    "rewire",
    "save",
    "scan",
    "truncate",
]


ROOMS = ("data", "lab", "networks", "readings", "report", "train")


def __getattr__(name: str) -> Any:
    """Import a room, and what trains, only where it is used: `import winze` needs no Fabric."""
    if name == "continual":
        from winze.train.in_turn import continual

        return continual
    if name in ROOMS:
        return import_module(f"winze.{name}")
    raise AttributeError(f"module 'winze' has no attribute {name!r}")
