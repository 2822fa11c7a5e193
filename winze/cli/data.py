"""`winze data`: what data is at hand."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from winze.cli.exit_codes import printable
from winze.cli.option import option


@dataclass(frozen=True)
class DataVerb:
    """List the known data sets: their size, their classes, and where on this machine they are."""

    root: Annotated[str | None, option("DIR", "the folder that the variable WINZE_DATA names")] = None
    """the folder to search for data sets"""

    def run(self) -> None:
        from winze.data import SYNTAX, available

        if self.root is not None and not Path(self.root).is_dir():
            raise ValueError(f"--root: there is no folder {self.root}")
        lines: list[tuple[str, ...]] = [("name", "train", "test", "classes", "sample", "where")]
        for listing in available(self.root):
            shape = "x".join(map(str, listing.shape)) if listing.shape else "varies"
            counts = (str(number) if number is not None else "?" for number in (listing.train, listing.test))
            where = listing.found or ("not here; torchvision can download it" if listing.downloads else "not here")
            where = f"{where}: {listing.problem}" if listing.problem else where
            lines.append((listing.name, *counts, str(listing.classes or "?"), shape, where))
        sys.stdout.write(table(lines))
        sys.stdout.write(f"\nAlso a folder of images or an .npz file. {SYNTAX}.\n")


def table(rows: list[tuple[str, ...]]) -> str:
    """Rows as padded columns, without control characters."""
    rows = [tuple(map(printable, row)) for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)] + [0]
    return "".join(
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() + "\n" for row in rows
    )
