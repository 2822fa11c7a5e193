"""A network under watch while it learns, and its layers put back to where they began."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from torch import nn
from torch.optim.swa_utils import update_bn

from winze.data import Batches, Dataset, Preprocess
from winze.depth import Place
from winze.lab.bench import Bench
from winze.lab.crossing import Weights, crossed, layer_of_each, weights_of
from winze.lab.study import Study, Trained, read, train
from winze.observe import Watch
from winze.readings import Readings
from winze.train import evaluate

RANK, CHANGE = "rank_while_learning", "weight_change"
FIRST = 75  # steps


@dataclass(frozen=True)
class Development(Study):
    """A study that is watched: every `look_every` steps or epochs on so many test samples.

    `change_every` are the epochs between two looks at the weights.
    """

    look_every: int = 1
    look_per: Literal["step", "epoch"] = "epoch"
    change_every: int = 10
    looked_at: int = 4000


def watch_and_reset(config: Development, bench: Bench) -> None:
    """Train one network under watch; then read it and put its layers back one by one."""
    held: dict[str, Any] = {}

    def watching(net: nn.Module, dataset: Dataset, preprocess: Preprocess | None) -> Watch:
        assert preprocess is not None
        held["start"], held["watch"] = weights_of(net), _watch(config, net, dataset, preprocess)
        return held["watch"]

    trained = train(config, bench, watch=watching)
    if not bench.writes:
        return
    tell_seen(bench.readings, held["watch"].readings, trained.net, config)
    read(config, bench, trained)
    if config.look_per == "epoch":
        put_back(bench.readings, trained, held["start"], config)


def _watch(config: Development, net: nn.Module, dataset: Dataset, preprocess: Preprocess) -> Watch:
    device = next(net.parameters()).device
    images, labels = (part[: config.looked_at] for part in dataset.test)
    steps = 1 if config.look_per == "step" else -(-len(dataset.train_labels) // config.training.batch)
    weights = config.look_per == "epoch"
    return Watch(
        net,
        (preprocess(images.to(device)), labels),
        config.look_every * steps,
        places="layers",
        measures=("rank", "weight_change") if weights else ("rank",),
        pool=config.pool,
        name=config.data,
        max_features=min(config.max_features, 1000),
        weights_every=config.change_every * steps if weights else None,
    )


def tell_seen(readings: Readings, seen: Readings, net: nn.Module, config: Development) -> None:
    """What was seen of ranks and of layers' own weights, by place and step; not of norms and biases."""
    names = seen.conventions["places"]
    number = layer_of_each(net)
    own = {name: number[name] - 1 for name, value in net.named_parameters() if value.ndim > 1}
    for row in seen.rows:
        if config.look_per == "step" and row.step is not None and row.step > FIRST:
            continue
        if row.measure == "numerical_rank":
            readings.rows.append(replace(row, measure=RANK))
        elif row.measure == CHANGE and row.place in own and row.step:
            place = Place(own[row.place], len(names), names[own[row.place]])
            readings.add(CHANGE, row.value, place=place, data=row.data, step=row.step)


def put_back(readings: Readings, trained: Trained, start: Weights, config: Development) -> None:
    """Judge the network with all hidden layers from one on as they began."""
    net, end = trained.net, weights_of(trained.net)
    layers, learnt = layer_of_each(net), {name for name, _ in net.named_parameters()}
    names = readings.conventions["places"]
    device = next(net.parameters()).device
    test = Batches(*trained.dataset.test, 1000, trained.preprocess, device)
    few = Batches(*trained.dataset.train, config.training.batch, trained.preprocess, device, limit=config.looked_at)
    for spot, name in enumerate(names[:-1]):
        mixed = crossed(end, start, layers, spot)
        back = {key: value for key, value in mixed.items() if key in learnt and layers[key] < len(names)}
        where: dict[str, Any] = {"place": Place(spot, len(names), name), "data": config.data, "split": "test"}
        net.load_state_dict(end | back)
        readings.add("reset", evaluate(net, test), **where)
        update_bn(few, net)
        readings.add("reset_refreshed", evaluate(net, test), **where)
    net.load_state_dict(end)
