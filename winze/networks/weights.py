"""Weights from files: safetensors, or torch checkpoints that hold nothing but tensors."""

from __future__ import annotations

import json
import os
import pickle
import pickletools
import re
import warnings
import zipfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from winze.networks.network_error import NetworkError, one_line
from winze.networks.trained_rules import is_rules, warn_of_rules
from winze.networks.unwrap import unwrapped

KEY = "winze"
"""Under which a safetensors file has what winze says of its network."""
Weights = dict[str, Tensor]
NESTS = ("state_dict", "model", "model_state_dict", "net")
WRAPPERS = ("module.", "_orig_mod.")  # DataParallel and DDP; torch.compile


def load_weights(net: nn.Module, file: str | os.PathLike[str]) -> nn.Module:
    """Put a file's weights into a network, in place, and return it; on an error nothing has changed.

    Names may carry a prefix, such as Lightning's `net.` or `model.`. Where the file says with which rules its network
    was trained and this one has others, a warning names them.
    """
    inner = unwrapped(net)
    own = inner.state_dict()
    weights = without_prefix(read_weights(file), own, file)
    check_fit({name: tuple(tensor.shape) for name, tensor in weights.items()}, inner, file)
    check_kinds(weights, inner, file)
    inner.load_state_dict(weights)
    told = told_by(file)
    if isinstance(told, dict) and is_rules(told.get("rules")):
        warn_of_rules(told["rules"], inner, file)
    return net


def check_fit(shapes: Mapping[str, tuple[int, ...]], net: nn.Module, file: object) -> None:
    """Raise where names or shapes of a file's tensors are not those of a network, and list the first of them."""
    own = {name: tuple(value.shape) for name, value in net.state_dict().items() if isinstance(value, Tensor)}
    missing, unexpected = [k for k in own if k not in shapes], [k for k in shapes if k not in own]
    shaped = [k for k in own if k in shapes and own[k] != shapes[k]]
    differ = [f"{k} is {_shape(shapes[k])} in the file, {_shape(own[k])} in the network" for k in shaped]
    problems = (_listed("missing", missing), _listed("unexpected", unexpected), _listed("of other shape", differ))
    if any(problems):
        raise NetworkError(f"{file} does not fit {type(net).__name__}: {'; '.join(filter(None, problems))}")


def check_kinds(weights: Weights, net: nn.Module, file: object) -> None:
    """Raise where a file has whole or complex numbers for weights that are floats in a network, or the other way."""
    for key, value in net.state_dict().items():
        other = weights[key].dtype
        if (other.is_floating_point, other.is_complex) != (value.dtype.is_floating_point, value.dtype.is_complex):
            raise NetworkError(f"{file} does not fit {type(net).__name__}: {key} is {other} and not {value.dtype}")


def without_prefix(weights: Weights, names: Iterable[str], file: object) -> Weights:
    """The weights by these names, where one prefix before all of them is what keeps the file's names from fitting.

    What the file holds beside them, such as a loss with weights of its own, is left out with a warning.
    """
    wanted = list(names)
    if not wanted or weights.keys() >= set(wanted):
        return weights
    starts = [key.removesuffix(wanted[0]) for key in weights if key.endswith(f".{wanted[0]}")]
    fitting = [start for start in starts if all(start + name in weights for name in wanted)]
    if len(fitting) > 1:
        raise NetworkError(
            f"{file} holds several networks of this kind, under {' and '.join(fitting)}: keep one of them"
        )
    if not fitting:
        return weights
    inside = {key.removeprefix(fitting[0]): value for key, value in weights.items() if key.startswith(fitting[0])}
    others = [key for key in weights if not key.startswith(fitting[0])]
    if others:
        warnings.warn(f"{file}: {_listed('entries are not used', others)}", stacklevel=3)
    return inside


def told_by(file: str | os.PathLike[str]) -> Any:
    """What winze wrote into a safetensors file beside the tensors; None where there is nothing of the kind."""
    from safetensors import safe_open

    with suppress(Exception), safe_open(str(Path(file).expanduser()), "pt") as opened:  # type: ignore[no-untyped-call,unused-ignore]
        return json.loads((opened.metadata() or {})[KEY])
    return None


def read_weights(file: str | os.PathLike[str], *, strip: bool = True) -> Weights:
    """The tensors of a checkpoint by name, on the CPU, whatever they are nested in or, with `strip`, prefixed with."""
    path = Path(file).expanduser()
    if path.is_dir():
        raise NetworkError(f"{file} is a folder; weights are one file")
    if not path.is_file():
        raise NetworkError(f"{file}: there is no such file of weights")
    with path.open("rb") as opened:
        start = opened.read(9)
    if start[8:] == b"{":
        return _unwrapped(_safetensors(path), path, strip)
    if start[:2] == b"PK" or start[:1] == b"\x80":
        return _unwrapped(_torch(path), path, strip)
    raise NetworkError(f"{file} is not a checkpoint: neither safetensors nor a file that torch.save wrote")


def _safetensors(path: Path) -> Any:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except SafetensorError as error:
        raise NetworkError(f"{path} is not a whole safetensors file (cut short?): {one_line(error)}") from error


def _torch(path: Path) -> Any:
    _check_archive(path)
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


def _check_archive(path: Path) -> None:
    """Refuse TorchScript, and archives that unpack to more than they are: torch writes none."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError):  # torch says what is wrong
        return
    if any(entry.filename.split("/")[1:2] == ["constants.pkl"] for entry in entries):
        raise NetworkError(f"{path} is a TorchScript archive, which holds code: save net.state_dict() instead")
    unpacked, size = sum(entry.file_size for entry in entries), path.stat().st_size
    if unpacked > size:
        raise NetworkError(
            f"{path} is refused: it has {size / 1e6:.3g} MB and would unpack to {unpacked / 1e6:.3g} MB, as no "
            "checkpoint of torch does"
        )


def _unwrapped(loaded: Any, path: Path, strip: bool) -> Weights:
    """The innermost dict of tensors, without the prefixes that wrappers add to every name."""
    while isinstance(loaded, Mapping) and (nest := next((k for k in NESTS if isinstance(loaded.get(k), Mapping)), "")):
        loaded = loaded[nest]
    if not isinstance(loaded, Mapping):
        raise NetworkError(f"{path} holds a {type(loaded).__name__}, not a dict of tensors by name")
    others = [str(key) for key, value in loaded.items() if not isinstance(value, Tensor)]
    if others or not loaded:
        held = f"{', '.join(others[:5])} beside tensors" if others else "nothing"
        raise NetworkError(f"{path} is not a state_dict: it holds {held}")
    weights = {str(key): value for key, value in loaded.items()}
    while strip and (prefix := next((p for p in WRAPPERS if all(k.startswith(p) for k in weights)), "")):
        weights = {key.removeprefix(prefix): value for key, value in weights.items()}
    return weights


def _listed(what: str, names: list[str], most: int = 5) -> str:
    if not names:
        return ""
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{len(names)} {what} ({', '.join(names[:most])}{rest})"


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "a number"


def _first_sentence(error: BaseException) -> str:
    return re.split(r"(?<=[.!?]) |\n", one_line(error))[0]
