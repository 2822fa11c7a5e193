"""A process pool on this machine; each worker has its share of the cores."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from typing import Any

from winze.lab.workers.workers import Done, Hear, LostError, Work, Workers, attempt
from winze.progress import heard

TRIES = 3
SPAWN = multiprocessing.get_context("spawn")  # a forked copy of a process with threads or a GPU may hang


class Processes(Workers):
    """`size` processes, each with cores / size threads; they start with the first task and stay until `close`.

    `environments` are the environment variables of each, on top of this process's, such as which GPU it sees.
    """

    def __init__(self, size: int, threads: int | None = None, environments: Sequence[Mapping[str, str]] = ()) -> None:
        if size < 1:
            raise ValueError(f"jobs at once must be at least 1, got {size}")
        self.size = size
        self.threads = threads or threads_each(size)
        self._environments = [dict(environments[i % len(environments)]) if environments else {} for i in range(size)]
        self._workers: list[_Worker | None] = [None] * size

    def run(self, work: Work, tasks: Sequence[Any], hear: Hear | None = None) -> Iterator[Done]:
        waiting, tries = deque(range(len(tasks))), Counter[int]()
        busy: dict[int, int] = {}  # the seat of a worker and the task it is at
        try:
            while waiting or busy:
                for seat in range(self.size):
                    if waiting and seat not in busy:
                        index = waiting.popleft()
                        try:
                            self._seated(seat).give(work, tasks[index])
                            busy[seat] = index
                        except (pickle.PicklingError, AttributeError, TypeError) as error:
                            yield Done(index, error=error)
                for seat in self._ready(busy):
                    worker, index = self._seated(seat), busy[seat]
                    word = worker.hear()
                    if word is None:
                        del busy[seat]
                        worker.stop()
                        self._workers[seat] = None
                        tries[index] += 1
                        if tries[index] < TRIES:
                            waiting.appendleft(index)
                        else:
                            yield Done(index, error=LostError(f"{TRIES} workers died at it, {worker.obituary()}"))
                    elif word[0] == "said":
                        if hear is not None:
                            hear(index, word[1])
                    else:
                        del busy[seat]
                        yield Done(index, *word[1:])
        finally:
            for seat in busy:  # left in the middle: what they are at is of no use to anybody
                self._seated(seat).stop()
                self._workers[seat] = None

    def close(self) -> None:
        """Stop all processes."""
        for worker in self._workers:
            if worker is not None:
                worker.stop()
        self._workers = [None] * self.size

    def _seated(self, seat: int) -> _Worker:
        worker = self._workers[seat]
        if worker is None:
            worker = self._workers[seat] = _Worker(self.threads, self._environments[seat])
        return worker

    def _ready(self, busy: Mapping[int, int]) -> list[int]:
        """Seats with something to hear."""
        ears = {self._seated(seat).ear: seat for seat in busy}
        return [ears[ear] for ear in wait(list(ears))] if ears else []  # type: ignore[index]


class _Worker:
    """One process and the line to it."""

    def __init__(self, threads: int, environment: Mapping[str, str]) -> None:
        self.ear, theirs = SPAWN.Pipe()
        self.process = SPAWN.Process(target=_serve, args=(theirs, threads))
        share = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        with _environment(share | dict(environment)):
            self.process.start()
        theirs.close()

    def give(self, work: Work, task: Any) -> None:
        packed = ForkingPickler.dumps((work, task))
        with suppress(OSError):  # it is dead, which is noticed when it is listened to
            self.ear.send_bytes(packed)

    def hear(self) -> tuple[Any, ...] | None:
        """What it says; None when it is dead."""
        try:
            return pickle.loads(self.ear.recv_bytes())
        except (EOFError, OSError):
            return None

    def stop(self) -> None:
        self.ear.close()
        self.process.kill()
        self.process.join()

    def obituary(self) -> str:
        code = self.process.exitcode or 0
        if code == -signal.SIGKILL:
            return "killed by signal 9: memory may have run out"
        if code < 0:
            return f"killed by signal {-code}"
        return f'with exit code {code}: does the script run its work below `if __name__ == "__main__":`?'


def _serve(line: Connection, threads: int) -> None:
    """The life of a worker: tasks one after the other, until the line or the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole terminal; the parent stops its workers
    threading.Thread(target=_follow_parent, daemon=True).start()
    import torch

    torch.set_num_threads(threads)
    while True:
        try:
            packed = line.recv_bytes()
        except (EOFError, OSError):
            return
        with heard(lambda word: line.send(("said", word))):
            value, error = attempt(_unpacked, packed)
        line.send_bytes(_sendable(value, error))


def _unpacked(packed: bytes) -> Any:
    work, task = pickle.loads(packed)
    return work(task)


def _sendable(value: Any, error: Exception | None) -> bytes:
    """The end of a task as bytes; an error that cannot be sent is told in words."""
    try:
        if error is not None:
            pickle.loads(pickle.dumps(error))  # some go in and do not come out again
        return bytes(ForkingPickler.dumps(("done", value, error)))
    except Exception as fault:
        said = error if error is not None else fault
        return bytes(ForkingPickler.dumps(("done", None, RuntimeError(f"{type(said).__name__}: {said}"))))


def _follow_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


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
    """Threads of each of so many processes, so that they do not fight for cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // size)
