"""Weights from files: safetensors, or torch checkpoints that hold nothing but tensors."""

from __future__ import annotations

import os
import pickle
import pickletools
import re
import warnings
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from winze.networks.errors import NetworkError, one_line

Weights = dict[str, Tensor]
NESTS = ("state_dict", "model", "model_state_dict", "net")
WRAPPERS = ("module.", "_orig_mod.")  # DataParallel and DDP; torch.compile


def load_weights(net: nn.Module, file: str | os.PathLike[str]) -> nn.Module:
    """Put a file's weights into a network, in place, and return it; on an error nothing has changed."""
    weights = read_weights(file)
    own = net.state_dict()
    missing, unexpected = [k for k in own if k not in weights], [k for k in weights if k not in own]
    shaped = [k for k in own if k in weights and own[k].shape != weights[k].shape]
    differ = [f"{k} is {_shape(weights[k])} in the file, {_shape(own[k])} in the network" for k in shaped]
    problems = (_listed("missing", missing), _listed("unexpected", unexpected), _listed("of other shape", differ))
    if any(problems):
        raise NetworkError(f"{file} does not fit {type(net).__name__}: {'; '.join(filter(None, problems))}")
    net.load_state_dict(weights)
    return net


def read_weights(file: str | os.PathLike[str]) -> Weights:
    """The tensors of a checkpoint by name, on the CPU, whatever they are nested in or prefixed with."""
    path = Path(file).expanduser()
    if path.is_dir():
        raise NetworkError(f"{file} is a folder; weights are one file")
    if not path.is_file():
        raise NetworkError(f"{file}: there is no such file of weights")
    with path.open("rb") as opened:
        start = opened.read(9)
    if start[8:] == b"{":
        return _unwrapped(_safetensors(path), path)
    if start[:2] == b"PK" or start[:1] == b"\x80":
        return _unwrapped(_torch(path), path)
    raise NetworkError(f"{file} is not a checkpoint: neither safetensors nor a file that torch.save wrote")


def _safetensors(path: Path) -> Any:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except SafetensorError as error:
        raise NetworkError(f"{path} is no whole safetensors file (cut short?): {one_line(error)}") from error


def _torch(path: Path) -> Any:
    if _is_script(path):
        raise NetworkError(f"{path} is a TorchScript archive, which holds code: save net.state_dict() instead")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is wrong with a file is said below
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        named = re.search(r"(?:GLOBAL|unrecognized function|Unsupported class) (\S+)", str(error))
        called = named[1] if named is not None else _called(path)
        if not called:
            raise NetworkError(f"{path} is damaged or not a checkpoint: {_first_sentence(error)}") from error
        raise NetworkError(
            f"{path} is refused: it is a pickle with code in it ({called}), which loading would run; "
            "save only the tensors, torch.save(net.state_dict(), file) or safetensors"
        ) from error
    except Exception as error:  # zip and pickle readers raise anything on a damaged file
        raise NetworkError(f"{path} is damaged or not a checkpoint: {_first_sentence(error)}") from error


def _called(path: Path) -> str:
    """What a plain pickle would call; empty where it calls nothing or is none."""
    words: list[str] = []
    with suppress(Exception), path.open("rb") as file:  # of a damaged file nothing can be said
        for step, argument, _ in pickletools.genops(file):
            if step.name in ("GLOBAL", "INST"):
                return str(argument).replace(" ", ".")
            if step.name == "STACK_GLOBAL":
                return ".".join(words[-2:])
            if isinstance(argument, str):
                words.append(argument)
    return ""


def _is_script(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.split("/")[1:2] == ["constants.pkl"] for name in archive.namelist())
    except zipfile.BadZipFile:
        return False


def _unwrapped(loaded: Any, path: Path) -> Weights:
    """The innermost dict of tensors, without the prefixes that wrappers add to every name."""
    while isinstance(loaded, Mapping) and (nest := next((k for k in NESTS if isinstance(loaded.get(k), Mapping)), "")):
        loaded = loaded[nest]
    if not isinstance(loaded, Mapping):
        raise NetworkError(f"{path} holds a {type(loaded).__name__}, not a dict of tensors by name")
    others = [str(key) for key, value in loaded.items() if not isinstance(value, Tensor)]
    if others or not loaded:
        held = f"{', '.join(others[:5])} beside tensors" if others else "nothing"
        raise NetworkError(f"{path} is no state_dict: it holds {held}")
    weights = {str(key): value for key, value in loaded.items()}
    while prefix := next((p for p in WRAPPERS if all(k.startswith(p) for k in weights)), ""):
        weights = {key.removeprefix(prefix): value for key, value in weights.items()}
    return weights


def _listed(what: str, names: list[str], most: int = 5) -> str:
    if not names:
        return ""
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{len(names)} {what} ({', '.join(names[:most])}{rest})"


def _shape(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "a number"


def _first_sentence(error: BaseException) -> str:
    return re.split(r"(?<=[.!?]) |\n", one_line(error))[0]
