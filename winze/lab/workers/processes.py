"""A process pool on this machine; workers share the cores equally."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from typing import Any

from winze.lab.workers.workers import Done, Hear, LostError, Work, Workers, attempt, end_with_parent
from winze.progress import heard

TRIES = 3
SPAWN = multiprocessing.get_context("spawn")  # a forked copy of a process with threads or a GPU may hang


class Processes(Workers):
    """`size` processes, each with cores / size threads; they start with the first job and run until `close`.
    `environments` are additional environment variables per process, such as its visible GPU.
    """

    def __init__(self, size: int, threads: int | None = None, environments: Sequence[Mapping[str, str]] = ()) -> None:
        if size < 1:
            raise ValueError(f"jobs at once must be at least 1, got {size}")
        self.size, self.threads = size, threads or threads_each(size)
        share = {name: str(self.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        given = environments or ({},)
        self._environments = [share | dict(given[seat % len(given)]) for seat in range(size)]
        self._workers: dict[int, _Worker] = {}

    def run(self, work: Work, jobs: Sequence[Any], hear: Hear | None = None) -> Iterator[Done]:
        waiting, tries = deque(range(len(jobs))), Counter[int]()
        busy: dict[int, int] = {}  # the index of a worker and its job
        try:
            while waiting or busy:
                for seat in range(self.size):
                    if waiting and seat not in busy:
                        index = waiting.popleft()
                        try:
                            self._seated(seat).give(work, jobs[index])
                            busy[seat] = index
                        except (pickle.PicklingError, AttributeError, TypeError) as error:
                            yield Done(index, error=error)
                for seat in self._ready(busy):
                    worker, index = self._workers[seat], busy[seat]
                    word = worker.hear()
                    if word is None:
                        del busy[seat]
                        self._workers.pop(seat).stop()
                        tries[index] += 1
                        if tries[index] < TRIES:
                            waiting.appendleft(index)
                        else:
                            yield Done(
                                index,
                                error=LostError(
                                    f"{TRIES} workers died while running it, the last one {worker.obituary()}"
                                ),
                            )
                    elif word[0] == "said":
                        if hear is not None:
                            hear(index, word[1])
                    else:
                        del busy[seat]
                        yield Done(index, *word[1:])
        finally:
            for seat in busy:  # stopped early: their results are not needed
                self._workers.pop(seat).stop()

    def close(self) -> None:
        """Stop all processes."""
        while self._workers:
            self._workers.popitem()[1].stop()

    def _seated(self, seat: int) -> _Worker:
        if seat not in self._workers:
            self._workers[seat] = _Worker(self._environments[seat])
        return self._workers[seat]

    def _ready(self, busy: Mapping[int, int]) -> list[int]:
        """The indices of workers that have sent something, or died."""
        lines = {self._workers[seat].line: seat for seat in busy}
        return [lines[line] for line in wait(list(lines))] if lines else []  # type: ignore[index]


class _Worker:
    """One process and the connection to it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.line, theirs = SPAWN.Pipe()
        self.process = SPAWN.Process(target=_serve, args=(theirs,))
        with _environment(environment):
            self.process.start()
        theirs.close()

    def give(self, work: Work, job: Any) -> None:
        packed = ForkingPickler.dumps((work, job))
        with suppress(OSError):  # receiving from a dead worker reports it
            self.line.send_bytes(packed)

    def hear(self) -> tuple[Any, ...] | None:
        """The message of the process; None if it is dead."""
        try:
            return pickle.loads(self.line.recv_bytes())
        except (EOFError, OSError):
            return None

    def stop(self) -> None:
        self.line.close()
        self.process.kill()
        self.process.join()

    def obituary(self) -> str:
        code = self.process.exitcode or 0
        if code == -signal.SIGKILL:
            return "killed by signal 9: memory may have run out"
        if code < 0:
            return f"killed by signal {-code}"
        return f'with exit code {code}: does the script run its work below `if __name__ == "__main__":`?'


def _serve(line: Connection) -> None:
    """The loop of a worker: jobs one after another, until the connection is closed or the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process; the parent stops its workers
    end_with_parent()
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    while True:
        try:
            packed = line.recv_bytes()
        except (EOFError, OSError):
            return
        with heard(lambda word: line.send(("said", word))):
            value, error = attempt(_unpacked, packed)
        line.send_bytes(_sendable(value, error))


def _unpacked(packed: bytes) -> Any:
    work, job = pickle.loads(packed)
    return work(job)


def _sendable(value: Any, error: Exception | None) -> bytes:
    """The end of a job as bytes; an error that cannot be pickled is sent as text."""
    try:
        if error is not None:
            pickle.loads(pickle.dumps(error))  # some errors can be pickled but not unpickled
        return bytes(ForkingPickler.dumps(("done", value, error)))
    except Exception as fault:
        said = error if error is not None else fault
        return bytes(ForkingPickler.dumps(("done", None, RuntimeError(f"{type(said).__name__}: {said}"))))


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def threads_each(size: int) -> int:
    """The threads per process, if so many processes share the cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // size)
