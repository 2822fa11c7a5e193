"""CUDA's Multi-Process Service: kernels of several processes run on one GPU at the same time, not in turns."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

CONTROL = "nvidia-cuda-mps-control"
SECONDS = 20.0  # seconds to start or stop


@contextmanager
def mps(wanted: bool = True) -> Iterator[dict[str, str]]:
    """While open, the service runs; yields the environment of the processes that use it. It has folders of its own,
    apart from those of a running service; where it cannot be started, or the environment already uses one, the result
    is empty and processes take turns on the GPU as usual.
    """
    binary = shutil.which(CONTROL)
    if not wanted or binary is None or "CUDA_MPS_PIPE_DIRECTORY" in os.environ:
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="winze-mps-", ignore_cleanup_errors=True) as folder:
        ours = {"CUDA_MPS_PIPE_DIRECTORY": f"{folder}/pipe", "CUDA_MPS_LOG_DIRECTORY": f"{folder}/log"}
        for path in ours.values():
            os.mkdir(path)  # noqa: PTH102
        started = _told(binary, ["-d"], ours)
        try:
            yield {"CUDA_MPS_PIPE_DIRECTORY": ours["CUDA_MPS_PIPE_DIRECTORY"]} if started else {}
        finally:
            if started:
                _told(binary, [], ours, "quit\n")


def _told(binary: str, words: list[str], environment: dict[str, str], given: str = "") -> bool:
    """Whether a command to the service succeeded."""
    try:
        done = subprocess.run(
            [binary, *words], env=os.environ | environment, input=given, text=True, capture_output=True, timeout=SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
