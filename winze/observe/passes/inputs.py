"""Bring data in any common form to a pair of tensors or batches (x, y), which a scan reads."""

from __future__ import annotations

import copy
import inspect
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils.data import DataLoader, Dataset

from winze.data import Batches, Preprocess, load
from winze.modes import GENERATORS, RandomGenerator

Array = np.ndarray[Any, np.dtype[Any]]
AnyData = Any
"""Inputs and labels (x, y) as tensors or NumPy arrays, a torch `Dataset`, or an iterable of batches: (x, y), where x is
a tensor, a tuple, or a dict of arguments, or one dict with the key `labels` or `label`."""
LABELS = ("labels", "label")


@dataclass(frozen=True)
class Stored:
    """Data of a path or a name, prepared for a network."""

    name: str
    train: Batches
    test: Batches
    notes: tuple[str, ...]
    conventions: dict[str, Any]


def stored(train: str | os.PathLike[str], test: AnyData, net: nn.Module, batch: int) -> Stored:
    """A folder, an .npz file or a data set by name, with its images prepared as the network's configuration says.

    A network without one gets images of their own size, normalised by their own statistics.
    """
    if test is not None:
        raise ValueError(f"train={os.fspath(train)!r} has both splits: leave test= out")
    dataset = load(os.fspath(train))
    config = getattr(net, "pretrained_cfg", None)
    way, said = None, "samples go in as they are stored"
    if dataset.holds_images:
        known = isinstance(config, Mapping) and all(config.get(key) for key in ("input_size", "mean", "std"))
        way = Preprocess.from_config(config) if known and config is not None else Preprocess.of(dataset)
        size = "x".join(map(str, (way.channels, *(way.size or dataset.shape[1:]))))
        said = f"input {size}, normalised by the {'network' if known else 'data'}'s statistics"
        if known:
            said += ", as its configuration says (trained otherwise? pass winze.data.Batches with preprocess=)"
    learnt, asked = (Batches(*part, size=batch, preprocess=way) for part in (dataset.train, dataset.test))
    conventions = {"classes": list(dataset.classes), "preprocess": None if way is None else way.to_dict()}
    path = Path(train)
    return Stored(path.name if path.exists() else dataset.name, learnt, asked, (*dataset.notes, said), conventions)


def measure_names(measures: str | Sequence[str], known: Sequence[str]) -> set[str]:
    """The requested measures, one or several, by name."""
    asked: list[Any] = [measures] if isinstance(measures, str) or callable(measures) else list(measures)
    strange = [each for each in asked if each not in known]
    if strange or not asked:
        said = ", ".join(getattr(each, "__name__", str(each)) for each in strange) or "none"
        why = ": add a measure of your own by winze.measure.register" if any(map(callable, strange)) else ""
        raise ValueError(f"measures are {', '.join(known)}; got {said}{why}")
    return set(asked)


def prepared(data: AnyData, name: str, batch: int, net: nn.Module | None = None) -> AnyData:
    """The data as a pair of tensors or as re-iterable batches; an error names the fix."""
    if isinstance(data, str | os.PathLike):
        raise TypeError(
            f"{name}: {data!r} is a string: give a path as train= and leave test= out, or use winze.data.load"
        )
    if isinstance(data, Tensor | np.ndarray):
        raise TypeError(f"{name}: inputs without labels: pass a pair (x, y)")
    if hasattr(data, "to_numpy") and not hasattr(data, "column_names"):
        raise TypeError(f"{name}: a {type(data).__name__} of inputs without labels: pass a pair (x, y)")
    if isinstance(data, tuple | list) and len(data) == 2 and _are_labels(data[1]):
        return as_tensors(data[0], net), labels_of(data[1], name)
    if isinstance(data, DataLoader):
        return with_own_workers(data)
    if isinstance(data, Dataset) or hasattr(data, "column_names"):  # the latter: Hugging Face's
        return DataLoader(data, batch)
    if not isinstance(data, Iterable):
        raise TypeError(f"{name}: expected a pair (x, y), a Dataset or a DataLoader, got {type(data).__name__}")
    if iter(data) is data:
        raise ValueError(
            f"{name}: an iterator can be read only once; pass a DataLoader, a list of batches or a pair of tensors"
        )
    return data


def batches_of(data: AnyData, name: str, names: frozenset[str] | None = None) -> Iterator[tuple[Any, Any]]:
    """Each batch as (x, y); of a dict, x holds the arguments of these `names`."""
    try:
        for item in data:
            yield split(item, name, names)
    except TypeError as error:
        if "collate" not in str(error):
            raise
        raise ValueError(
            f"{name}: samples cannot be put into batches, give the dataset a transform that makes tensors: {error}"
        ) from error


