"""A study in five parts: network, data, training, reading, watching.

prepare(study, bench) -> learn(prepared, bench) -> read(prepared, bench); `tasks` trains on one task after another
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from winze.data import Batches, DataError, Dataset, FolderStream, MissingDataError, Preprocess, load, thinned
from winze.data.stream import IMAGENET
from winze.lab.bench import Bench
from winze.lab.layers import countings, layer_count, layer_of_each
from winze.networks import NetworkError, build, describe, options_for
from winze.observe import Scan, Watch, scan
from winze.observe.places.find_places import find_spots
from winze.readings import Readings
from winze.shape import Alternation, Rule, rewire
from winze.train import Epochs, History, Objective, Steps, Training
from winze.train.fields import Checked, Count
from winze.train.seeds import mix
from winze.train.training import objective_of

Fed = tuple[Tensor, Tensor] | Batches
MOST = 2 << 30  # bytes of preprocessed images in memory; larger data are preprocessed batch by batch
AT_ONCE = 4 << 30, 16 << 30  # bytes for the moments of a scan, on a CPU and on a GPU
PoolName = Literal["mean", "flatten", "token"] | int
EPOCH = Epochs(1)


@dataclass(frozen=True)
class Network:
    """A network by name, the rule at its junctions, and which junctions take it.

    `options` are passed to the network's constructor. `where` is a glob on the names of junctions. `every` is the
    number of steps that each stage of a staged rule lasts. `outputs` None: one per class of the data.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    rule: Rule | None = None
    where: str | None = None
    every: Count = 1
    outputs: Count | None = None


@dataclass(frozen=True)
class Data:
    """A data set by name, and the part in use. `size` resizes all images to squares of so many pixels; with `fit="pad"`
    smaller ones are padded with black. `limit` bounds all samples, `per_class` the training images per class.
    `normalise`: by the set's own mean and deviation, to [-1, 1] ("half"), or to [0, 1] ("unit"). With `stream` worker
    processes (0: none) the network is trained from a folder that does not fit in memory (`FolderStream`); `limit` then
    bounds only the samples of the scan.
    """

    name: str
    size: Count | None = None
    limit: Count | None = None
    per_class: Count | None = None
    fit: Literal["resize", "pad"] = "resize"
    normalise: Literal["own", "half", "unit"] = "own"
    stream: int | None = None


@dataclass(frozen=True)
class Reading:
    """The scan of the trained network, in the terms of `winze.scan`. `ood` are out-of-distribution sets on which every
    place is probed; sets that are not available are left out, and a note in the readings says so. `ood_limit` bounds
    their samples instead of `data.limit`.
    """

    places: Literal["blocks", "layers"] = "layers"
    measures: tuple[str, ...] = ("probe", "rank")
    probe: Literal["ridge", "adam"] = "ridge"
    pool: PoolName = "mean"
    max_features: Count = 8000
    ood: tuple[str, ...] = ()
    ood_limit: Count | None = None


@dataclass(frozen=True)
class Watching:
    """Readings during training, on the first `samples` of the test set.

    `measures` as `winze.Watch` takes them; `probe` needs `probe_samples` of the training set. With `places="last"` the
    last block is read and stored as a number of the whole network. `names`: the name under which a measure is stored
    (such as {"numerical_rank": "rank_while_training"}); with names, only these measures are stored. `weights_every`:
    the steps between readings of `weight_change`; at `layers` it is stored for the weights of layers, not for norms and
    biases.
    """

    measures: tuple[str, ...]
    every: Epochs | Steps = EPOCH
    places: Literal["blocks", "layers", "last"] = "layers"
    samples: Count = 4000
    probe_samples: Count | None = None
    pool: PoolName = "mean"
    max_features: Count = 8000
    names: Mapping[str, str] = field(default_factory=dict)
    weights_every: Epochs | Steps | None = None


