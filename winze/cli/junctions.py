"""`winze junctions`: where a network's shortcuts meet their branches."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

import tyro


@dataclass(frozen=True)
class JunctionsVerb:
    """Print the junctions of a network: where a shortcut meets its branch, and where `winze.rewire` puts its rules."""

    net: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NET")]
    """a timm name (resnet18), torchvision/NAME, winze/resmlp12, or my_file.py:make_net"""

    def run(self) -> None:
        from winze.networks import build
        from winze.shape import junctions

        found = junctions(build(self.net))
        sys.stdout.write(f"{found!r}\n")
        for name, why in found.unread.items():
            sys.stdout.write(f"not read: {name or '(the network itself)'}, a {why}\n")