def split(item: Any, name: str, names: frozenset[str] | None = None) -> tuple[Any, Any]:
    """One batch as inputs and labels."""
    if isinstance(item, Mapping):
        key = next((key for key in LABELS if key in item), None)
        if key is None:
            keys = ", ".join(map(str, item))
            raise ValueError(f"{name}: a batch has no key 'labels' or 'label', but {keys}: rename the one with labels")
        rest = {key: value for key, value in item.items() if key not in LABELS}
        return as_tensors(_arguments(rest, names, name)), item[key]
    if not isinstance(item, tuple | list):
        raise ValueError(f"{name}: expected a pair of tensors, or batches of (x, y), got {type(item).__name__}")
    if len(item) != 2:
        raise ValueError(
            f"{name}: a batch has {len(item)} parts; expected (x, y), with several inputs ((x1, x2), y), or a dict"
        )
    return as_tensors(item[0]), item[1]


def _arguments(given: dict[str, Any], names: frozenset[str] | None, name: str) -> Any:
    """The part of a batch that goes into the network: arguments of its forward, or a single tensor under any name."""
    tensors = {key: value for key, value in given.items() if isinstance(value, Tensor | np.ndarray)}
    if names is None:
        return tensors
    known = {key: value for key, value in given.items() if key in names}
    if known:
        return known
    if len(tensors) == 1:
        return next(iter(tensors.values()))
    raise ValueError(
        f"{name}: a batch has {', '.join(given) or 'no inputs'}, the network's forward takes {', '.join(sorted(names))}"
    )


def argument_names(net: nn.Module) -> frozenset[str] | None:
    """The names of the arguments that a network's forward takes; None where it takes any."""
    try:
        known = inspect.signature(net.forward).parameters
    except (TypeError, ValueError):
        return None
    kinds = {each.kind for each in known.values()}
    return None if inspect.Parameter.VAR_KEYWORD in kinds and len(known) < 3 else frozenset(known)


def as_tensors(tree: Any, net: nn.Module | None = None) -> Any:
    """NumPy arrays as tensors, floats in the network's type."""
    dtype = next((p.dtype for p in net.parameters() if p.is_floating_point()), None) if net is not None else None

    def tensor(leaf: Any) -> Any:
        leaf = leaf.to_numpy() if hasattr(leaf, "to_numpy") else leaf  # a table of pandas
        if not isinstance(leaf, np.ndarray):
            return leaf
        if leaf.dtype == object or leaf.dtype.kind in "USO":
            raise TypeError(f"inputs are an array of {leaf.dtype}; expected numbers")
        made = torch.from_numpy(_native(leaf))
        return made.to(dtype or torch.get_default_dtype()) if made.is_floating_point() else made

    return pytree.tree_map(tensor, tree)


def _native(array: Array) -> Array:
    """The array as torch takes it: writable, its samples one after the other, bytes in this machine's order."""
    return np.require(array, array.dtype.newbyteorder("="), ["C", "W"])


def labels_of(y: Any, name: str) -> Tensor:
    """Labels as one row of integers from 0 on, on the CPU."""
    kind = np.asarray(y).dtype if not isinstance(y, Tensor) else None
    if kind is not None and kind.kind in "USO":
        raise ValueError(f"{name}: labels are texts; number them: np.unique(labels, return_inverse=True)[1]")
    labels = torch.as_tensor(y if kind is None else _native(np.asarray(y))).cpu()
    if labels.ndim == 0:
        raise ValueError(
            f"{name}: labels must be a row of integers, got one number: single samples instead of batches? Pass the "
            "Dataset itself, or a DataLoader"
        )
    if labels.ndim != 1:
        fix = "labels.squeeze(1)" if labels.shape[1:] == (1,) else "one-hot labels as labels.argmax(1)"
        raise ValueError(f"{name}: labels must be a row of integers, got shape {tuple(labels.shape)}: pass {fix}")
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise ValueError(f"{name}: labels must be a row of integers, got {labels.dtype}: pass labels.long()")
    labels = labels.long()
    if len(labels) and int(labels.min()) < 0:
        raise ValueError(f"{name}: labels start at 0, got {int(labels.min())}: leave such samples out")
    return labels


def generators(*data: Any) -> list[RandomGenerator]:
    """The generators of torch, NumPy and Python that loaders, their samplers and datasets hold, which reading moves."""
    held = (own for one in data for part in loader_parts(one) for own in getattr(part, "__dict__", {}).values())
    return list({id(own): own for own in held if isinstance(own, GENERATORS)}.values())


def loader_parts(loader: Any) -> list[Any]:
    """A loader, what draws the order for it, and its dataset."""
    batches, *others = (getattr(loader, name, None) for name in ("batch_sampler", "sampler", "dataset"))
    found = (loader, batches, getattr(batches, "sampler", None), *others)
    return list({id(part): part for part in found if part is not None}.values())


def _are_labels(y: Any) -> bool:
    """Whether the second of two things is labels, rather than a second batch."""
    if isinstance(y, list):
        return all(isinstance(each, int | np.integer | str) for each in y)
    return isinstance(y, Tensor | np.ndarray) or type(y).__name__ == "Series"


def with_own_workers(loader: DataLoader[Any]) -> DataLoader[Any]:
    """A loader with workers of its own: those of a running training loop would lose their position."""
    if not loader.persistent_workers:
        return loader
    own = copy.copy(loader)
    own._iterator = None
    return own