@dataclass(frozen=True)
class Study(Checked):
    """One network, its data, training and readings; recipes that need more settings subclass it."""

    network: Network
    data: Data
    training: Training
    reading: Reading = Reading()
    watching: Watching | None = None


@dataclass
class Prepared:
    """A network before training, and the preprocessing of its images."""

    study: Study
    net: nn.Module
    spec: dict[str, Any] | None
    """how to build the network again; None where a file cannot store it, such as for a rule from outside winze"""
    dataset: Dataset
    preprocess: Preprocess | None
    streams: tuple[FolderStream, FolderStream] | None = None
    history: History | None = None

    @property
    def objective(self) -> Objective:
        """The objective of the training; the scan reads its `view`."""
        return objective_of(self.study.training.objective, 1)

    def fed(self, images: Tensor) -> Tensor:
        """Preprocessed images on the network's device."""
        there = images.to(next(self.net.parameters()).device)
        return there if self.preprocess is None else self.preprocess(there)


def prepare(study: Study, bench: Bench) -> Prepared:
    """Load the data, build the network and put its rule in place."""
    dataset, preprocess, streams = load_data(study, bench)
    network = study.network
    options = {**options_for(network.name, dataset.shape), **network.options}
    outputs = len(dataset.classes) if network.outputs is None else network.outputs
    net = build(network.name, outputs, **options)
    if network.rule is not None:
        example = dataset.train_images[:2]
        rewire(net, network.rule, network.where, example=example if preprocess is None else preprocess(example))
    spec: dict[str, Any] | None
    try:
        spec = describe(network.name, outputs, network.rule, network.where, **options)
    except NetworkError:
        spec = None
    return Prepared(study, net, spec, dataset, preprocess, streams)


def learn(
    prepared: Prepared,
    bench: Bench,
    name: str = "train",
    *,
    training: Training | None = None,
    data: Any = None,
    tests: Mapping[str, Any] | None = None,
    followers: Sequence[Any] = (),
    watching: Sequence[Watching] = (),
    shared: Any = None,
) -> History:
    """Train the network on its data, or on other `data`; its weights are stored in the run's folder.

    Test sets default to the data's own test part. The readings of the study's `watching`, and of `watching` here, are
    added to those of the run. `shared` describes the data beyond the study's own settings (such as the classes of a
    task): runs of the same network, data, training and seed then train this phase once (`Bench.train`).
    """
    study, net, dataset = prepared.study, prepared.net, prepared.dataset
    training = study.training if training is None else training
    asked = [one for one in (study.watching, *watching) if one is not None]
    watches = [watch(prepared, one, training, bench) for one in asked]
    rule, rows, seed = study.network.rule, training.batch, mix(bench.seed, "alternation")
    staged = rule is not None and rule.staged
    stage = [Alternation(net, study.network.every, rows, seed)] if staged else []
    streams = prepared.streams
    given = (dataset.train if streams is None else streams[0]) if data is None else data
    judged = {"test": dataset.test if streams is None else streams[1]} if tests is None else tests
    prepared.history = bench.train(
        net,
        given,
        training,
        name=name,
        preprocess=prepared.preprocess if streams is None else None,
        tests=judged,
        followers=[*stage, *watches, *followers],
        shared=None if shared is None else [study.network, study.data, shared],
    )
    for made, one in zip(watches, asked, strict=True) if bench.writes else ():
        _store_watched(bench.readings, made, one, net)
    bench.keep(net, prepared.spec, "net" if name == "train" else f"net-{name}")
    return prepared.history


