"""`winze compare`: several scans on one page."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from winze.cli.exit_codes import printable_lines
from winze.cli.option import option


@dataclass(frozen=True)
class CompareVerb:
    """Compare two or more scans on one page."""

    folders: Annotated[tuple[Path, ...], tyro.conf.Positional, option("DIR DIR ...")]
    """folders that `winze scan` wrote"""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE")]
    """the page to write, such as both.html"""

    def run(self) -> None:
        from winze import observe
        from winze.cli.folder import stored, writable_file

        if len(self.folders) < 2:
            raise ValueError(f"compare takes two scans or more, got {len(self.folders)}")
        page = writable_file(self.out)
        with stored(" or ".join(map(str, self.folders))):
            scans = {name: observe.Scan.load(folder) for name, folder in named(self.folders).items()}
            observe.compare(scans, page)
            for name, scan in scans.items():
                sys.stdout.write(printable_lines(f"{name}\n{scan.summary()}\n\n"))
        sys.stdout.write(f"{page}\n")


def named(folders: tuple[Path, ...]) -> dict[str, Path]:
    """Each folder under the shortest end of its path that tells it from the others."""
    parts = [folder.resolve().parts for folder in folders]
    if len(set(parts)) < len(parts):
        raise ValueError("compare: the same folder was given twice")
    length = 1
    while len({path[-length:] for path in parts}) < len(parts):
        length += 1
    return {"/".join(path[-length:]): folder for path, folder in zip(parts, folders, strict=True)}
