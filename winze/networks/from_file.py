"""A network made by a function in a Python file: `my_file.py:make_net`."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from winze.hints import did_you_mean
from winze.networks.network_error import NetworkError, one_line

MADE_FROM_FILE = "winze_file_"
"""How the names of modules begin that were imported from a file by its path."""


def build_from_file(spec: str, classes: int | None, kwargs: dict[str, Any]) -> nn.Module:
    """Import the file under a name of its own and call its function; the file's folder is importable meanwhile.

    `classes` is passed to a parameter named `classes` or `num_classes` where there is one.
    """
    file, _, name = spec.rpartition(":")
    if not file.endswith(".py") or not name.isidentifier():
        raise NetworkError(f"{spec!r} names no function: write my_file.py:make_net")
    path = Path(file).expanduser()
    if not path.is_file():
        raise NetworkError(f"{file}: there is no such file")
    with _folder_importable(path.resolve().parent):
        module = _imported(path)
        make = getattr(module, name, None)
        if make is None:
            functions = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
            hint = did_you_mean(name, functions) or f"; it has {', '.join(functions) or 'no function at all'}"
            raise NetworkError(f"{file} has no {name!r}{hint}")
        if not callable(make):
            raise NetworkError(f"{spec} is a {type(make).__name__}; it must be a function that returns a network")
        made = _called(make, path, spec, _arguments(make, classes, kwargs))
    if not isinstance(made, nn.Module):
        raise NetworkError(f"{spec} gave back a {type(made).__name__}; it must return a torch.nn.Module")
    return made


def import_file(path: Path) -> ModuleType:
    """Import a file as `build_from_file` does, for a pickle of what it made."""
    with _folder_importable(path.resolve().parent):
        return _imported(path)


def _imported(path: Path) -> ModuleType:
    name = f"{MADE_FROM_FILE}{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    found = importlib.util.spec_from_file_location(name, path)
    assert found is not None  # the name ends in .py, which has a loader
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module  # where dataclasses and pickles of the file look for their module
    try:
        found.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise NetworkError(f"{path}{_line(error, path)} cannot be imported: {one_line(error)}") from error
    return module


def _arguments(make: Any, classes: int | None, kwargs: dict[str, Any]) -> dict[str, Any]:
    if classes is None:
        return kwargs
    try:
        names = inspect.signature(make).parameters
    except (TypeError, ValueError):
        return kwargs
    wanted = next((name for name in ("classes", "num_classes") if name in names), None)
    return kwargs if wanted is None else {wanted: classes} | kwargs


def _called(make: Any, path: Path, spec: str, arguments: dict[str, Any]) -> Any:
    try:
        return make(**arguments)
    except (Exception, SystemExit) as error:
        raise NetworkError(f"{spec}{_line(error, path)} failed: {one_line(error)}") from error


def _line(error: BaseException, path: Path) -> str:
    """`, line 7`: the deepest line of the user's own file in a traceback."""
    here = path.resolve()
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).resolve() == here:
        return f", line {error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame.lineno for frame in frames if Path(frame.filename).resolve() == here]
    return f", line {own[-1]}" if own else ""


@contextmanager
def _folder_importable(folder: Path) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        if str(folder) in sys.path:
            sys.path.remove(str(folder))
