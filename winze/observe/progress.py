"""A progress bar over batches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

Track = Callable[[Iterable[Any], str, int], Iterable[Any]]


def plainly(batches: Iterable[Any], text: str, total: int) -> Iterable[Any]:
    """No bar."""
    return batches


def tracker(progress: bool | None) -> Track:
    """A progress bar on long work: where asked for, or on a terminal."""
    shown = sys.stderr.isatty() if progress is None else progress

    def track(batches: Iterable[Any], text: str, total: int) -> Iterable[Any]:
        if not shown or not text:
            return batches
        from rich.console import Console
        from rich.progress import track as bar

        return bar(batches, text, total or None, console=Console(stderr=True), transient=True)

    return track
