"""A running server, for tests that talk to it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "default"}


@contextmanager
def playground(*words: str) -> Iterator[str]:
    """The address of a server that runs while this is open."""
    command = [sys.executable, "-m", "winze", "play", "--port", "0", "--no-browser", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT, cwd=ROOT)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1]
    finally:
        process.terminate()
        try:
            process.wait(60)
        finally:
            process.kill()
            process.stdout.close()


@contextmanager
def no_new_workers() -> Iterator[None]:
    """The processes that workers are forked from stand still: a page that connects has to wait for its own."""
    stopped = []
    for one in descendants():
        with suppress(OSError):  # it has ended
            if b"forkserver" in Path(f"/proc/{one}/cmdline").read_bytes():
                os.kill(one, signal.SIGSTOP)
                stopped.append(one)
    try:
        yield
    finally:
        for one in stopped:
            os.kill(one, signal.SIGCONT)


def descendants() -> list[int]:
    """All processes below this one."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, rest = path.read_text().split(" ", 1)
            parents.setdefault(int(rest.rsplit(")", 1)[1].split()[1]), []).append(int(number))
        except OSError:
            continue
    found, waiting = [], [os.getpid()]
    while waiting:
        waiting += (new := parents.get(waiting.pop(), []))
        found += new
    return found
