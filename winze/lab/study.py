"""What most recipes do: train a network on some data, then read it at every depth, on this data and on others.

Recipe(..., work=train_and_read)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from winze.data import Batches, DataError, Dataset, FolderStream, MissingDataError, Preprocess, load, thinned
from winze.data.stream import IMAGENET
from winze.lab.bench import Bench
from winze.lab.counting import countings, layer_count
from winze.networks import build, describe, options_for
from winze.observe import Scan, Watch, scan
from winze.shape import Alternation, Rule, rewire
from winze.train import History, Training
from winze.train.fit import Onlooker
from winze.train.seeds import mix

Fed = tuple[Tensor, Tensor] | Batches
Watching = Callable[[nn.Module, Dataset, Preprocess | None], Watch | Onlooker]
MOST = 2 << 30  # bytes of preprocessed pictures held at once; beyond, they are made batch by batch
AT_ONCE = 4 << 30, 16 << 30  # bytes that a scan may hold, on a CPU and on a GPU


@dataclass(frozen=True)
class Study:
    """One network, the data it learns, and how it is read. A recipe's config is this, or a subclass with more fields.

    `options` go to whatever builds the network. `rule` is what its junctions are given. `ood` are other sets on which
    every place is probed; those not at hand are left out, and the readings say so; `ood_limit` bounds their samples
    where `limit`, which bounds all, is not to. `size` brings all pictures to squares of so many pixels, with
    `fit="pad"` smaller ones by black around them. `per_class`
    leaves so many train pictures of each class, `every` is the number of steps that each stage of a staged rule lasts.
    With `stream` worker processes (0: none) the network learns from a folder that is too large for memory, picture by
    picture as `FolderStream` gives them; `limit` then bounds only what is read of it afterwards. The rest is as
    `winze.scan` takes it.
    """

    network: str
    data: str
    training: Training
    options: Mapping[str, Any] = field(default_factory=dict)
    rule: Rule | None = None
    ood: tuple[str, ...] = ()
    size: int | None = None
    limit: int | None = None
    places: Literal["blocks", "layers"] = "layers"
    measures: tuple[str, ...] = ("probe", "rank")
    probe: Literal["ridge", "adam"] = "ridge"
    pool: Literal["mean", "flatten", "token"] | int = "mean"
    per_class: int | None = None
    every: int = 1
    stream: int | None = None
    max_features: int = 8000
    ood_limit: int | None = None
    fit: Literal["resize", "pad"] = "resize"


@dataclass(frozen=True)
class Trained:
    """A network that has learnt its data, and how pictures go into it."""

    net: nn.Module
    dataset: Dataset
    preprocess: Preprocess | None
    history: History


def train(study: Study, bench: Bench, name: str = "train", watch: Watching | None = None) -> Trained:
    """Build the network and train it; its weights are kept in the run's folder.

    `watch` makes the onlooker from the network as it is before it learns, which is on its device by then.
    """
    dataset, preprocess, streams = _prepared(study, bench)
    options = {**options_for(study.network, dataset.shape), **study.options}
    spec = describe(study.network, len(dataset.classes), study.rule, **options)
    net = build(spec | {"rule": None})
    if study.rule is not None:
        example = dataset.train_images[:2]
        rewire(net, study.rule, example=example if preprocess is None else preprocess(example))
    staged = study.rule is not None and study.rule.staged
    rows, seed = study.training.batch, mix(bench.seed, "alternation")
    onlooker = None if watch is None else watch(net.to(bench.device), dataset, preprocess)
    history = bench.train(
        net,
        dataset if streams is None else streams[0],
        study.training,
        name=name,
        preprocess=preprocess,
        test=None if streams is None else streams[1],
        alternation=Alternation(net, study.every, rows, seed) if staged else None,
        watch=onlooker,
    )
    bench.keep(net, spec)
    return Trained(net, dataset, preprocess, history)


def read(study: Study, bench: Bench, trained: Trained) -> Scan | None:
    """Scan the network and add what was read to the run's readings; None in a process that only works along."""
    if not bench.writes:
        return None
    net = trained.net.eval()
    device = next(net.parameters()).device
    others, absent = _others(study)

    def fed(one: Dataset) -> tuple[Fed, Fed]:
        return _fed(one.train, trained.preprocess, device), _fed(one.test, trained.preprocess, device)

    found = scan(
        net,
        *fed(trained.dataset),
        ood={one.name: fed(one) for one in others},
        places="layers" if study.places == "layers" else None,
        measures=study.measures,
        probe=study.probe,
        pool=study.pool,
        max_features=study.max_features,
        name=study.data,
        memory=AT_ONCE[device.type == "cuda"],
        progress=bench.progress,
    )
    told = found.readings.conventions
    told["network"] = study.network
    told["preprocess"] = None if trained.preprocess is None else trained.preprocess.to_dict()
    told["classes"] = list(trained.dataset.classes)
    told["layers"] = countings(net, told["places"])
    told["layer_count"] = layer_count(net)
    told["not_run"] = absent
    told["notes"] += [f"{one.name}: {note}" for one in (trained.dataset, *others) for note in one.notes]
    for fact in ("seconds", "device", "versions"):  # run.json has them; without them equal runs have equal readings
        told.pop(fact)
    bench.readings.extend(found.readings)
    if trained.history.metrics:
        bench.readings.add("loss", trained.history.losses[-1], data=study.data, split="train")
    return found


