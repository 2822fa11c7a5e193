"""Processes that start at once: forked from one that has imported torch and winze already, which takes seconds.

What they do and how they die is real. A script that starts processes of its own belongs in `subprocess` instead.
"""

import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import traceback
from functools import cache
from pathlib import Path

KEPT = []  # a process that is still running may not be forgotten


class Forked:
    """`python SCRIPT WORDS` with its stdout, as `subprocess.Popen` gives it."""

    def __init__(self, script, *words):
        pipes = [os.pipe() for _ in range(2)]
        task = {"words": [str(word) for word in (script, *words)], "path": sys.path, "folder": str(Path.cwd())}
        socket.send_fds(_server(), [json.dumps(task).encode()], [end for _, end in pipes])
        for _, end in pipes:
            os.close(end)
        (told, _), (self._status, _) = pipes
        self.stdout, self.returncode = os.fdopen(told), None
        self.pid = _heard(self._status)

    def wait(self, timeout=None):
        """The exit code; raises as `Popen.wait` does."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
            self.returncode = _heard(self._status)
        return self.returncode

    def kill(self):
        """End it by SIGKILL, if it is not over yet."""
        if self.returncode is None and not select.select([self._status], [], [], 0)[0]:
            os.kill(self.pid, signal.SIGKILL)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.stdout.close()
        self.wait()
        os.close(self._status)


def _heard(status):
    return struct.unpack("q", os.read(status, 8))[0]


def _tell(status, number):
    os.write(status, struct.pack("q", number))


@cache
def _server():
    """The line to the process from which others are forked; it ends with this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    KEPT.append(subprocess.Popen([sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()]))
    theirs.close()
    return ours


def _serve(line):
    import sklearn.datasets  # noqa: F401

    import winze.lab.runs.perform  # noqa: F401
    from winze.train.hardware import Hardware, make_fabric

    make_fabric(Hardware(accelerator="cpu"))  # imports Fabric
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how keepers end
    while True:
        message, ends, *_ = socket.recv_fds(line, 1 << 16, 2)
        if not message:
            return
        if not os.fork():
            _keep(json.loads(message), *ends)
        for end in ends:
            os.close(end)


def _keep(task, told, status):
    """Fork the process itself, and tell its number and how it ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if not child:
        os.close(status)
        _run(task, told)
    os.close(told)
    _tell(status, child)
    _tell(status, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    os._exit(0)


def _run(task, told):
    code = 1
    try:
        os.dup2(told, 1)
        os.chdir(task["folder"])
        script, *_ = sys.argv = task["words"]
        sys.path[:] = [str(Path(script).parent), *task["path"]]
        runpy.run_path(script, run_name="__main__")
        code = 0
    except BaseException:
        traceback.print_exc(file=sys.stdout)
    finally:
        sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
