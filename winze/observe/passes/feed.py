"""Data as a scan takes it: pairs of tensors, or anything that yields (x, y) batches again and again."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler, default_collate

from winze.memory import is_out_of_memory
from winze.observe.passes.inputs import AnyData, argument_names, batches_of, labels_of, prepared, split
from winze.shape.sums.example import Example

LOOKED_UP = 64
"""Classes of which a sample is compared with the labels that its dataset lists."""


@dataclass(frozen=True)
class Batch:
    """The arguments of one call of the network, and its labels; `offset` counts the samples before it.

    `reduced`: the result of `reduce` on all of its features, where the forward may run as a CUDA graph.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    labels: Tensor
    offset: int
    reduced: bool = False

    def __len__(self) -> int:
        return len(self.labels)


@dataclass
class Feed:
    """One split of one data set, which can be read any number of times. `kept` are the classes in use, in the order of
    their new numbers; samples of other classes are left out. After a pass, `samples` is their number and `size` the
    largest batch. `offset` counts the samples before the first one where this is a shard (None: as the data says).
    `names` are the arguments that the network takes (None: any).
    """

    data: AnyData
    name: str
    batch: int = 256
    device: torch.device | None = None
    kept: Tensor | None = None
    notes: list[str] = field(default_factory=list)
    samples: int = 0
    size: int = 0
    offset: int | None = None
    names: frozenset[str] | None = None

    @classmethod
    def of(cls, data: AnyData, name: str, batch: int, device: torch.device, net: nn.Module) -> Feed:
        """A feed from any form of data that a scan takes."""
        return cls(prepared(data, name, batch, net), name, batch, device, names=argument_names(net))

    def __iter__(self) -> Iterator[Batch]:
        offset = int(getattr(self.data, "offset", 0)) if self.offset is None else self.offset
        seen = 0
        for x, y in self._pairs():
            labels = labels_of(y, self.name)
            args, kwargs = _arguments(x)
            if self.kept is not None:
                args, kwargs, labels = _only(args, kwargs, labels, self.kept)
            if not len(labels):
                continue
            args, kwargs = _moved((args, kwargs), self.device)
            _check_rows(args, kwargs, labels, self.name)
            yield Batch(args, kwargs, labels, offset + seen)
            seen += len(labels)
            self.size = max(self.size, self.batch if is_pair(self.data) else len(labels))
        if not seen:
            raise ValueError(f"{self.name}: no samples")
        self.samples = seen

    def __len__(self) -> int:
        if is_pair(self.data):
            return math.ceil(len(self.data[1]) / self.batch)
        with suppress(TypeError):  # streams, such as loaders of an IterableDataset, have no length
            return len(self.data)
        return 0

    def example(self, samples: int = 2) -> Any:
        """The first samples as arguments of the network: a tuple or a dict of keyword arguments."""
        batch = next(iter(self))
        return _rows(batch.kwargs or batch.args, lambda t: t[:samples] if t.ndim else t)

    def checked_example(self, net: nn.Module) -> Any:
        """The first samples, after making sure that a network takes them; it runs in its present mode."""
        given = self.example()
        taken = Example(given)
        try:
            with torch.no_grad():
                output = net(*taken.args, **taken.kwargs)
        except Exception as error:
            if is_out_of_memory(error):
                raise
            like = next((p.dtype for p in net.parameters() if p.is_floating_point()), None)
            kinds = {tensor.dtype for tensor in taken.tensors}
            fix = f"; pass x.to({like})" if len(kinds) == 1 and like is not None and kinds != {like} else ""
            shapes = ", ".join(f"{str(each.dtype)[6:]} {list(each.shape)}" for each in taken.tensors)
            raise ValueError(f"{self.name}: {type(net).__name__} does not take {shapes}: {error}{fix}") from error
        if any(isinstance(leaf, Tensor) and leaf.is_meta for leaf in torch.utils._pytree.tree_leaves(output)):
            raise ValueError(
                f"{type(net).__name__} computes nothing, its weights are on the meta device: load them first"
            )
        return given

    def classes(self) -> Tensor:
        """The labels that occur, sorted."""
        labels = _known_labels(self.data, self.name)
        if labels is None:
            labels = torch.cat([torch.zeros(0).long(), *(labels_of(y, self.name) for _, y in self._pairs())])
        if not len(labels):
            raise ValueError(f"{self.name}: no samples")
        return labels.unique()

    def _pairs(self) -> Iterable[tuple[Any, Any]]:
        if is_pair(self.data):
            x, y = self.data
            _check_rows((x,), {}, y, self.name, all_of_them=True)  # since each is cut into batches
            parts = (slice(i, i + self.batch) for i in range(0, len(y), self.batch))
            return ((_rows(x, lambda t, part=part: t[part] if t.ndim else t), y[part]) for part in parts)
        return batches_of(self.data, self.name, self.names)


