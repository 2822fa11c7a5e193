"""`winze truncate`: the scanned network without its tunnel."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from winze.cli.exit_codes import printable_lines
from winze.cli.option import option

if TYPE_CHECKING:
    from winze.data import Batches


@dataclass(frozen=True)
class TruncateVerb:
    """Cut a scanned network after a place, put the probe on top, and report what that costs and saves."""

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
    """a folder that `winze scan` wrote"""
    save: Annotated[Path, tyro.conf.arg(metavar="FILE")]
    """the file to write: small.safetensors (`winze.load` reads it back), small.onnx or small.pt2 (torch.export)"""
    at: Annotated[str | None, option("PLACE", "the start of the tunnel")] = None
    """the last place to keep, by name"""
    data: Annotated[str | None, option("D", "the scan's, where it is a named data set at hand; else estimated")] = None
    """test data on which the accuracy of the cut network is measured"""
    net: Annotated[str | None, option("NET", "as the folder says")] = None
    """the network's name"""
    weights: Annotated[Path | None, option("F", "those in the folder")] = None
    """the network's weights"""
    force: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """cut although the scan is of another network or of other weights"""
    trust: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """run the file (my_file.py:make_net) that the folder names as the source of its network"""

    def run(self) -> None:
        from winze import observe
        from winze.cli.folder import rebuilt, stored, writable_file
        from winze.observe.cut.network_file import check_file

        file = writable_file(check_file(self.save))
        with stored(self.folder):
            scan = observe.Scan.load(self.folder)
            net = rebuilt(scan, self.folder, self.net, self.weights, self.trust)
            test = self._test(scan.readings.conventions)
            small = observe.truncate(net, scan, at=self.at, data=test, force=self.force)
            file.parent.mkdir(parents=True, exist_ok=True)
            observe.save(small, file)
        if test is None:
            sys.stderr.write("winze: the accuracy is an estimate of the scan; --data measures it on test data\n")
        sys.stdout.write(printable_lines(f"{small.cut}\n{file}\n"))

    def _test(self, told: Mapping[str, Any]) -> Batches | None:
        """The test data that was asked for, or that the scan names and that is at hand, prepared as in the scan."""
        from winze.data import DataError, Preprocess, load
        from winze.data.sources.catalog import CATALOG

        name = told["data"] if self.data is None else self.data
        if self.data is None and name.partition("[")[0] not in CATALOG:
            return None  # a path in a file from elsewhere is not opened
        limit = told.get("limit")
        try:
            dataset = load(name, limit=limit if type(limit) is int else None, download=self.data is not None)
        except DataError:
            if self.data is not None:
                raise
            return None
        from winze.cli.scan import splits

        way = told.get("preprocess")
        return splits(dataset, None if way is None else Preprocess.from_dict(way), 256)[1]
