"""`winze report`: the page of a scan, again from its stored readings."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from winze.cli.exit_codes import printable_lines
from winze.cli.option import option


@dataclass(frozen=True)
class ReportVerb:
    """Write the page of a stored scan again, or of a stored sequence of tasks; no network is needed."""

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
    """a folder that `winze scan`, `Scan.save` or `Sequence.save` wrote"""
    out: Annotated[Path | None, option("FILE", "DIR/report.html")] = None
    """the page to write"""

    def run(self) -> None:
        from winze import observe
        from winze.cli.folder import stored, writable_file
        from winze.observe.sequence import MATRIX
        from winze.readings import Readings

        page = writable_file(self.out or self.folder / "report.html")
        with stored(self.folder):
            readings = Readings.load(self.folder)
            if MATRIX in readings.arrays:
                sequence = observe.Sequence(readings)
                sequence.report(page)
                said = repr(sequence)
            else:
                scan = observe.Scan(readings)
                scan.report(page)
                said = scan.summary()
            sys.stdout.write(f"{printable_lines(said)}\n{page}\n")
