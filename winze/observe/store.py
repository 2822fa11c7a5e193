"""From what a pass gathered to rows and arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from winze.depth import Place
from winze.measure import (
    Moments,
    Probe,
    Value,
    class_variance_of,
    effective_rank_of,
    frobenius_norm_of,
    missing,
    neural_collapse_of,
    numerical_rank_of,
    participation_ratio_of,
    sample_norm_of,
    self_duality,
    spectra,
)
from winze.measure.interval import wilson
from winze.measure.stack import on_cpu
from winze.observe.embedding import embed_places
from winze.observe.passes import NONE, Gathered
from winze.observe.places import Spot
from winze.readings import Readings

SMALL = 1024
"""Moments of no more features are brought to the CPU: their numbers take many small operations."""


@dataclass
class Store:
    """Where the results on one data set go."""

    readings: Readings
    data: str
    wanted: set[str]

    def places(self, spots: Sequence[Spot], result: Gathered, probes: Sequence[Probe] | None) -> None:
        """The rows of each place, with probe heads and spectra."""
        spectra_found = spectra(result.moments) if "rank" in self.wanted else []
        moments = result.moments
        if any(each.mean.is_cuda for each in moments) and max(each.features for each in moments) <= SMALL:
            moments = on_cpu(moments)
        for i, spot in enumerate(spots):
            if probes is not None:
                self._probe(spot.place, probes[i], float(result.correct[i].double().mean()), len(result.labels))
            if moments:
                self._moments(spot.place, moments[i], spectra_found[i] if spectra_found else None)

    def pairs(self, spots: Sequence[Spot], result: Gathered, method: str | None) -> None:
        """What belongs to all places together: CKA, and the pictures."""
        if result.cka is not None:
            result.cka.check([f"{self.data} test, place {spot.place.name!r}" for spot in spots])
            self.readings.arrays["cka"] = result.cka.matrix().cpu().numpy()
            self.readings.conventions["cka_notes"] = result.cka.notes()
        if method is not None and result.kept:
            points = embed_places([spot.place.index for spot in spots], result.kept, method)
            self.readings.arrays.update({f"embedding/{index}": xy for index, xy in points.items()})
            self.readings.arrays["embedding/labels"] = result.labels[: len(result.kept[0])].numpy()

    def network(self, net: nn.Module, result: Gathered, classes: int, renumbered: bool) -> None:
        """The network's own accuracy, and the collapse of its last layer, where its outputs match the labels."""
        n = len(result.labels)
        where: dict[str, Any] = {"data": self.data, "split": "test", "n": n}
        note = ""
        broken = 0 if result.choice is None else int((result.choice == NONE).sum())
        if result.choice is None:
            note = "the network's output is not a row of logits a sample"
        elif result.logits != classes:
            note = f"the network has {result.logits} outputs, the data {classes} classes"
        elif renumbered:
            note = f"the labels that count are not 0 to {classes - 1}: they may not be what the network's outputs mean"
        elif broken:
            note = f"the network's output holds NaN for {broken} of {n} samples"
        if "collapse" in self.wanted:
            for measure, value in self._last_layer(net, result, note).items():
                self.readings.add(measure, value, place=result.layer or "", note=value.note, **where)
        if result.choice is None or note:
            self.readings.add("accuracy", float("nan"), note=note, **where)
            return
        correct = result.choice == result.labels
        right = float(correct.double().mean())
        low, high = wilson(right, n)
        self.readings.add("accuracy", right, low=low, high=high, **where)
        self.readings.arrays["correct/network"] = correct.numpy()
        self.readings.conventions["relabelled_accuracy"] = result.relabelled()

    def _last_layer(self, net: nn.Module, result: Gathered, note: str) -> dict[str, Value]:
        """NC3 and NC4 of the linear layer that the network ends in; a note where there is none or it means others."""
        layer = net.get_submodule(result.layer) if result.layer is not None else None
        if note or not isinstance(layer, nn.Linear) or result.means is None:
            why = missing(note or "the network does not end in a linear layer")
            return {"nc3": why, "nc4": why}
        nc4 = missing("needs train data with probes: the class means of its samples")
        if result.strays is not None:
            nc4 = Value(float(result.strays.double().mean()))
        return {"nc3": self_duality(result.means, layer.weight), "nc4": nc4}

    def _probe(self, place: Place, probe: Probe, right: float, n: int) -> None:
        low, high = wilson(right, n)
        note = getattr(probe, "note", "")
        self.readings.add("probe", right, place=place, data=self.data, split="test", low=low, high=high, n=n, note=note)
        for part in ("weight", "bias"):
            self.readings.arrays[f"probe/{self.data}/{place.index}/{part}"] = getattr(probe, part).float().cpu().numpy()

    def _moments(self, place: Place, moments: Moments, spectrum: Tensor | None) -> None:
        values: dict[str, float] = {}
        if spectrum is not None:
            spectrum = spectrum.cpu()
            values["numerical_rank"] = numerical_rank_of(spectrum)
            values["effective_rank"] = effective_rank_of(spectrum)
            values["participation_ratio"] = participation_ratio_of(spectrum)
            self.readings.arrays[f"spectrum/{place.index}"] = spectrum.numpy()
        if "variance" in self.wanted:
            values["intra_variance"], values["inter_variance"] = class_variance_of(moments)
        if "collapse" in self.wanted:
            signs = neural_collapse_of(moments)
            values.update(nc1=signs.nc1, nc2_norm=signs.nc2_norm, nc2_angle=signs.nc2_angle)
        if "norm" in self.wanted:
            values.update(sample_norm=sample_norm_of(moments), frobenius_norm=frobenius_norm_of(moments))
        for measure, value in values.items():
            note = getattr(value, "note", "")
            self.readings.add(measure, float(value), place=place, data=self.data, split="test", n=moments.n, note=note)
