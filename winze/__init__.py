"""Shape and measure what a neural network represents at every depth."""

from winze.interrupt import guard_import

guard_import()  # before what takes seconds to import

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


def __getattr__(name: str) -> Any:
    """Import what trains only where it is used: `import winze` needs no Fabric."""
    if name == "continual":
        from winze.train.in_turn import continual

        return continual
    raise AttributeError(f"module 'winze' has no attribute {name!r}")
