"""What every benchmark shares: interleaved timing, ratios with an interval, and the record of the machine."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

RESULTS = Path(__file__).parent.parent / "results"


def seconds(work: Callable[[], Any], device: str) -> float:
    """Wall time of one call, waiting for the device on both sides."""
    _wait(device)
    start = time.perf_counter()
    work()
    _wait(device)
    return time.perf_counter() - start


def ratio(work: Callable[[], Any], against: Callable[[], Any], device: str, pairs: int = 12) -> dict[str, Any]:
    """Median of time(work) / time(against) over interleaved pairs, with a 95 % interval of the median."""
    ratios, base = interleaved(work, against, device, pairs)
    return {**median(ratios), "seconds": round(statistics.median(base), 5)}


def interleaved(
    work: Callable[[], Any], against: Callable[[], Any], device: str, pairs: int
) -> tuple[list[float], list[float]]:
    """Every pair's time(work) / time(against), and its time(against)."""
    for _ in range(2):
        work(), against()
    ratios, base = [], []
    for i in range(pairs):
        first, second = (work, against) if i % 2 else (against, work)
        a, b = seconds(first, device), seconds(second, device)
        ours, theirs = (a, b) if i % 2 else (b, a)
        ratios.append(ours / theirs)
        base.append(theirs)
    return ratios, base


def median(ratios: list[float]) -> dict[str, Any]:
    """The median with a 95 % interval.

    The interval is the pair of order statistics that a binomial(n, 1/2) count leaves out in 2.5 % of cases each side.
    """
    ordered, out = sorted(ratios), _outside(len(ratios))
    return {
        "ratio": round(statistics.median(ordered), 4),
        "low": round(ordered[out], 4),
        "high": round(ordered[-1 - out], 4),
        "pairs": len(ordered),
    }


def _outside(n: int) -> int:
    from math import comb

    tail, k = 0.0, 0
    while (tail := tail + comb(n, k) / 2**n) <= 0.025:
        k += 1
    return max(0, k - 1)


def machine(device: str) -> dict[str, Any]:
    """Where and with what this was measured."""
    name = torch.cuda.get_device_name() if device == "cuda" else f"{platform.machine()} CPU, {os.cpu_count()} cores"
    return {
        "device": name,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "date": time.strftime("%Y-%m-%d"),
    }


def merge(name: str, rows: list[dict[str, Any]], device: str, folder: Path = RESULTS, alike: str = "device") -> Path:
    """Put rows measured on this machine into a results file, in the place of those that are `alike` and from here."""
    where = machine(device)
    rows = [{"device": where["device"], **row} for row in rows]
    file = folder / f"{name}.json"
    before = json.loads(file.read_text()) if file.exists() else {"machine": {}, "rows": []}
    new = {(row["device"], row[alike]) for row in rows}
    kept = [row for row in before["rows"] if (row["device"], row.get(alike)) not in new]
    machines = {**before["machine"], where["device"]: where}
    return save(name, {"machine": machines, "rows": [*kept, *rows]}, folder)


def save(name: str, content: dict[str, Any], folder: Path = RESULTS) -> Path:
    """Write results as JSON, one row a line, so that a diff shows what changed."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = content.pop("rows")
    head = json.dumps(content, indent=1)[:-2]
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    path = folder / f"{name}.json"
    path.write_text(f'{head},\n "rows": [\n{lines}\n ]\n}}\n')
    return path


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()
