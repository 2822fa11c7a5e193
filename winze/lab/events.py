"""Metrics and readings over steps as TensorBoard events, where TensorBoard is installed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from winze.files import StoreError
from winze.lab.finals import COUNTS, metrics
from winze.lab.store import Facts
from winze.readings import MANIFEST, Readings, ReadingsError


def write_events(runs: Iterable[Facts], folder: Path, refuse: Callable[[str], None]) -> list[Path]:
    """One folder of events per run, `folder/<recipe>/<arm>/seed<seed>-<key>`; `refuse` hears of damaged runs."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ValueError("events need TensorBoard, which is not installed: pip install tensorboard") from error
    written = []
    for facts in runs:
        path = folder.joinpath(*map(_safe, (*facts.recipe.split("/"), facts.arm)), f"seed{facts.seed}-{facts.key[:8]}")
        try:
            rows = metrics(facts.folder)
            readings = Readings.load(facts.folder) if (facts.folder / MANIFEST).is_file() else Readings()
        except (StoreError, ReadingsError) as error:
            refuse(str(error))
            continue
        with SummaryWriter(str(path)) as writer:
            for row in rows:
                for name, value in row.items():
                    if name == "lr" or name not in COUNTS:
                        writer.add_scalar(f"{row['phase']}/{name}", value, row["step"])
            for reading in readings.rows:
                if reading.step is not None:
                    writer.add_scalar(f"{reading.measure}/{reading.place or 'network'}", reading.value, reading.step)
        written.append(path)
    return written


def _safe(name: str) -> str:
    """A name from a file as the name of a folder: no separators, no way upwards, not too long."""
    return re.sub(r"[^\w.-]", "_", name).lstrip(".")[:100] or "_"
