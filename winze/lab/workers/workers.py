"""Run independent jobs in this process, in a process pool, or on a Ray cluster."""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from winze.progress import heard

Member = TypeVar("Member", bound="Workers")
Work = Callable[[Any], Any]
Hear = Callable[[int, Any], None]
"""Called with the number of a task and what it tells on its way."""


@dataclass(frozen=True)
class Done:
    """The end of a task: its value, or what went wrong."""

    index: int
    value: Any = None
    error: Exception | None = None


class LostError(RuntimeError):
    """A task whose workers died, again and again."""


class Workers(ABC):
    """Works on tasks, `size` at a time; a worker that dies costs another try, no result."""

    size: int = 1

    @abstractmethod
    def run(self, work: Work, tasks: Sequence[Any], hear: Hear | None = None) -> Iterator[Done]:
        """`work` on every task: the end of each one, exactly once, in whatever order they come."""

    def each(self, work: Work, tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """The number and value of each task, as they are done; the first error is raised."""
        for done in self.run(work, tasks):
            if done.error is not None:
                raise done.error
            yield done.index, done.value

    def close(self) -> None:  # noqa: B027  # most have nobody to send home
        """Send everybody home."""

    def __enter__(self: Member) -> Member:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class Here(Workers):
    """One task after the other, in this process."""

    def run(self, work: Work, tasks: Sequence[Any], hear: Hear | None = None) -> Iterator[Done]:
        for index, task in enumerate(tasks):
            with heard(partial(hear or _deaf, index)):
                value, error = attempt(work, task)
            yield Done(index, value, error)


def attempt(work: Work, task: Any) -> tuple[Any, Exception | None]:
    """The value of a task, or its error with the traceback as a note, which outlives the way between processes."""
    try:
        return work(task), None
    except Exception as error:
        error.add_note("".join(traceback.format_exception(error)))
        return None, error


def _deaf(index: int, word: Any) -> None:
    pass
