"""How far a training is: a bar with rate and time left on a terminal, nothing in logs."""

from __future__ import annotations

import sys
from types import TracebackType


class Bar:
    """A progress bar over steps; `progress` None shows it on a terminal only."""

    def __init__(self, total: int, progress: bool | None, samples: int, done: int = 0, text: str = "training") -> None:
        self.shown = sys.stderr.isatty() if progress is None else progress
        self.total, self.samples, self.done, self.text = total, samples, done, text

    def __enter__(self) -> Bar:
        if self.shown:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[rate]}"))
            self.bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
            self.bar.start()
            self.task = self.bar.add_task(self.text, total=self.total, completed=self.done, rate="")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.shown:
            self.bar.stop()

    def advance(self) -> None:
        """One step more."""
        if self.shown:
            speed = self.bar.tasks[0].speed
            self.bar.update(
                self.task, advance=1, rate="" if speed is None else f"{speed * self.samples:,.0f} samples/s"
            )

    def say(self, text: str) -> None:
        """Tell how it goes."""
        if self.shown:
            self.bar.update(self.task, description=f"{self.text}, {text}")
