"""The course of a training: every layer is read during it, and networks are compared at the same training loss."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from winze.lab import Bench, RunNumber, Study, learn, prepare, read
from winze.lab.study import ood_sets, steps_of, watch
from winze.measure import missing
from winze.readings import Readings
from winze.report.experiment import Drawing, PointRuns, UnreadError
from winze.report.experiment.drawing import name_of
from winze.report.experiment.stored_curves import Line, Panels, Words, stored_curves
from winze.train import Epochs

LOSS, MOST = "train_loss", 1 << 30  # OOD sets are read whole
COURSE = {one: f"{one}_while_training" for one in ("probe", "accuracy", "numerical_rank")}
"""measures of a scan, and the names under which they are stored during training"""


def follow(study: Study, bench: Bench) -> None:
    """Train a network, store probes, ranks, OOD probes and the training loss of its course, and read it at the end."""
    prepared = prepare(study, bench)
    assert study.watching is not None
    probed = replace(study.watching, measures=("probe",), samples=MOST, probe_samples=MOST)
    others = [watch(prepared, probed, study.training, bench, other) for other in ood_sets(study)[0]]
    history = learn(prepared, bench, followers=others)
    read(prepared, bench)
    if not bench.writes:
        return
    name, samples = study.data.name, len(prepared.dataset.train_labels)
    bench.readings.add("epoch_steps", steps_of(Epochs(1), samples, study.training), data=name)
    for row in history.metrics:
        bench.readings.add(LOSS, row["loss"], data=name, split="train", step=int(row["step"]))
    for one in others:
        probes = (row for row in one.readings.rows if row.measure == "probe")
        bench.readings.rows.extend(replace(row, measure=COURSE["probe"]) for row in probes)


def scans(readings: Readings) -> list[tuple[float, Readings]]:
    """What was read after each epoch, in their order: its training loss, and the measures under their usual names."""
    losses = {row.step: row.value for row in readings.rows if row.measure == LOSS}
    stored, found = {name: measure for measure, name in COURSE.items()}, dict[int, Readings]()
    for row in readings.rows:
        if row.measure in stored and row.step is not None and row.step in losses:
            then = found.setdefault(row.step, Readings(conventions=readings.conventions))
            then.rows.append(replace(row, measure=stored[row.measure], step=None))
    if not found:
        raise UnreadError("the course of the training was not read")
    return [(losses[step], found[step]) for step in sorted(found)]


@dataclass(frozen=True)
class AtLoss(RunNumber):
    """A number of a scan, of the network as it was when its training loss was first at most `loss`."""

    number: RunNumber
    loss: float

    @property
    def measures(self) -> tuple[str, ...]:
        return (LOSS, *(COURSE[one] for one in self.number.measures))

    def __str__(self) -> str:
        return f"{self.number} at a training loss of {self.loss:g}"

    def __call__(self, readings: Readings) -> float:
        then = self._then(readings)
        why = f"no epoch that was read has a training loss of at most {self.loss:g}"
        return missing(why) if then is None else self.number(then)

    def spread(self, readings: Readings) -> tuple[float, float] | None:
        then = self._then(readings)
        return None if then is None else self.number.spread(then)

    def _then(self, readings: Readings) -> Readings | None:
        return next((one for loss, one in scans(readings) if loss <= self.loss), None)


def over_loss(title: str, numbers: Mapping[str, RunNumber], colour: str, panel: str) -> Drawing:
    """Numbers of networks in training over their training loss: one dot per epoch that was read and seed."""

    def told(runs: PointRuns) -> Panels:
        panels: Panels = {}
        for (point, seeds), (up, number) in product(runs.items(), numbers.items()):
            lines = panels.setdefault(Words(str(point[panel]), "training loss", up, "x"), [])
            for readings in seeds:
                pairs = np.array([(loss, float(number(then))) for loss, then in scans(readings)])
                kept = pairs[np.isfinite(pairs[:, 1])]
                lines += [Line(name_of(colour, point[colour]), *kept.T)] if len(kept) else []
        return panels

    return stored_curves(title, told)
