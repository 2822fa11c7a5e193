"""Every figure, and all of them at once as files."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from winze.atomic import StoreError, write_atomically
from winze.progress import tracker
from winze.readings import facts
from winze.report import style
from winze.report.scan.cka_map import cka_map
from winze.report.scan.curves import class_variances, curves_over_training, spectra
from winze.report.scan.cut_plot import cuts
from winze.report.scan.embedding_plot import embedding
from winze.report.scan.profile import depth_profile
from winze.report.scan.scans import Scans, UnreadError, by_name

if TYPE_CHECKING:
    import matplotlib.figure

__all__ = [
    "cka_map",
    "class_variances",
    "curves_over_training",
    "cuts",
    "depth_profile",
    "embedding",
    "save_all",
    "spectra",
]

MOST = 16
LONGEST = 100
_DRAWN: dict[tuple[str, float, str], dict[str, dict[str, bytes]]] = {}
"""The files of the last few readings, by what they hold."""


def save_all(scans: Scans, folder: str | os.PathLike[str], threshold: float = 0.95, theme: str = "light") -> list[Path]:
    """Write SVG and PNG of each figure that the readings support; give the paths.

    Of several scans, the comparisons get the plain names, and each scan its own folder inside.
    """
    return store(drawn(scans, folder, threshold, theme))


def drawn(
    scans: Scans, folder: str | os.PathLike[str], threshold: float = 0.95, theme: str = "light"
) -> dict[Path, bytes]:
    """What `save_all` writes, by path: readings that break a figure leave no file behind."""
    named = by_name(scans)
    parts = {Path(folder): scans if len(named) > 1 else next(iter(named.values()))}
    if len(named) > 1:
        parts |= {Path(folder) / inner: one for inner, one in zip(folders(list(named)), named.values(), strict=True)}
    bodies: dict[Path, bytes] = {}
    for home, one in parts.items():
        figures = _files(one, threshold, theme)
        for name, files in zip(folders(list(figures)), figures.values(), strict=True):
            bodies |= {home / f"{name}.{kind}": body for kind, body in files.items()}
    return bodies


def store(bodies: Mapping[Path, bytes]) -> list[Path]:
    """Write drawn figures."""
    for folder in dict.fromkeys(path.parent for path in bodies):
        if folder.is_symlink():
            raise StoreError(
                f"{folder} leads elsewhere: figures are written into a folder of their own, remove the link"
            )
        folder.mkdir(parents=True, exist_ok=True)
    for path, body in bodies.items():
        write_atomically(path, body)
    return list(bodies)


def folders(names: list[str]) -> list[str]:
    """A file name for each name that readings hold, plain letters only, none too long and no two the same."""
    taken: list[str] = []
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:LONGEST].strip("-.") or "scan"
        count = 2
        unique = plain
        while unique.lower() in (other.lower() for other in taken):
            unique, count = f"{plain}-{count}", count + 1
        taken.append(unique)
    return taken


def _files(scans: Scans, threshold: float, theme: str) -> dict[str, dict[str, bytes]]:
    """Each figure that the readings support as SVG and PNG; a scan's own come again in a comparison."""
    key = _digest(scans), threshold, theme
    if key not in _DRAWN:
        found, drawings = {}, _drawings(scans, threshold)
        for name, draw in tracker(None)(drawings.items(), "drawing figures", len(drawings)):
            try:
                drawing = draw(theme=theme)
            except UnreadError:
                continue
            found[name] = {kind: style.rendered(drawing, kind) for kind in ("svg", "png")}
        if len(_DRAWN) >= MOST:
            del _DRAWN[next(iter(_DRAWN))]
        _DRAWN[key] = found
    return _DRAWN[key]


def _digest(scans: Scans) -> str:
    digest = hashlib.sha256()
    for name, one in by_name(scans).items():
        digest.update(repr((name, one.rows, dict(one.conventions))).encode())
        for key, array in one.arrays.items():
            digest.update(repr((key, array.dtype, array.shape)).encode() + array.tobytes())
    return digest.hexdigest()


def _drawings(scans: Scans, threshold: float) -> dict[str, Callable[..., matplotlib.figure.Figure]]:
    drawings: dict[str, Callable[..., matplotlib.figure.Figure]] = {
        "depth_profile": partial(depth_profile, scans, threshold=threshold),
        "cka_map": partial(cka_map, scans, threshold=threshold),
        "spectra": partial(spectra, scans),
        "class_variances": partial(class_variances, scans),
        "embedding": partial(embedding, scans),
        "cuts": partial(cuts, scans, threshold=threshold),
    }
    joined = dict.fromkeys(measure for one in by_name(scans).values() for measure in facts.joined(one))
    drawings |= {
        f"depth_profile_{measure}": partial(depth_profile, scans, measure, threshold=threshold) for measure in joined
    }
    seen = dict.fromkeys(row.measure for one in by_name(scans).values() if facts.steps(one) for row in one.rows)
    drawings |= {f"training_{measure}": partial(curves_over_training, scans, measure) for measure in seen}
    return drawings
