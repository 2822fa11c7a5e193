"""The work of one network at a temperature: find its rate, train, look on, and read it before and after."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from torch import nn

from winze.data import Batches, Dataset, Preprocess
from winze.lab.bench import Bench
from winze.lab.counting import weight_layers
from winze.lab.study import Study, Trained, Watching, read, tell_curve, train
from winze.observe import scan
from winze.readings import Readings
from winze.recipes.temperature.looks import Looks
from winze.train import DivergedError
from winze.train.seeds import mix, seed_all


@dataclass(frozen=True)
class Heated(Study):
    """A network that learns at a temperature.

    Its rate is that of the `factors` times training.lr with the lowest loss after `trial` epochs, all tried from the
    weights that the network then starts from; these depend on the seed alone, so that all temperatures share them.
    Weight decay is divided by the factor, since a step shrinks weights by decay x rate.
    The logits' norm is read each `every_look` steps and alignment at the steps `look_at`, on `look_samples` of the
    test set.
    """

    measures: tuple[str, ...] = ("probe", "rank", "norm")
    factors: tuple[float, ...] = (1.0,)
    trial: int = 2
    look_at: tuple[int, ...] = (0,)
    every_look: int = 100
    look_samples: int = 512


def work(config: Heated, bench: Bench) -> None:
    """Train one network at its temperature and read it; one that diverges leaves a reading that says so."""
    before = Readings()
    looks: list[Looks] = []

    def watch(net: nn.Module, dataset: Dataset, preprocess: Preprocess | None) -> Looks:
        device = next(net.parameters()).device
        test = Batches(*dataset.test, preprocess=preprocess, device=device)
        before.extend(_ranks(net, test, config, bench))
        some = dataset.test_images[: config.look_samples].to(device)
        x = some if preprocess is None else preprocess(some)
        looks.append(Looks(net, x, config.data, config.every_look, config.look_at))
        return looks[0]

    try:
        factor = best_factor(config, bench)
        trained = _train(config, bench, factor, watch=watch)
    except DivergedError as error:
        _tell_divergence(config, bench, error)
        return
    if not bench.writes:
        return
    for readings in (before, looks[0].readings):  # before the scan: its places are the ones that are shown
        bench.readings.rows += readings.rows
        bench.readings.arrays |= readings.arrays
    _tell_weights(trained.net, looks[0], config, bench)
    tell_curve(config, bench, trained)
    read(config, bench, trained)
    bench.readings.add("diverged", 0.0)
    bench.readings.add("rate", factor * config.training.lr)


def best_factor(config: Heated, bench: Bench) -> float:
    """The factor on the rate whose loss is lowest after a short trial; a rate that diverges is out."""
    if len(config.factors) == 1:
        return config.factors[0]
    losses = {}
    for number, factor in enumerate(config.factors):
        short = replace(
            config.training, epochs=config.trial, schedule="constant", milestones=(), evaluate_every=config.trial
        )
        try:
            with bench.uncompiled():
                tried = _train(replace(config, training=short), bench, factor, f"try-{number}")
            losses[factor] = tried.history.losses[-1]
            bench.readings.add("trial_loss", losses[factor], step=number, note=f"at {factor:g} times the rate")
        except DivergedError as error:
            losses[factor], why = math.inf, error
            bench.readings.add("trial_loss", math.nan, step=number, note=f"at {factor:g} times the rate: {error}")
    best = min(losses, key=lambda factor: losses[factor])
    if math.isinf(losses[best]):
        raise why
    return best


def _train(config: Heated, bench: Bench, factor: float, name: str = "train", watch: Watching | None = None) -> Trained:
    seed_all(mix(bench.seed, "work"))  # the same weights each time
    decay = config.training.weight_decay / factor  # so that a step shrinks weights as much at every rate
    training = replace(config.training, lr=config.training.lr * factor, weight_decay=decay)
    return train(replace(config, training=training), bench, name, watch)


def _ranks(net: nn.Module, test: Batches, config: Heated, bench: Bench) -> Readings:
    """The ranks of the network as it is now, under another name: what is shown last is the trained network."""
    found = scan(
        net,
        None,
        test,
        places="layers",
        measures=("rank",),
        pool=config.pool,
        max_features=config.max_features,
        name=config.data,
        progress=bench.progress,
    )
    rows = [replace(row, measure="rank_before") for row in found.readings.rows if row.measure == "numerical_rank"]
    return Readings(rows)


def _tell_weights(net: nn.Module, looks: Looks, config: Heated, bench: Bench) -> None:
    for place, layer in zip(looks.places, weight_layers(net), strict=True):
        norm = float(layer.weight.detach().double().norm())
        bench.readings.add("weight_norm", norm, place=place, data=config.data)


def _tell_divergence(config: Heated, bench: Bench, error: DivergedError) -> None:
    bench.readings.add("diverged", 1.0, note=str(error))
    bench.readings.conventions |= {
        "data": config.data,
        "network": config.network,
        "not_run": {"training": str(error)},
    }
