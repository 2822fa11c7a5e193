"""Run independent jobs in this process, in a process pool, or on a Ray cluster."""

from __future__ import annotations

import os
import threading
import time
import traceback
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from winze.progress import heard

Work = Callable[[Any], Any]
Hear = Callable[[int, Any], Any]
"""Called with the index of a job and its progress."""


@dataclass(frozen=True)
class Done:
    """The end of a job: its value or its error."""

    index: int
    value: Any = None
    error: Exception | None = None


class LostError(RuntimeError):
    """A job whose workers died repeatedly."""


class Workers(AbstractContextManager["Workers"]):
    """Does jobs, `size` at a time, each with `threads` threads (None: torch's); a job whose worker dies is retried."""

    size: int = 1
    threads: int | None = None

    @abstractmethod
    def run(self, work: Work, jobs: Sequence[Any], hear: Hear | None = None) -> Iterator[Done]:
        """`work` on every job: the end of each one, exactly once, in any order."""

    def each(self, work: Work, jobs: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """The index and value of each job, as they finish; the first error is raised."""
        for done in self.run(work, jobs):
            if done.error is not None:
                raise done.error
            yield done.index, done.value

    def close(self) -> None:
        """Stop the workers."""

    def __exit__(self, *error: object) -> None:
        self.close()


class Here(Workers):
    """Jobs one after another, in this process."""

    def run(self, work: Work, jobs: Sequence[Any], hear: Hear | None = None) -> Iterator[Done]:
        for index, job in enumerate(jobs):
            with heard(partial(hear, index) if hear else lambda word: None):
                value, error = attempt(work, job)
            yield Done(index, value, error)


@cache
def end_with_parent() -> None:
    """End this process soon after its parent, without which it would wait for ever and hold its lock."""
    parent = os.getppid()

    def follow() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def attempt(work: Work, job: Any) -> tuple[Any, Exception | None]:
    """The value of a job, or its error with the traceback as a note, which survives pickling."""
    try:
        return work(job), None
    except Exception as error:
        error.add_note("".join(traceback.format_exception(error)))
        return None, error
