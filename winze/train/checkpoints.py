"""Checkpoints of a training: weights, all other state of the next step, and their hashes."""

from __future__ import annotations

import hashlib
import io
import json
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from winze.atomic import StoreError, remove_leftovers, write_atomically

WEIGHTS, STATE, SEAL = ".safetensors", ".pt", ".json"
VERSION = 3
PLAIN = (bool, int, float, str, type(None))


@dataclass(frozen=True)
class Checkpoint:
    """A training after `step` steps, on the CPU."""

    step: int
    weights: dict[str, Tensor]
    state: dict[str, Any]


class Checkpoints:
    """A folder with the newest checkpoints of one training.

    Each is three files: `<step>.safetensors` (weights), `<step>.pt` (the rest; read without running any code), and
    `<step>.json`, written last, with the size and SHA-256 of both and the versions of winze and torch. Files without
    this seal are no checkpoint, and a checkpoint of other versions is skipped: a training never mixes versions. `saved`
    is called with the state of each checkpoint once it is stored.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        keep: int = 2,
        saved: Callable[[Mapping[str, Any]], Any] = lambda state: None,
    ) -> None:
        if keep < 1:
            raise ValueError(f"at least 1 checkpoint must be kept, got {keep}")
        self.folder, self.keep, self.saved = Path(folder), keep, saved

    def save(self, step: int, weights: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Store a checkpoint and drop all but the newest `keep`; `state`: tensors, numbers, strings, dicts and
        lists."""
        from safetensors.torch import save

        _check_plain(dict(state), "state")
        buffer = io.BytesIO()
        torch.save(dict(state), buffer)
        # tied weights share memory, which safetensors refuses: each name gets its own
        own = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in weights.items()}
        bodies = {WEIGHTS: save(own), STATE: buffer.getvalue()}
        files = {end: _facts(body) for end, body in bodies.items()}
        self.folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers(self.folder)
        self._file(step, SEAL).unlink(missing_ok=True)
        for end, body in bodies.items():
            write_atomically(self._file(step, end), body)
        seal = {"version": VERSION, "step": step, "files": files, "by": _versions()}
        write_atomically(self._file(step, SEAL), json.dumps(seal, separators=(",", ":")).encode())
        self._drop([other for other in self._steps() if other > step])  # from before the training was set back
        self.prune(self.keep)
        self.saved(state)

    def newest(self) -> Checkpoint | None:
        """The newest valid checkpoint; a broken one is skipped with a warning that says why."""
        for step in reversed(self._steps()):
            try:
                return self._load(step)
            except StoreError as error:
                warnings.warn(f"checkpoint of step {step} is skipped: {error}", stacklevel=2)
        return None

    def prune(self, keep: int) -> None:
        """Keep the newest `keep` only."""
        self._drop(self._steps()[: -keep or None])

    def _steps(self) -> list[int]:
        if not self.folder.is_dir():
            return []
        return sorted(int(path.stem) for path in self.folder.glob(f"*{SEAL}") if path.stem.isdigit())

    def _drop(self, steps: list[int]) -> None:
        """Remove seals first, so that the rest is never taken for a checkpoint; then all files without a seal."""
        for step in steps:
            self._file(step, SEAL).unlink(missing_ok=True)
        sealed = set(self._steps())
        for path in (*self.folder.glob(f"*{WEIGHTS}"), *self.folder.glob(f"*{STATE}")):
            if path.stem.isdigit() and int(path.stem) not in sealed:
                path.unlink(missing_ok=True)

    def _load(self, step: int) -> Checkpoint:
        from safetensors.torch import load

        seal = _read_seal(self._file(step, SEAL), step)
        bodies = {}
        for end in (WEIGHTS, STATE):
            path = self._file(step, end)
            try:
                bodies[end] = body = path.read_bytes()
            except OSError as error:
                raise StoreError(f"{path} cannot be read: {error.strerror}") from error
            if _facts(body) != seal[end]:
                raise StoreError(f"{path} was cut short or changed after it was written: its SHA-256 differs")
        try:
            state = torch.load(io.BytesIO(bodies[STATE]), map_location="cpu", weights_only=True)
        except Exception as error:  # its hash is right: another program sealed it
            raise StoreError(f"{path} is not the state of a training run: {type(error).__name__}") from error
        return Checkpoint(step, load(bodies[WEIGHTS]), state)

    def _file(self, step: int, end: str) -> Path:
        return self.folder / f"{step}{end}"


def _check_plain(value: Any, where: str) -> None:
    """Raise where `torch.load(weights_only=True)` would refuse to load the state."""
    if isinstance(value, dict):
        for key, item in value.items():
            _check_plain(key, f"a key of {where}")
            _check_plain(item, f"{where}[{key!r}]")
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            _check_plain(item, f"{where}[{i}]")
    elif not (isinstance(value, Tensor) or type(value) in PLAIN):  # NumPy's float64 is a float, and refused
        raise TypeError(f"a checkpoint holds tensors, numbers, texts, dicts and lists; {where} is {type(value)}")


def _read_seal(path: Path, step: int) -> dict[str, Any]:
    try:
        seal = json.loads(path.read_bytes())
        version, told, files, by = seal["version"], seal["step"], dict(seal["files"]), dict(seal.get("by") or {})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path} was cut short or changed: {type(error).__name__}") from error
    if version != VERSION:
        raise StoreError(f"{path} has format {version}; this winze reads format {VERSION}")
    if told != step or files.keys() != {WEIGHTS, STATE}:
        raise StoreError(f"{path} was changed: it names another step or other files")
    if by != _versions():
        said, now = (", ".join(f"{name} {one}" for name, one in some.items()) for some in (by, _versions()))
        raise StoreError(f"{path} was written with {said or 'unknown versions'}, this is {now}")
    return files


def _versions() -> dict[str, str]:
    from winze import __version__

    return {"winze": __version__, "torch": str(torch.__version__)}


def _facts(body: bytes) -> dict[str, Any]:
    return {"bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}
