"""The result of a scan, and the facts derived from it."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from winze.measure import Tunnel
from winze.measure.tunnel import check_threshold
from winze.place import Place
from winze.readings import Readings, facts
from winze.readings.facts import Best
from winze.readings.wording import label, number

if TYPE_CHECKING:
    import matplotlib.figure
    import pandas


class Scan:
    """The readings of a network at every depth: tidy rows and arrays, and the facts derived from them."""

    def __init__(self, readings: Readings) -> None:
        self.readings = readings

    def __repr__(self) -> str:
        told = self.readings.conventions
        first = next(iter(self.summary().splitlines()), "")
        said = f". {first}" if first else ""
        return f"<Scan of {told.get('network')} on {told.get('data')}: {len(self.places)} places{said}>"

    def _repr_html_(self) -> str:
        """The notebook view: the findings, and probe accuracy and rank of every place."""
        said = "".join(f"<li>{escape(line)}</li>" for line in self.summary().splitlines())
        first = [name for name in ("probe", "numerical_rank", "effective_rank") if facts.has(self.readings, name)]
        shown = [*first, *facts.joined(self.readings)]
        head = "".join(f"<th>{escape(text)}</th>" for text in ("layer", "place", *map(label, shown)))
        columns = [facts.column(self.readings, name) for name in shown]
        rows = "".join(
            f"<tr><td>{place.index + 1}</td><td>{escape(place.name)}</td>"
            + "".join(f"<td>{number(float(column[place.index]))}</td>" for column in columns)
            + "</tr>"
            for place in self.places
        )
        return f"<ul>{said}</ul><table><tr>{head}</tr>{rows}</table>"

    @property
    def data(self) -> str:
        """The name of the in-distribution data."""
        return self.readings.conventions.data or facts.home(self.readings)

    @property
    def places(self) -> list[Place]:
        """The places that were scanned."""
        names = self.readings.conventions.places
        if names is None:
            return facts.places(self.readings)
        return [Place(i, len(names), name) for i, name in enumerate(names)]

    @property
    def table(self) -> pandas.DataFrame:
        """All readings as one tidy table."""
        return self.readings.table

    @property
    def cka(self) -> np.ndarray:
        """CKA between all pairs of places."""
        return self._array("cka", "cka")

    def curve(self, measure: str, data: str | None = None) -> np.ndarray:
        """One measure over depth."""
        return self.readings.curve(measure, data=data or self.data)

    def tunnel(self, threshold: float = 0.95, data: str | None = None) -> Tunnel:
        """The first place that reaches `threshold` of the network's own accuracy, with a bootstrap interval.

        The reference is the network's accuracy where its outputs match the labels, else the last probe. Where that is
        not clearly above chance, and where no place reaches it, `start` is None and `reason` says why.
        """
        check_threshold(threshold)
        self._array(f"correct/{data or self.data}", "probe")
        found = facts.entrance(self.readings, threshold, data)
        assert found is not None
        return found.tunnel

    def best_for(self, data: str) -> Best:
        """The place with the best OOD accuracy, with kappa and rho over its curve."""
        known = [self.data, *(self.readings.conventions.ood or [])]
        if data not in known:
            raise ValueError(f"this scan has no data {data!r}; it has {', '.join(known)}")
        found = facts.best_for(self.readings, data)
        if found is None:
            raise ValueError(f"this scan did not measure 'probe' on {data}: add it to measures=")
        return found

    def summary(self, threshold: float = 0.95) -> str:
        """The findings as sentences."""
        from winze.report.scan.summary import summary

        return "\n".join(summary(self.readings, threshold))

    def save(self, folder: str | Path) -> None:
        """Store readings, arrays and conventions in a folder."""
        self.readings.save(Path(folder))

    @classmethod
    def load(cls, folder: str | Path) -> Scan:
        """A stored scan."""
        return cls(Readings.load(Path(folder)))

    def plot(self, threshold: float = 0.95) -> matplotlib.figure.Figure:
        """The depth profile as a figure: probes and numerical ranks over depth, with the tunnel shaded."""
        from winze.report.scan.profile import depth_profile

        return depth_profile(self.readings, threshold=threshold)

    def report(self, path: str | Path) -> Path:
        """Write the HTML report, one file that opens anywhere."""
        return compare({self.readings.conventions.network or "network": self}, path)

    def _array(self, key: str, measure: str) -> np.ndarray:
        if key not in self.readings.arrays:
            known = self.readings.conventions.measures or facts.measures(self.readings)
            raise ValueError(f"this scan did not measure {measure!r}: it has {', '.join(known)}")
        return self.readings.arrays[key]


def compare(scans: dict[str, Scan], path: str | Path) -> Path:
    """Write one report that compares several scans."""
    from winze.report.scan.scan_page import write

    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder: name the page, such as {target / 'report.html'}")
    write({name: scan.readings for name, scan in scans.items()}, target)
    return target