def read(
    prepared: Prepared,
    bench: Bench,
    *,
    view: nn.Module | None = None,
    reading: Reading | None = None,
    tag: str = "",
    layers: bool = True,
) -> Scan | None:
    """Scan the network and add the result to the run's readings; None in a process that does not write. `view` replaces
    the objective's view of the network, for example by a diffusion model at another t. `reading` replaces the study's.
    `tag` is added to the names of measures and arrays, so that several readings of one network are distinguished.
    Without `layers`, places are not numbered as the paper's layers.
    """
    if not bench.writes:
        return None
    study = prepared.study
    reading = study.reading if reading is None else reading
    net = (prepared.objective.view(prepared.net) if view is None else view).eval()
    device = next(net.parameters()).device
    others, absent = ood_sets(study)

    def fed(one: Dataset) -> tuple[Fed, Fed]:
        return _fed(one.train, prepared.preprocess, device), _fed(one.test, prepared.preprocess, device)

    def about(places: list[str]) -> dict[str, Any]:
        return {
            "network": study.network.name,
            "preprocess": None if prepared.preprocess is None else prepared.preprocess.to_dict(),
            "classes": list(prepared.dataset.classes),
            "layers": countings(net, places) if layers else None,
            "layer_count": layer_count(net) if layers else None,
            "not_run": absent,
            "notes": [f"{one.name}: {note}" for one in (prepared.dataset, *others) for note in one.notes],
            # stored in run.json; without them equal runs have equal readings
            **dict.fromkeys(("seconds", "device", "versions")),
        }

    found = scan(
        net,
        *fed(prepared.dataset),
        ood={one.name: fed(one) for one in others},
        places="layers" if reading.places == "layers" else None,
        measures=reading.measures,
        probe=reading.probe,
        pool=reading.pool,
        max_features=reading.max_features,
        name=study.data.name,
        memory=AT_ONCE[device.type == "cuda"],
        progress=bench.progress,
        about=about,
    )
    bench.readings.extend(_tagged(found.readings, tag) if tag else found.readings)
    history = prepared.history
    if history is not None and history.metrics and not tag:
        bench.readings.add("loss", history.losses[-1], data=study.data.name, split="train")
    return found


def _tagged(readings: Readings, tag: str) -> Readings:
    rows = [replace(row, measure=f"{row.measure} {tag}") for row in readings.rows]
    arrays = {f"{name} {tag}": array for name, array in readings.arrays.items()}
    return Readings(rows, arrays, {})


def learn_and_read(study: Study, bench: Bench, layers: bool = True) -> None:
    """The work of most recipes: train one network, then scan it at every place."""
    prepared = prepare(study, bench)
    learn(prepared, bench)
    store_curve(prepared, bench)
    read(prepared, bench, layers=layers)


def store_curve(prepared: Prepared, bench: Bench, measures: Sequence[str] = ("accuracy", "top5")) -> None:
    """Add the metrics of every evaluation during training to the readings, and the steps per epoch."""
    history, name = prepared.history, prepared.study.data.name
    if not bench.writes or history is None:
        return
    samples = len(prepared.dataset.train_labels)
    bench.readings.add("epoch_steps", steps_of(Epochs(1), samples, prepared.study.training), data=name)
    for row in history.metrics:
        for measure in measures:
            if measure in row:
                bench.readings.add(measure, row[measure], data=name, split="test", step=int(row["step"]))


