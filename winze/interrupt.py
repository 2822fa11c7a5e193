"""Ctrl-C while the command `winze` is still being imported ends it in one line.

Python would print a traceback through half of torch. Nothing has been done by then, so that nothing needs tidying up.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import PurePath
from types import FrameType

INTERRUPTED = 130


def guard_import() -> None:
    """Where this process was started as the command, have Ctrl-C end it at once, until `import_is_over`."""
    if _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def import_is_over() -> None:
    """Let Ctrl-C raise KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, b"winze: interrupted; nothing was done yet, the same command starts again\n")
    os._exit(INTERRUPTED)


def _is_command() -> bool:
    """Whether Python was given the script `winze` or `-m winze`; its worker processes were not."""
    words = [word for word in sys.orig_argv[1:] if word == "-m" or not word.startswith("-")]
    return words[:2] == ["-m", "winze"] or (bool(words) and PurePath(words[0]).name == "winze")
