"""`winze truncate`: the scanned network without its tunnel."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True)
class Truncate:
    """Cut a scanned network after a place, put the probe on top, and say what that costs and saves."""

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
    """a folder that `winze scan` wrote"""
    save: Annotated[Path, tyro.conf.arg(metavar="FILE")]
    """the file to write, such as small.safetensors; `winze.load` reads it back"""
    at: Annotated[str | None, tyro.conf.arg(metavar="PLACE")] = None
    """the last place to keep, by name (where the tunnel starts)"""
    net: Annotated[str | None, tyro.conf.arg(metavar="NET")] = None
    """the network's name, where the folder does not know it"""
    weights: Annotated[Path | None, tyro.conf.arg(metavar="F")] = None
    """the network's weights, where the folder does not hold them"""

    def run(self) -> None:
        from winze import observe
        from winze.cli.folder import rebuilt, writable_file

        file = writable_file(self.save)
        scan = observe.Scan.load(self.folder)
        net = rebuilt(scan, self.folder, self.net, self.weights)
        small = observe.truncate(net, scan, at=self.at)
        file.parent.mkdir(parents=True, exist_ok=True)
        observe.save(small, file)
        sys.stdout.write(f"{small.cut}\n{file}\n")