def load_data(
    study: Study, bench: Bench
) -> tuple[Dataset, Preprocess | None, tuple[FolderStream, FolderStream] | None]:
    """The data in memory, its preprocessing, and with `stream` the folder's batches for training and evaluation."""
    data = study.data
    dataset = load(data.name, limit=data.limit, size=data.size, download=False, fit=data.fit)
    if data.per_class is not None:
        dataset = thinned(dataset, data.per_class)
    if data.stream is None:
        preprocess = Preprocess.of(dataset) if dataset.holds_images else None
        if preprocess is not None and data.normalise != "own":
            mean, std = {"half": (0.5, 0.5), "unit": (0.0, 1.0)}[data.normalise]
            channels = len(preprocess.mean)
            preprocess = replace(preprocess, mean=(mean,) * channels, std=(std,) * channels)
        return dataset, preprocess, None
    side, rank, world = dataset.shape[1], int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    own: dict[str, Any] = {"size": side, "workers": data.stream, "seed": mix(bench.seed, "stream") >> 32}
    trained = FolderStream(dataset.found, True, batch=study.training.batch // world, rank=rank, world=world, **own)
    tested = FolderStream(dataset.found, False, batch=study.training.batch, **own)
    for one in (trained, tested):
        if tuple(one.classes) != dataset.classes:
            raise DataError(f"{dataset.found}: train and test folders do not have the same classes")
    return dataset, Preprocess((side, side), *IMAGENET), (trained, tested)


def steps_of(length: Epochs | Steps, samples: int, training: Training) -> int:
    """The number of optimizer steps in a length of training on so many samples."""
    per_epoch = samples // training.batch if training.drop_last else -(-samples // training.batch)
    return max(1, length.steps(per_epoch))


def watch(
    prepared: Prepared, watching: Watching, training: Training, bench: Bench, other: Dataset | None = None
) -> Watch:
    """What reads the network while it trains, on its own data or on another set."""
    dataset, samples = prepared.dataset if other is None else other, len(prepared.dataset.train_labels)
    net = prepared.objective.view(prepared.net.to(bench.device))

    def first(part: tuple[Tensor, Tensor], count: int) -> tuple[Tensor, Tensor]:
        return prepared.fed(part[0][:count]), part[1][:count]

    tested, known = first(dataset.test, watching.samples), watching.probe_samples
    places: Any = {"blocks": None, "layers": "layers"}.get(watching.places)
    if watching.places == "last":
        places = find_spots(net, tested[0][:2], None)[-1].place.name
    weights = watching.weights_every
    return Watch(
        net,
        tested,
        steps_of(watching.every, samples, training),
        train=None if known is None else first(dataset.train, known),
        places=places,
        measures=watching.measures,
        pool=watching.pool,
        name=prepared.study.data.name if other is None else other.name,
        max_features=watching.max_features,
        weights_every=None if weights is None else steps_of(weights, samples, training),
    )


def _store_watched(readings: Readings, watch: Watch, watching: Watching, net: nn.Module) -> None:
    names = watch.readings.conventions["places"]
    numbers = layer_of_each(net) if watching.places == "layers" else {}
    fits = len(names) == max(numbers.values(), default=0)
    layers = {name: numbers[name] - 1 for name, one in net.named_parameters() if fits and one.ndim > 1}
    for row in watch.readings.rows:
        if watching.names and row.measure not in watching.names:
            continue
        named = replace(row, measure=watching.names.get(row.measure, row.measure))
        if layers and row.measure == "weight_change":
            if row.place not in layers or not row.step:
                continue
            spot = layers[row.place]
            named = replace(named, place=names[spot], index=spot, total=len(names))
        if watching.places == "last" and row.index is not None:  # at places, only the last step would count
            named = replace(named, place="", index=None, total=None)
        readings.rows.append(named)


def ood_sets(study: Study) -> tuple[list[Dataset], dict[str, str]]:
    """The available out-of-distribution sets, and why others are not."""
    found, absent = [], {}
    data, reading = study.data, study.reading
    limit = data.limit if reading.ood_limit is None else reading.ood_limit
    for name in reading.ood:
        try:
            found.append(load(name, limit=limit, size=data.size, download=False, fit=data.fit))
        except MissingDataError:
            absent[name] = f"{name} was not found"  # the searched folders are paths of this machine
    return found, absent


def _fed(part: tuple[Tensor, Tensor], preprocess: Preprocess | None, device: torch.device) -> Fed:
    """Preprocessed samples and labels: all at once, which Adam probes need, or batch by batch."""
    images, labels = part
    if preprocess is None:
        return images.to(device), labels
    one = preprocess(images[:1])
    if one.element_size() * one.numel() * len(images) > MOST:
        return Batches(images, labels, preprocess=preprocess, device=device)
    return preprocess(images.to(device)), labels
