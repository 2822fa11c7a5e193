"""A pass in shards: pieces of the data are read in parallel, and their results merged in order."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import reduce
from pathlib import Path
from pickle import PicklingError
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from winze.measure import CKA, ClassMeans, Moments
from winze.networks.from_file import MADE_FROM_FILE, import_file
from winze.observe.passes.feed import Feed
from winze.observe.passes.pieces import cut

if TYPE_CHECKING:
    from winze.observe.passes.reader import Reader


@runtime_checkable
class Crew(Protocol):
    """A pool of `size` workers: `winze.lab.Processes(2)`, `winze.lab.OnRay()`."""

    size: int

    def each(self, work: Callable[[Any], Any], jobs: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """The index and result of each job, as they finish; the first error is raised."""


def in_shards(work: Callable[..., Any], reader: Reader, feed: Feed, *args: Any) -> Any:
    """`work(reader, feed, *args)`, in the reader's worker pool if it has one.

    Shards end at batch boundaries and know the number of samples before them, so that held-out tenths, minibatches and
    the order of samples are those of one pass. Only the order of summation differs: results agree to float64 rounding
    (1e-10), per-sample ones exactly.
    """
    pieces = cut(feed, reader.crew.size) if reader.crew is not None else []
    if reader.crew is None or len(pieces) < 2:
        return work(reader, feed, *args)
    alone = replace(reader, crew=None, track=_quietly)
    tasks = [_packed(work, alone, piece, args) for piece in pieces]
    results: dict[int, Any] = {}
    for index, packed in reader.track(
        reader.crew.each(_read, tasks), f"{feed.name}: {len(pieces)} shards", len(pieces)
    ):
        results[index] = torch.load(io.BytesIO(packed), map_location=feed.device, weights_only=False)
    found = [results[index] for index in range(len(pieces))]
    feed.samples, feed.size = sum(samples for _, samples, _ in found), max(size for _, _, size in found)
    return reduce(_merged, (result for result, _, _ in found))


def _packed(work: Callable[..., Any], reader: Reader, feed: Feed, args: tuple[Any, ...]) -> tuple[bytes, Any]:
    files = {name: module.__file__ for name, module in sys.modules.items() if name.startswith(MADE_FROM_FILE)}
    buffer = io.BytesIO()
    try:
        torch.save((work, reader, feed, args), buffer)
    except (PicklingError, AttributeError, TypeError) as error:
        net = type(reader.net).__name__
        raise ValueError(f"{net} cannot be sent to another process, scan it without shards: {error}") from error
    return buffer.getvalue(), files


def _read(task: tuple[bytes, dict[str, str]]) -> bytes:
    """Read one shard in a worker."""
    packed, files = task
    for name, file in files.items():
        if name not in sys.modules:
            import_file(Path(file))
    work, reader, feed, args = torch.load(io.BytesIO(packed), map_location=_nearest, weights_only=False)
    feed.device = _here(feed.device)
    with torch.no_grad():
        result = work(reader, feed, *args)
    buffer = io.BytesIO()
    torch.save((result, feed.samples, feed.size), buffer)
    return buffer.getvalue()


def _nearest(storage: Any, location: str) -> Any:
    """The map location of tensors: a GPU that does not exist here becomes the first one."""
    return torch.serialization.default_restore_location(storage, str(_here(torch.device(location))))


def _here(device: torch.device | None) -> torch.device | None:
    if device is not None and device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        return torch.device("cuda", 0)
    return device


def _merged(first: Any, second: Any) -> Any:
    """Merge the results of two shards: accumulators are merged, samples concatenated."""
    if isinstance(first, Moments | ClassMeans | CKA):
        return first.merge(second)
    if isinstance(first, Tensor):
        return torch.cat([first, second])
    if isinstance(first, list | tuple):
        if not first or not second:  # the first few samples, for example, of which later shards have none
            return first or second
        return type(first)(_merged(a, b) for a, b in zip(first, second, strict=True))
    if is_dataclass(first) and not isinstance(first, type):
        names = [field.name for field in fields(first)]
        return replace(first, **{name: _merged(getattr(first, name), getattr(second, name)) for name in names})
    return first if second is None else second


def _quietly(batches: Any, text: str, total: int) -> Any:
    return batches
