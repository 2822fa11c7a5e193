"""A ResNet of some number of blocks whose last features are watched while it learns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from torch import nn

from winze.data import Dataset, Preprocess
from winze.lab.bench import Bench
from winze.lab.study import Study, read, tell_curve, train
from winze.observe import Watch
from winze.shape import junctions

RANK = "last_effective_rank"
ELSEWHERE = 6  # blocks of a ResNet-18 outside its third stage


@dataclass(frozen=True)
class Watched(Study):
    """A ResNet-18 with so many `blocks`, by a longer third stage, read at every block.

    The effective rank of its pooled last features is read every `look_every` epochs, on `looked_at` test samples.
    """

    places: Literal["blocks", "layers"] = "blocks"
    blocks: int = 8
    look_every: int = 1
    looked_at: int = 4000


def work(config: Watched, bench: Bench) -> None:
    """Train one network under watch, then read it at every block."""
    seen: list[Watch] = []

    def watch(net: nn.Module, dataset: Dataset, preprocess: Preprocess | None) -> Watch:
        seen.append(_watch(config, net, dataset, preprocess))
        return seen[0]

    study = replace(config, options={**config.options, "stage3": config.blocks - ELSEWHERE})
    trained = train(study, bench, watch=watch)
    if not bench.writes:
        return
    for row in seen[0].readings.rows:
        if row.measure == "effective_rank":  # as a number of the whole network: at places, the last step counts alone
            bench.readings.add(RANK, row.value, data=row.data, split=row.split, step=row.step, n=row.n, note=row.note)
    bench.readings.add("epoch_steps", _steps(config, trained.dataset), data=config.data)
    tell_curve(study, bench, trained)
    read(study, bench, trained)


def _watch(config: Watched, net: nn.Module, dataset: Dataset, preprocess: Preprocess | None) -> Watch:
    device = next(net.parameters()).device
    images, labels = (part[: config.looked_at] for part in dataset.test)
    images = images.to(device)
    return Watch(
        net,
        (images if preprocess is None else preprocess(images), labels),
        config.look_every * _steps(config, dataset),
        places=junctions(net)[-1].place.name,
        measures=("rank",),
        pool=config.pool,
        name=config.data,
    )


def _steps(config: Watched, dataset: Dataset) -> int:
    return -(-len(dataset.train_labels) // config.training.batch)
