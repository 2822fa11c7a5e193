"""Exit codes, and which errors are meant for the user."""

from __future__ import annotations

DONE, FAULT, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


class FailedError(Exception):
    """A command whose failures were reported one by one; `code` is its exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def said(error: BaseException) -> str:
    """What an error says; of the system's own, which speak in numbers, the file and the reason."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename} cannot be read or written: {error.strerror[:1].lower()}{error.strerror[1:]}"
    return str(error) or type(error).__name__


def printable(text: str) -> str:
    """A text on one line without control characters, which names in files may hold and terminals obey."""
    return "".join(one if one.isprintable() else "?" for one in " ".join(text.split()))


def printable_lines(text: str) -> str:
    """The same of a text of several lines."""
    return "\n".join(map(printable, text.split("\n")))


def is_bad_input(error: Exception | None) -> bool:
    """Whether an error speaks to the user; the rest are faults of ours, which keep their traceback."""
    from winze.memory import is_out_of_memory
    from winze.observe import CutError
    from winze.shape import CaptureError
    from winze.train import DivergedError

    own = CaptureError, CutError, DivergedError
    return isinstance(error, (ValueError, OSError, *own)) or (error is not None and is_out_of_memory(error))
