"""What can go wrong with data; each message is one line that says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class DataError(ValueError):
    """Data that cannot be used as asked."""


class UnknownDataError(DataError):
    """A name that is neither a known set nor a folder or file."""


class MissingDataError(DataError, FileNotFoundError):
    """A known set, or a file of it, that is nowhere to be found."""


class CorruptDataError(DataError):
    """A file that is there and cannot be read as what it should be."""


@contextmanager
def reading(path: Path, kind: str) -> Iterator[None]:
    """Turn whatever a decoder raises into one line that names the file.

    Memory errors and interrupts pass through: they say nothing about the file.
    """
    try:
        yield
    except DataError:
        raise
    except (FileNotFoundError, NotADirectoryError) as error:
        raise MissingDataError(f"{path} is missing") from error
    except PermissionError as error:
        raise DataError(f"{path} cannot be read: permission denied") from error
    except MemoryError:
        raise
    except Exception as error:  # decoders raise anything: zlib.error, EOFError, SyntaxError, BadZipFile, ...
        reason = " ".join(str(error).split()) or type(error).__name__
        raise CorruptDataError(f"{path} cannot be read as {kind} (damaged or cut short?): {reason}") from error
