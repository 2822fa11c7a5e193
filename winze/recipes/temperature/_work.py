"""Train a network at a temperature: choose its learning rate in short trials, follow logits and alignment, read it."""

import math
from dataclasses import dataclass, replace
from typing import Any

from winze.data import Batches
from winze.lab import Bench, Prepared, Study, learn, prepare, read, store_curve
from winze.lab.layers import weight_layers
from winze.observe import scan
from winze.observe.layer_alignment import AlignmentWatch
from winze.readings import Row
from winze.train import Constant, DivergedError, Epochs, Training
from winze.train.seeds import mix, seed_all


@dataclass(frozen=True)
class Heated(Study):
    """A network that is trained at a temperature.

    Its learning rate is the optimizer's times the factor with the lowest training loss after `trial` epochs; weight
    decay is divided by the factor, since a step shrinks weights by decay x learning rate. All trials, and all
    temperatures of one seed, start from the same weights. The norm of the logits is read every `logits_every` steps,
    alignment at the steps `align_at`, on the first `samples` of the test set.
    """

    factors: tuple[float, ...] = (1.0,)
    trial: int = 2
    align_at: tuple[int, ...] = (0,)
    logits_every: int = 100
    samples: int = 512


def work(study: Heated, bench: Bench) -> None:
    """Train one network at its temperature and read it; a network that diverges leaves a reading that says so."""
    name = study.data.name
    try:
        factor = best_factor(study, bench)
        prepared = _fresh(study, bench)
        x, layers = prepared.fed(prepared.dataset.test_images[: study.samples]), weight_layers(prepared.net)
        watch = AlignmentWatch(prepared.net, layers, x, study.logits_every, study.align_at, name=name)
        before = _ranks(prepared, bench)
        learn(prepared, bench, training=rescaled(study.training, factor), followers=[watch])
    except DivergedError as error:
        bench.readings.add("diverged", 1.0, note=str(error))
        bench.readings.declare(data=name, network=study.network.name, not_run={"training": str(error)})
        return
    if not bench.writes:
        return
    bench.readings.rows += [*before, *watch.readings.rows]  # before the scan: the places of a report are the scan's
    bench.readings.arrays |= watch.readings.arrays
    for place, layer in zip(watch.places, layers, strict=True):
        bench.readings.add("weight_norm", float(layer.weight.detach().double().norm()), place=place, data=name)
    store_curve(prepared, bench)
    read(prepared, bench)
    bench.readings.add("diverged", 0.0)
    bench.readings.add("rate", factor * study.training.optimizer.lr)


def best_factor(study: Heated, bench: Bench) -> float:
    """The factor on the learning rate with the lowest loss after a short trial; factors that diverge are left out."""
    if len(study.factors) == 1:
        return study.factors[0]
    short = replace(study.training, length=Epochs(study.trial), schedule=Constant(), evaluate=Epochs(study.trial))
    losses: dict[float, float] = {}
    for number, factor in enumerate(study.factors):
        loss, note = math.nan, f"at {factor:g} times the rate"
        try:
            with bench.uncompiled():
                history = learn(_fresh(study, bench), bench, f"try-{number}", training=rescaled(short, factor))
            loss = losses[factor] = history.losses[-1]
        except DivergedError as error:
            why, note = error, f"{note}: {error}"
        bench.readings.add("trial_loss", loss, step=number, note=note)
    if not losses:
        raise why
    return min(losses, key=lambda factor: losses[factor])


def rescaled(training: Training, factor: float) -> Training:
    """The training at another learning rate, with weights that a step shrinks as before."""
    old = training.optimizer
    return replace(training, optimizer=replace(old, lr=old.lr * factor, weight_decay=old.weight_decay / factor))


def _fresh(study: Heated, bench: Bench) -> Prepared:
    """The data, and the network with the same starting weights each time."""
    seed_all(mix(bench.seed, "work"))
    prepared = prepare(study, bench)
    prepared.net.to(bench.device)
    return prepared


def _ranks(prepared: Prepared, bench: Bench) -> list[Row]:
    """The ranks of the network as it is now, under a name of their own."""
    reading, name = prepared.study.reading, prepared.study.data.name
    test = Batches(*prepared.dataset.test, preprocess=prepared.preprocess, device=bench.device)
    own: dict[str, Any] = {"pool": reading.pool, "max_features": reading.max_features, "progress": bench.progress}
    found = scan(prepared.net, None, test, places="layers", measures=("rank",), name=name, **own)
    return [replace(row, measure="rank_before") for row in found.readings.rows if row.measure == "numerical_rank"]
