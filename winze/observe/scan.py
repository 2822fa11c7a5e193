"""Scan a network at every depth in one streaming pass."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from winze.measure import CKA, ClassMeans, Probe
from winze.measure.registry import OF_MOMENTS, chosen, measures_for
from winze.memory import enough_memory
from winze.modes import unchanged
from winze.networks import ANSWERS, answers, begun_fingerprint, interpreted, is_untrained, unwrapped
from winze.observe.cut.costs import SAMPLES
from winze.observe.cut.every_cut import measure_cuts
from winze.observe.passes.feed import Feed, is_pair, pair
from winze.observe.passes.gathered import KEPT, Store
from winze.observe.passes.inputs import AnyData, generators, measure_names, stored
from winze.observe.passes.probes import class_centres, fitted, ridge_moments, trained_probes
from winze.observe.passes.reader import Reader
from winze.observe.passes.shards import Crew, in_shards
from winze.observe.passes.test_pass import read_test
from winze.observe.places.chosen_calls import PlaceNames
from winze.observe.places.find_places import TIME_FIRST, Spots, find_spots
from winze.observe.places.memory_format import spots_and_order
from winze.observe.places.pooling import UNORDERED, Pool, check_pool
from winze.observe.result import Scan
from winze.progress import tracker
from winze.readings import Readings
from winze.readings.facts import FRESH
from winze.shape.sums.example import Example

PROBES = ("ridge", "adam")
About = Mapping[str, Any] | Callable[[list[str]], Mapping[str, Any]] | None
"""Facts about the network and its data, or a function from the names of the places to them."""


@torch.no_grad()
def scan(
    net: nn.Module,
    train: AnyData,
    test: AnyData = None,
    ood: Mapping[str, AnyData] | None = None,
    places: PlaceNames = None,
    measures: str | Sequence[str] | None = None,
    probe: str = "ridge",
    pool: Pool = "mean",
    *,
    name: str | None = None,
    example: Any = None,
    layout: str | None = None,
    about: About = None,
    device: str | torch.device | None = None,
    batch: int = 256,
    max_features: int = 8000,
    memory: int = 4 << 30,
    embed: str | None = None,
    costs: bool = False,
    seed: int = 0,
    progress: bool | None = None,
    crew: Crew | None = None,
) -> Scan:
    """Read what a network represents at every depth: probes, ranks, CKA, class variances, and where its tunnel starts.

    `train` and `test` are pairs (x, y) of tensors or arrays, Datasets, DataLoaders, or other iterables of batches
    (x, y) or of dicts with the key `labels`; `train` alone may be a folder or a name that `winze.data.load` takes.
    `ood` maps names to such pairs. `places` are the blocks of the network (None), its `"layers"`, or module names and
    globs. `measures` are names of `winze.measure.MEASURES` (None: all that a scan can read). `probe="adam"` is the
    thesis's protocol, `"ridge"` the closed form of the same pass. `pool` turns feature maps into features: `"mean"`,
    `"token"`, a grid size, or `"flatten"` (at most `max_features` random ones enter rank, CKA and ridge). `layout` is
    the order of a feature map's axes ("BCHW", "BHWC", "BCL", "BLC"), where a scan asks for it. `about` joins the stored
    conventions (`winze.readings.Conventions`), its notes after the scan's own. `memory` bounds the bytes of moments in
    memory at once: places that do not fit are read in further passes. `embed` computes a plane embedding of samples
    (`"pca"`, `"tsne"`, `"umap"`), `costs` measures what cutting after each place would save. A process pool as `crew`,
    such as `winze.lab.Processes(2)` (`import winze.lab`), reads the data in shards. The network, its modes and buffers,
    and the global RNG state are not changed.
    """
    check_pool(pool)
    if not all(isinstance(one, Integral) for one in (batch, max_features)) or min(batch, max_features, memory) < 1:
        raise ValueError(
            f"batch and max_features must be whole numbers from 1, and memory at least 1, got {batch}, {max_features} "
            f"and {memory}"
        )
    batch, max_features = int(batch), int(max_features)  # NumPy's numbers too, which files of readings refuse
    net = unwrapped(net)
    wanted = checked_measures(measures, probe, train)
    disk = stored(train, test, net, batch) if isinstance(train, str | os.PathLike) else None
    train, test = (train, test) if disk is None else (disk.train, disk.test)
    name = name or (disk.name if disk is not None else "data")
    if test is None:
        raise ValueError("scan needs test data: pass test=, a pair (x, y), a Dataset or a DataLoader")
    if not isinstance(ood, Mapping | None):
        raise TypeError(f"ood maps names to data, ood={{'name': (train, test)}}, got {type(ood).__name__}")
    others = {key: _both(key, given, net, batch) for key, given in (ood or {}).items()}
    if name in others:
        raise ValueError(f"ood= has {name!r}, which is the name of the data itself: rename one of them")
    began, hashed = time.perf_counter(), begun_fingerprint(net)  # in its own mode: another mode may merge its weights
    track = tracker(progress)
    loaders = generators(train, test, *(part for both in others.values() for part in both))
    with _placed(net, device) as where, interpreted(net), unchanged(net, training=False, generators=loaders):
        train_feed, test_feed, classes = _feeds(train, test, name, batch, where, net)
        taken = UNORDERED if pool == "flatten" and _only_pairs(wanted) else pool
        with enough_memory(f"{name}, looking for places with the first samples", "take smaller ones"):
            known = example is None and where.type != "meta"  # then finding the places runs it on the samples
            given = test_feed.example() if known else test_feed.checked_example(net)
            shape = list(given[0].shape) if isinstance(given, tuple) else None
            try:
                if example is None:
                    spots, turned = spots_and_order(net, given, where, taken, places, layout)
                else:
                    spots, turned = find_spots(net, example, places, layout), False
            except Exception:
                test_feed.checked_example(net)  # raises where the network does not take the samples
                raise
            if train_feed is not None and is_pair(train_feed.data) and not _alike(train_feed.example(), given):
                train_feed.checked_example(net)
        whose = hashed()
        check_pool(pool, {spot.place.name: spot.shape for spot in spots})
        reader = Reader(net, spots, taken, max_features, track, crew, turned, recorded=True)
        full = [spot.width(taken) for spot in spots] if example is None else reader.widths(test_feed)
        widths = [min(width, max_features) for width in full]
        readings = Readings()
        scanner = Scanner(readings, reader, widths, probe, memory, seed)
        scanner.read(name, train_feed, test_feed, classes, wanted, embed)
        notes = [*(train_feed.notes if train_feed is not None else []), *test_feed.notes]
        samples = {name: _counts(train_feed, test_feed)}
        for other, (other_train, other_test) in others.items():
            a, b, n = pair(other_train, other_test, other, batch, where, net)
            scanner.read(other, a, b, n, {"probe"}, own=False)
            notes += [*a.notes, *b.notes]
            samples[other] = _counts(a, b)
        for spot, width in zip(spots, full, strict=True):
            readings.add("features", float(width), place=spot.place, data=name, split="test")
        said: dict[str, Any] = dict(
            **scanner.told,
            network=type(net).__name__,
            fingerprint=whose | ({} if shape is None else {ANSWERS: answers(net, shape)}),
            data=name,
            ood=list(others),
            places=[spot.place.name for spot in spots],
            layouts=[[spot.layout.channels, spot.layout.scale] for spot in spots if spot.layout],
            outputs=[spot.output for spot in spots],
            labels=None if test_feed.kept is None else test_feed.kept.tolist(),
            pool=pool,
            probe=probe,
            measures=sorted(wanted),
            samples=samples,
            batch=test_feed.size,
            classes=None,
            class_count=classes,
            cka={"estimator": "unbiased minibatch", "batch": test_feed.size},
            rank={"threshold": 1e-3, "of": "covariance spectrum of centred features", "max_features": max_features},
            notes=[*(disk.notes if disk is not None else ()), *notes, *_unread(spots)],
            unread=spots.unread,
            seed=seed,
            example=shape,
            embedding=embed,
            weights=FRESH if is_untrained(net) else None,
            memory_format="channels last" if turned else "as given",
            dtype=str(next((p.dtype for p in net.parameters()), torch.float32)).removeprefix("torch."),
            device=str(where),
            versions={"python": platform.python_version(), "torch": str(torch.__version__)},
            seconds=round(time.perf_counter() - began, 2),
        )
        more = about([spot.place.name for spot in spots]) if callable(about) else about or {}
        said["notes"] += more.get("notes", [])
        readings.declare(**said | {**({} if disk is None else disk.conventions), **more, "notes": said["notes"]})
        result = Scan(readings)
        if costs and train_feed is not None:
            add_costs(net, result, test, progress)
        return result


def add_costs(net: nn.Module, scan: Scan, test: AnyData, progress: bool | None = None) -> None:
    """Measure the costs and savings of a cut after each place of a scan, on the first test samples."""
    net = unwrapped(net)
    device = next((p.device for p in net.parameters()), torch.device("cpu"))
    feed = Feed.of(test, f"{scan.data} test", SAMPLES, device, net)
    out_of_room = enough_memory("timing the cuts", "leave that out by costs=False (--no-costs)")
    with out_of_room, unchanged(net, training=False, generators=generators(test)):
        timed = Example(feed.example(SAMPLES)).with_batch(SAMPLES)
        measure_cuts(net, scan, timed.kwargs or timed.args, tracker(progress))


@dataclass
class Scanner:
    """Scans several data sets in turn at the same places into the same readings."""

    readings: Readings
    reader: Reader
    widths: list[int]
    probe: str
    memory: int
    seed: int
    told: dict[str, Any] = field(default_factory=dict)

    def read(
        self,
        name: str,
        train: Feed | None,
        test: Feed,
        classes: int,
        wanted: set[str],
        embed: str | None = None,
        own: bool = True,
    ) -> None:
        """Scan all places, in groups where their moments would not fit in memory together.

        `own`: also measure the network's own accuracy.
        """
        groups = [list(range(len(self.widths)))] if _only_pairs(wanted) else _groups(self.widths, self.memory)
        store = Store(self.readings, name, wanted, self.told)
        keep, samples = (KEPT if asked else 0 for asked in (embed, chosen(wanted, ["samples"])))
        cka = CKA(len(self.widths), name=test.name) if chosen(wanted, ["pairs"]) else None
        if len(groups) > 1 and (cka is not None or keep):
            with self._room(f"{test.name}, CKA or embeddings"):
                pairs = in_shards(read_test, self.reader, test, classes, self.widths, None, cka, False, keep)
                store.pairs(self.reader.spots, pairs, embed)
            cka, keep = None, 0
        correct: list[Tensor] = []
        labels: Tensor | None = None
        for group in groups:
            reader = replace(self.reader, spots=[self.reader.spots[i] for i in group])
            widths = [self.widths[i] for i in group]
            ends = own and group[0] == 0 and any(one.of_last_layer for one in chosen(wanted))
            probes: Sequence[Probe] | None = None
            centres: ClassMeans | None = None
            if "probe" in wanted and train is not None:
                with self._room(f"{train.name}, probes", group):
                    probes, centres = self._probes(reader, train, classes, widths, ends)
            elif ends and train is not None:
                centres = in_shards(class_centres, reader, train, classes)
            moments, kept = bool(chosen(wanted, [*OF_MOMENTS, "spectrum"])), max(keep, samples)
            with self._room(f"{test.name}, reading", group):
                result = in_shards(read_test, reader, test, classes, widths, probes, cka, moments, kept, ends, centres)
            with self._room(f"{test.name}, ranks and CKA", group):
                store.places(reader.spots, result, probes)
                if len(groups) == 1:
                    store.pairs(reader.spots, result, embed)
            if labels is not None and not torch.equal(labels, result.labels):
                raise ValueError(
                    f"{test.name}: the second pass had another order of samples; turn shuffling off, or raise "
                    "memory= so that one pass is enough"
                )
            labels = result.labels
            if group[0] == 0 and own:
                store.network(self.reader.net, result, classes, renumbered=test.kept is not None)
            correct += result.correct
        if correct:
            self.readings.arrays[f"correct/{name}"] = torch.stack(correct).numpy()
        assert labels is not None
        largest = float(labels.bincount().max()) / len(labels)
        self.told.setdefault("chance", {})[name] = largest

    def _room(self, what: str, group: Sequence[int] | None = None) -> AbstractContextManager[None]:
        """Re-raise an out-of-memory error with the widest of some places."""
        widest = max(range(len(self.widths)) if group is None else group, key=lambda i: self.widths[i])
        place = self.reader.spots[widest].place
        return enough_memory(f"{what}, at most {self.widths[widest]} features at a place ({place.name!r})")

    def _probes(
        self, reader: Reader, train: Feed, classes: int, widths: list[int], ends: bool
    ) -> tuple[Sequence[Probe], ClassMeans | None]:
        """Probes of the group's places, and with `ends` the class means of the last layer's input."""
        if self.probe == "ridge":
            kept, held, centres = in_shards(ridge_moments, reader, train, classes, widths, ends)
            return fitted(kept, held), centres
        probes = trained_probes(reader, train, classes, self.memory, self.seed)
        return probes, in_shards(class_centres, reader, train, classes) if ends else None


@contextmanager
def _placed(net: nn.Module, device: str | torch.device | None) -> Iterator[torch.device]:
    """While open, the network is on the requested device; afterwards it is moved back, even after an error."""
    home = next((p.device for p in net.parameters()), torch.device("cpu"))
    where = torch.device(device) if device is not None else home
    try:
        if where != home:
            net.to(where)
        yield where
    finally:
        if where != home:
            net.to(home)


def checked_measures(measures: str | Sequence[str] | None, probe: str, train: AnyData) -> set[str]:
    """The measures that are asked for; raises for names that are unknown, and for probes without train data."""
    known = measures_for()
    wanted = measure_names(known if measures is None else measures, known)
    if probe not in PROBES:
        raise ValueError(f"probe must be one of {', '.join(PROBES)}, got {probe!r}")
    if train is None and "probe" in wanted:
        if measures is not None:
            raise ValueError("probes need train data; pass it, or leave 'probe' out of measures=")
        wanted.discard("probe")
    return wanted


def _only_pairs(wanted: set[str]) -> bool:
    """Whether Gram matrices are enough: then neither moments nor the order of features are needed."""
    return all(one.needs == "pairs" for one in chosen(wanted))


def _unread(spots: Spots) -> list[str]:
    """Warn of modules that may hold further places, except those inside of places."""
    read = tuple(f"{spot.place.name}." for spot in spots)
    why = {name: reason for name, reason in spots.unread.items() if not name.startswith(read)}
    notes = []
    for time_first, how in ((False, "name modules with places= to read them"), (True, TIME_FIRST)):
        names = [name or "the network's own forward" for name in why if (why[name] == TIME_FIRST) is time_first]
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        if names:
            notes.append(f"could not be read, so blocks inside are not places: {shown} ({how})")
    return notes


def _alike(one: Any, other: Any) -> bool:
    """Whether two examples are tensors of the same shapes and types: a network that took one takes the other."""
    (leaves, tree), (others, another) = pytree.tree_flatten(one), pytree.tree_flatten(other)
    tensors = all(isinstance(leaf, Tensor) for leaf in (*leaves, *others))
    return tensors and tree == another and [(t.shape, t.dtype) for t in leaves] == [(t.shape, t.dtype) for t in others]


def _both(name: str, given: AnyData, net: nn.Module, batch: int) -> tuple[AnyData, AnyData]:
    """The train and test split of an OOD set."""
    if isinstance(given, str | os.PathLike):
        disk = stored(given, None, net, batch)
        return disk.train, disk.test
    said = f"ood={{{name!r}: ...}} takes (train, test), a folder or a name"
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise TypeError(f"{said}, got {type(given).__name__}")
    if isinstance(given[0], torch.Tensor | np.ndarray):
        raise TypeError(f"{said}, got one pair: give ((x, y), (x_test, y_test))")
    return given[0], given[1]


def _feeds(
    train: AnyData, test: AnyData, name: str, batch: int, device: torch.device, net: nn.Module
) -> tuple[Feed | None, Feed, int]:
    if train is not None:
        return pair(train, test, name, batch, device, net)
    feed = Feed.of(test, f"{name} test", batch, device, net)
    return None, feed, int(feed.classes().max()) + 1


def _counts(train: Feed | None, test: Feed) -> dict[str, int]:
    feeds = (("train", train), ("test", test))
    return {split: feed.samples or sum(map(len, feed)) for split, feed in feeds if feed is not None}


def _groups(widths: list[int], memory: int) -> list[list[int]]:
    """Consecutive places whose moments (three square matrices in float64 each) fit in the given bytes together."""
    groups: list[list[int]] = [[]]
    used = 0
    for i, width in enumerate(widths):
        need = 3 * 8 * width * width
        if groups[-1] and used + need > memory:
            groups.append([])
            used = 0
        groups[-1].append(i)
        used += need
    return groups
