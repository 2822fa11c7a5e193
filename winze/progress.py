"""How far work is: bars with rate and time left on a terminal, nothing in logs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any

Track = Callable[[Iterable[Any], str, int], Iterable[Any]]
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


def on_terminal(progress: bool | None) -> bool:
    """Whether progress is shown: as asked for, else on a terminal only."""
    return sys.stderr.isatty() if progress is None else progress


def plainly(batches: Iterable[Any], text: str, total: int) -> Iterable[Any]:
    """No bar."""
    return batches


def tracker(progress: bool | None) -> Track:
    """A progress bar over batches; `progress` None shows it on a terminal only."""
    shown = on_terminal(progress)

    def track(batches: Iterable[Any], text: str, total: int) -> Iterable[Any]:
        if not shown or not text:
            return batches
        from rich.console import Console
        from rich.progress import track as bar

        return bar(batches, text, total or None, console=Console(stderr=True), transient=True)

    return track


def bars(**options: Any) -> Any:
    """Progress bars on the terminal, each with a description, a rate and the time left; rich draws them."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    texts = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[rate]}")
    return Progress(*texts, TimeRemainingColumn(compact=True), console=Console(stderr=True), transient=True, **options)


class Bar:
    """A progress bar over steps; `progress` None shows it on a terminal only. Listeners hear of it either way."""

    def __init__(self, total: int, progress: bool | None, samples: int, done: int = 0, text: str = "training") -> None:
        self.shown = on_terminal(progress)
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


class Display:
    """A sweep on the terminal: one line per active run, with its rate; `progress` None shows it on a terminal only."""

    def __init__(self, names: Sequence[str], progress: bool | None = None) -> None:
        self.names = names
        self.shown = on_terminal(progress)
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
