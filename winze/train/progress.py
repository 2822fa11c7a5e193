"""How far a training is: a bar with rate and time left on a terminal, nothing in logs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any

PAUSE = 0.5  # seconds between two words to a listener

_listeners: list[Callable[[Any], Any]] = []


@dataclass(frozen=True)
class Pace:
    """How far a training is, and how many samples it takes a second."""

    text: str
    done: int
    total: int
    rate: float


@contextmanager
def heard(listener: Callable[[Any], Any]) -> Iterator[None]:
    """While open, what this process tells of its work goes to the listener."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def tell(word: Any) -> None:
    """Report a message to the listeners."""
    for listener in _listeners:
        listener(word)


def bars(**options: Any) -> Any:
    """Progress bars on the terminal, each with a description, a rate and the time left; rich draws them."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    texts = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[rate]}")
    return Progress(*texts, TimeRemainingColumn(compact=True), console=Console(stderr=True), transient=True, **options)


class Bar:
    """A progress bar over steps; `progress` None shows it on a terminal only. Listeners hear of it either way."""

    def __init__(self, total: int, progress: bool | None, samples: int, done: int = 0, text: str = "training") -> None:
        self.shown = sys.stderr.isatty() if progress is None else progress
        self.total, self.samples, self.done, self.text = total, samples, done, text
        self.began, self.first, self.told = time.monotonic(), done, 0.0

    def __enter__(self) -> Bar:
        if self.shown:
            self.bar = bars()
            self.bar.start()
            self.task = self.bar.add_task(self.text, total=self.total, completed=self.done, rate="")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.shown:
            self.bar.stop()

    def advance(self) -> None:
        """One step more."""
        self.done += 1
        if _listeners and (time.monotonic() - self.told > PAUSE or self.done == self.total):
            self.told = time.monotonic()
            rate = (self.done - self.first) * self.samples / max(self.told - self.began, 1e-9)
            tell(Pace(self.text, self.done, self.total, rate))
        if self.shown:
            speed = self.bar.tasks[0].speed
            self.bar.update(
                self.task, advance=1, rate="" if speed is None else f"{speed * self.samples:,.0f} samples/s"
            )

    def say(self, text: str) -> None:
        """Tell how it goes."""
        if self.shown:
            self.bar.update(self.task, description=f"{self.text}, {text}")