def train_and_read(study: Study, bench: Bench) -> None:
    """The work of recipes that do nothing else: train one network, then read it at every place."""
    read(study, bench, train(study, bench))


def tell_curve(study: Study, bench: Bench, trained: Trained) -> None:
    """Add to the readings what each look at the test set during training found; the last look is the last row."""
    if bench.writes:
        for row in trained.history.metrics:
            for measure in ("accuracy", "top5"):
                if measure in row:
                    bench.readings.add(measure, row[measure], data=study.data, split="test", step=int(row["step"]))


def _prepared(study: Study, bench: Bench) -> tuple[Dataset, Preprocess | None, tuple[FolderStream, ...] | None]:
    """The data in memory, how it goes in, and with `stream` the folder's batches to learn from and to be judged on."""
    dataset = load(study.data, limit=study.limit, size=study.size, download=False, fit=study.fit)
    if study.per_class is not None:
        dataset = thinned(dataset, study.per_class)
    if study.stream is None:
        return dataset, Preprocess.of(dataset) if dataset.pictures else None, None
    side, rank, world = dataset.shape[1], int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    own: dict[str, Any] = {"size": side, "workers": study.stream, "seed": mix(bench.seed, "stream") >> 32}
    learnt = FolderStream(dataset.found, True, batch=study.training.batch // world, rank=rank, world=world, **own)
    judged = FolderStream(dataset.found, False, batch=study.training.batch, **own)
    for one in (learnt, judged):
        if tuple(one.classes) != dataset.classes:
            raise DataError(f"{dataset.found}: train and test folders do not have the same classes")
    return dataset, Preprocess((side, side), *IMAGENET), (learnt, judged)


def _others(study: Study) -> tuple[list[Dataset], dict[str, str]]:
    """The other sets that are at hand, and why the rest is not."""
    found, absent = [], {}
    limit = study.limit if study.ood_limit is None else study.ood_limit
    for name in study.ood:
        try:
            found.append(load(name, limit=limit, size=study.size, download=False, fit=study.fit))
        except MissingDataError:
            absent[name] = f"{name} was not found"  # where it was looked for are paths of this machine
    return found, absent


def _fed(part: tuple[Tensor, Tensor], preprocess: Preprocess | None, device: torch.device) -> Fed:
    """Samples and labels ready to go in: all at once, which probes that learn in random order want, or by batch."""
    images, labels = part
    if preprocess is None:
        return images.to(device), labels
    one = preprocess(images[:1])
    if one.element_size() * one.numel() * len(images) > MOST:
        return Batches(images, labels, preprocess=preprocess, device=device)
    return preprocess(images.to(device)), labels
