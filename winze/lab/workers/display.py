"""A sweep on the terminal: a line for each run at work, with rate and time left; nothing in logs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from winze.train.progress import Pace, bars


class Display:
    """Lines on the terminal; `progress` None shows them on a terminal only."""

    def __init__(self, names: Sequence[str], progress: bool | None = None) -> None:
        self.names = names
        self.shown = sys.stderr.isatty() if progress is None else progress
        self._lines: dict[int, Any] = {}

    def __enter__(self) -> Display:
        if self.shown:
            self.bars = bars(speed_estimate_period=600)
            self.bars.start()
            self._all = self.bars.add_task("all runs", total=len(self.names), rate=f"0 of {len(self.names)}")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.shown:
            self.bars.stop()

    def hear(self, index: int, word: Any) -> None:
        """What the run of that number tells of its training."""
        if not self.shown:
            return
        if index not in self._lines:
            self._lines[index] = self.bars.add_task(self.names[index], total=None, rate="")
        if isinstance(word, Pace):
            self.bars.update(
                self._lines[index],
                description=f"{self.names[index]}, {word.text}",
                completed=word.done,
                total=word.total,
                rate=f"{word.rate:,.0f} samples/s",
            )

    def end(self, index: int, error: Exception | None) -> None:
        """The run of that number is done, or has failed."""
        if not self.shown:
            return
        if index in self._lines:
            self.bars.remove_task(self._lines.pop(index))
        if error is not None:
            self.bars.console.print(f"{self.names[index]} failed: {error}", markup=False, highlight=False)
        done = self.bars.tasks[0].completed + 1
        self.bars.update(self._all, completed=done, rate=f"{done:.0f} of {len(self.names)}")
