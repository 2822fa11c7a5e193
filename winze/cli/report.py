"""`winze report`: the page of a scan, again from its stored readings."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from winze.cli.exit_codes import printable_lines


@dataclass(frozen=True)
class ReportVerb:
    """Write the report of a scan again from its stored readings; no network is needed."""

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
    """a folder that `winze scan` wrote"""
    out: Path | None = None
    """the page to write (DIR/report.html)"""

    def run(self) -> None:
        from winze import observe
        from winze.cli.folder import stored, writable_file

        page = writable_file(self.out or self.folder / "report.html")
        with stored(self.folder):
            scan = observe.Scan.load(self.folder)
            scan.report(page)
            sys.stdout.write(f"{printable_lines(scan.summary())}\n{page}\n")
