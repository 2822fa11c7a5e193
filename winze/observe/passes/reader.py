"""Run a network on data and pass on the features of each place, several places at a time."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from winze.measure import CentredBatch
from winze.memory import enough_memory
from winze.observe.passes.cuda_graph import SMALL, Arguments, Replay, is_worth_it
from winze.observe.passes.feed import Batch, Feed
from winze.observe.passes.hooks import recording
from winze.observe.passes.shards import Crew
from winze.observe.places.find_places import Spot
from winze.observe.places.memory_format import by_pixel
from winze.observe.places.pooling import Pool, sampled
from winze.shape.sums.example import Example

AT_ONCE = 1 << 20
"""Features, or entries of Gram matrices, that wait to be passed on: 8 MB in float64."""

TakeBlock = Callable[[int, CentredBatch, Batch], None]
Blocks = Iterable[tuple[int, CentredBatch]]
"""Features of neighbouring places of one width, each with the index of the first."""
T = TypeVar("T")


@dataclass
class Reader:
    """A network with its places and how features are pooled there. `by_pixel`: images are in channels-last memory
    format. `recorded`: on a GPU its forward may run as a CUDA graph.
    """

    net: nn.Module
    spots: Sequence[Spot]
    pool: Pool = "mean"
    max_features: int = 8000
    track: Callable[[Iterable[Any], str, int], Iterable[Any]] = lambda batches, text, total: batches
    crew: Crew | None = None
    by_pixel: bool = False
    recorded: bool = False

    def run(
        self,
        feed: Feed,
        take: TakeBlock,
        text: str,
        whole: bool = False,
        see: Callable[[Any, int], Any] = lambda output, samples: None,
        reduce: Callable[[Blocks, int], Any] = lambda blocks, samples: None,
    ) -> Generator[tuple[Batch, Any, Any], None, None]:
        """Run the network on the feed, and yield `see(output, samples)` for each batch.

        `take(first, block, batch)` gets the features of one place or more, from the `first` on: neighbours of equal
        width are passed on together while they are small. `reduce(blocks, samples)` of all places is part of the CUDA
        graph, where there is one, and its result is yielded too; elsewhere that is None. The next batch may overwrite
        features and results.
        """
        waiting = _Waiting(self, take, feed.name)
        read: set[int] = set()

        def hand(index: int, features: Tensor) -> None:
            read.add(index)
            waiting.add(position[index], features if whole else sampled(features, self.max_features, index))

        def forward(arguments: Arguments) -> Any:
            read.clear()
            output = self.net(*arguments[0], **arguments[1])
            waiting.hand_on()
            for spot in self.spots:
                if spot.place.index not in read:
                    raise ValueError(f"{feed.name}: a batch did not reach place {spot.place.name!r}")
            return see(output, len(waiting.batch))

        def gathered(arguments: Arguments) -> tuple[list[tuple[int, Tensor]], Any, Any]:
            with waiting.gathering() as features:
                seen = forward(arguments)
            return features, seen, reduce(((first, CentredBatch(each)) for first, each in features), len(waiting.batch))

        position = {spot.place.index: i for i, spot in enumerate(self.spots)}
        replay: Replay[Any] | None = None
        if self.recorded and feed.device is not None and is_worth_it(self.net, feed.device, len(feed)):
            replay = Replay(gathered, feed.device)
        with recording(self.net, self.spots, hand, self.pool), closing(replay) if replay else nullcontext():
            for batch in self.track(feed, text, len(feed)):
                waiting.begin(batch)
                with enough_memory(waiting.where):
                    arguments = batch.args, batch.kwargs
                    if self.by_pixel:
                        arguments = by_pixel(arguments)
                    found = replay(arguments) if replay is not None else None
                    seen = forward(arguments) if found is None else None
                if found is None:
                    yield batch, seen, None
                    if waiting.given > SMALL or _elements(arguments) > SMALL:
                        replay = None
                    continue
                waiting.batch = replace(batch, reduced=True)
                for first, each in found[0]:
                    waiting.give(first, each)
                yield waiting.batch, *found[1:]

    def names(self, feed: Feed) -> list[str]:
        """The names of the places in errors, with the data set."""
        return [f"{feed.name}, place {spot.place.name!r}" for spot in self.spots]

    def widths(self, feed: Feed) -> list[int]:
        """The number of features of each place."""
        found = [0] * len(self.spots)

        def take(first: int, block: CentredBatch, batch: Batch) -> None:
            found[first : first + len(block)] = [block.width] * len(block)

        batch = next(iter(feed))
        few = Example(batch.kwargs or batch.args).with_batch(2)
        labels = torch.zeros(2, dtype=torch.long)
        for _ in self.run(
            Feed([(few.kwargs or few.args, labels)], feed.name, device=feed.device), take, "", whole=True
        ):
            break
        return found


class _Waiting:
    """Features of places that wait to be passed on together; large ones do not wait."""

    def __init__(self, reader: Reader, take: TakeBlock, data: str) -> None:
        self.reader, self.take, self.data = reader, take, data
        self.views = reader.pool != "mean"  # the network may overwrite its output
        self.rows: list[Tensor] = []
        self.gathered: list[tuple[int, Tensor]] | None = None

    def begin(self, batch: Batch) -> None:
        self.batch, self.first, self.rows, self.given = batch, 0, [], 0
        self.reached: int | None = None

    def add(self, place: int, features: Tensor) -> None:
        n, width = features.shape
        self.reached = place
        if n != len(self.batch):
            raise ValueError(
                f"place {self._name(place)!r}: {n} rows for {len(self.batch)} samples; leave it out with places="
            )
        each = n * max(n, width)
        if self.rows and not (self._follows(place, features) and each * (len(self.rows) + 1) <= AT_ONCE):
            self.hand_on()
        if not self.rows:
            self.first = place
        last = 2 * each > AT_ONCE or place + 1 == len(self.reader.spots)
        self.rows.append(features.clone() if self.views and not last else features)
        if last:
            self.hand_on()

    def _follows(self, place: int, features: Tensor) -> bool:
        other = self.rows[-1]
        alike = (features.shape, features.dtype, features.device) == (other.shape, other.dtype, other.device)
        return alike and place == self.first + len(self.rows)

    def hand_on(self) -> None:
        if not self.rows:
            return
        rows, self.rows = self.rows, []
        self.give(self.first, torch.stack(rows) if len(rows) > 1 else rows[0][None])

    def give(self, first: int, features: Tensor) -> None:
        """Pass on the features of neighbouring places, from the `first` on."""
        self.given += features.numel()
        if self.gathered is None:
            with enough_memory(f"{self.data}, place {self._name(first)!r}, {features.shape[2]} features"):
                self.take(first, CentredBatch(features), self.batch)
        else:
            self.gathered.append((first, features.clone() if self.views else features))

    @contextmanager
    def gathering(self) -> Iterator[list[tuple[int, Tensor]]]:
        """While open, collect features in a list instead of passing them on."""
        self.gathered = []
        try:
            yield self.gathered
        finally:
            self.gathered = None

    def where(self) -> str:
        """The part of the forward that has run, for errors."""
        if self.reached is None:
            return f"{self.data}, before the first place"
        return f"{self.data}, after place {self._name(self.reached)!r}, the last one reached"

    def _name(self, place: int) -> str:
        return self.reader.spots[place].place.name


def _elements(arguments: Arguments) -> int:
    return sum(leaf.numel() for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, Tensor))


class OnceABatch(Generic[T]):
    """What all places of a batch share, made on first use."""

    def __init__(self, make: Callable[[Batch, torch.device], T]) -> None:
        self.make = make
        self.made: tuple[tuple[int, torch.device], T] | None = None

    def __call__(self, batch: Batch, device: torch.device) -> T:
        if self.made is None or self.made[0] != (batch.offset, device):
            self.made = (batch.offset, device), self.make(batch, device)
        return self.made[1]