def pair(
    train: AnyData, test: AnyData, name: str, batch: int, device: torch.device, net: nn.Module
) -> tuple[Feed, Feed, int]:
    """Both splits of a data set on the classes they have in common, numbered from 0, and how many those are."""
    feeds = Feed.of(train, f"{name} train", batch, device, net), Feed.of(test, f"{name} test", batch, device, net)
    seen = [feed.classes() for feed in feeds]
    common = seen[0][torch.isin(seen[0], seen[1])]
    if len(common) < 2:
        raise ValueError(f"{name}: a probe needs at least 2 classes in train and test, got {len(common)} in common")
    for feed, own in zip(feeds, seen, strict=True):
        left_out = len(own) - len(common)
        if left_out:
            feed.notes.append(f"{feed.name}: {left_out} of {len(own)} classes are not in the other split: left out")
    contiguous = torch.equal(common, torch.arange(len(common))) and all(len(own) == len(common) for own in seen)
    if not contiguous:
        for feed in feeds:
            feed.kept = common
    return *feeds, len(common)


def is_pair(data: AnyData) -> bool:
    """Whether it is one pair of inputs and labels, rather than batches."""
    return isinstance(data, tuple | list) and len(data) == 2 and isinstance(data[1], Tensor)


def _known_labels(data: AnyData, name: str) -> Tensor | None:
    """The labels in the data, in any order, where they are known without reading all of it."""
    if is_pair(data):
        return labels_of(data[1], name)
    if isinstance(data, list | tuple) or (isinstance(data, DataLoader) and not _is_plain(data)):
        return None
    for owner in (data, getattr(data, "dataset", None)):
        for attribute in ("labels", "targets"):
            found = getattr(owner, attribute, None)
            if found is not None and hasattr(found, "__len__") and len(found):
                with suppress(ValueError):  # where they differ from the labels of the samples
                    labels = _transformed(labels_of(found, name), owner)
                    if labels is not None and _are_of(labels, owner, name):
                        return labels
    return None


def _is_plain(loader: DataLoader[Any]) -> bool:
    """Whether a loader yields all samples of its dataset unchanged."""
    ways = (SequentialSampler, RandomSampler)
    if type(loader.sampler) not in ways or type(loader.batch_sampler) not in (BatchSampler, type(None)):
        return False
    all_of_it = len(loader.sampler) == len(loader.dataset)  # type: ignore[arg-type]
    return all_of_it and loader.collate_fn is default_collate


def _transformed(labels: Tensor, dataset: Any) -> Tensor | None:
    """Labels of a torchvision-like dataset, after its `target_transform`."""
    change = getattr(dataset, "target_transform", None)
    if change is None:
        both = getattr(dataset, "transforms", None)
        return labels if both is None or hasattr(both, "target_transform") else None
    kinds, which = labels.unique(return_inverse=True)
    return torch.as_tensor([int(change(label)) for label in kinds.tolist()])[which]


def _are_of(labels: Tensor, dataset: Any, name: str) -> bool:
    """Whether samples of a dataset come with these labels: one of each class is looked up."""
    if not hasattr(dataset, "__getitem__"):
        return True
    if len(labels) != len(dataset):
        return False
    known, first = np.unique(labels.numpy(), return_index=True)
    chosen = list(zip(known.tolist(), first.tolist(), strict=True))[:: math.ceil(len(known) / LOOKED_UP)]
    return all(torch.as_tensor(split(dataset[i], name)[1]).tolist() == label for label, i in chosen)


def _arguments(x: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(x, dict):
        return (), x
    return (tuple(x), {}) if isinstance(x, tuple | list) else ((x,), {})


def _rows(tree: Any, choose: Any) -> Any:
    return torch.utils._pytree.tree_map(lambda leaf: choose(leaf) if isinstance(leaf, Tensor) else leaf, tree)


def _only(args: Any, kwargs: Any, labels: Tensor, kept: Tensor) -> tuple[Any, Any, Tensor]:
    inside = torch.isin(labels, kept)
    n = len(labels)
    args, kwargs = _rows((args, kwargs), lambda t: t[inside.to(t.device)] if t.ndim and len(t) == n else t)
    return args, kwargs, torch.searchsorted(kept, labels[inside])


def _moved(tree: Any, device: torch.device | None) -> Any:
    return _rows(tree, lambda t: t.to(device, non_blocking=True))


def _check_rows(args: Any, kwargs: Any, labels: Tensor, name: str, all_of_them: bool = False) -> None:
    leaves = torch.utils._pytree.tree_leaves((args, kwargs))
    given = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    if not given:
        kinds = ", ".join(sorted({type(leaf).__name__ for leaf in leaves}) or ["nothing"])
        raise ValueError(
            f"{name}: {len(labels)} labels for inputs that are no tensors ({kinds}): pass a tensor or array"
        )
    cut = [one for one in given if one.ndim] if all_of_them else []
    for one in cut or given[:1]:
        if one.ndim == 0 or len(one) != len(labels):
            raise ValueError(f"{name}: a batch has {len(labels)} labels for input of shape {tuple(one.shape)}")
