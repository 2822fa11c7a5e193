"""Turn the results of a pass into rows and arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from winze.measure import Moments, Probe, Value, spectra
from winze.measure.collapse import LastLayer
from winze.measure.registry import OF_MOMENTS, chosen
from winze.measure.streaming.stack import on_cpu
from winze.measure.value import wilson
from winze.observe.passes.embedding import embed_places
from winze.observe.passes.test_pass import NONE, Gathered
from winze.observe.places.find_places import Spot
from winze.place import Place
from winze.readings import Readings

SMALL = 1024
"""Moments of at most so many features are moved to the CPU: their measures take many small operations."""

DEVICES = ("cuda",)
"""Where they come from."""

KEPT = 1000
"""Test samples whose features are kept for embeddings and per-sample measures."""


@dataclass
class Store:
    """Stores the results on one data set and collects conventions."""

    readings: Readings
    data: str
    wanted: set[str]
    told: dict[str, Any] = field(default_factory=dict)

    def places(self, spots: Sequence[Spot], result: Gathered, probes: Sequence[Probe] | None) -> None:
        """The rows of each place, with probe heads and spectra."""
        spectra_found = spectra(result.moments) if chosen(self.wanted, ["spectrum"]) else []
        moments = list(result.moments)
        few = [i for i, each in enumerate(moments) if each.mean.device.type in DEVICES and each.features <= SMALL]
        for i, each in zip(few, on_cpu([moments[i] for i in few]), strict=True):
            moments[i] = each
        for i, spot in enumerate(spots):
            if probes is not None:
                self._probe(spot.place, probes[i], float(result.correct[i].double().mean()), len(result.labels))
            if moments:
                self._moments(spot.place, moments[i], spectra_found[i] if spectra_found else None)
            for measure in chosen(self.wanted, ["samples"]):
                features = result.kept[i]
                self._add(spot.place, measure.read(features, result.labels[: len(features)]), len(features))

    def pairs(self, spots: Sequence[Spot], result: Gathered, method: str | None) -> None:
        """Results of all places together: CKA and embeddings."""
        if result.cka is not None:
            result.cka.check([f"{self.data} test, place {spot.place.name!r}" for spot in spots])
            matrix = result.cka.matrix().cpu().numpy()
            if "cka" in self.wanted:
                self.readings.arrays["cka"] = matrix
                self.told["cka_notes"] = result.cka.notes()
            for measure in chosen(self.wanted, ["pairs"]):
                for name, values in measure.read_pairs(matrix).items():
                    for spot, value in zip(spots, values, strict=True):
                        self._add(spot.place, {name: value}, len(result.labels))
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
            note = "the network's output is not one row of logits per sample"
        elif result.logits != classes:
            note = f"the network has {result.logits} outputs, the data {classes} classes"
        elif renumbered:
            note = f"the labels in use are not 0 to {classes - 1}: they may not be what the network's outputs mean"
        elif broken:
            note = f"the network's output holds NaN for {broken} of {n} samples"
        layer = _last_layer(net, result, note)
        for measure in chosen(self.wanted):
            for name, value in measure.read_last_layer(layer).items():
                self.readings.add(name, value, place=result.layer or "", note=value.note, **where)
        if result.choice is None or note:
            self.readings.add("accuracy", float("nan"), note=note, **where)
            return
        correct = result.choice == result.labels
        right = float(correct.double().mean())
        low, high = wilson(right, n)
        self.readings.add("accuracy", right, low=low, high=high, **where)
        self.readings.arrays["correct/network"] = correct.numpy()
        self.told["relabelled_accuracy"] = result.relabelled()

    def _probe(self, place: Place, probe: Probe, right: float, n: int) -> None:
        low, high = wilson(right, n)
        note = getattr(probe, "note", "")
        self.readings.add("probe", right, place=place, data=self.data, split="test", low=low, high=high, n=n, note=note)
        for part in ("weight", "bias"):
            self.readings.arrays[f"probe/{self.data}/{place.index}/{part}"] = getattr(probe, part).float().cpu().numpy()

    def _moments(self, place: Place, moments: Moments, spectrum: Tensor | None) -> None:
        if spectrum is not None:
            spectrum = spectrum.cpu()
            if "rank" in self.wanted:
                self.readings.arrays[f"spectrum/{place.index}"] = spectrum.numpy()
        for measure in chosen(self.wanted, [*OF_MOMENTS, "spectrum"]):
            self._add(place, measure.read(spectrum if measure.needs == "spectrum" else moments), moments.n)

    def _add(self, place: Place, values: Mapping[str, Value], n: int) -> None:
        for name, value in values.items():
            self.readings.add(name, value, place=place, data=self.data, split="test", n=n, note=value.note)


def _last_layer(net: nn.Module, result: Gathered, note: str) -> LastLayer:
    """The network's final linear layer; a note where there is none or its outputs are other classes."""
    layer = net.get_submodule(result.layer) if result.layer is not None else None
    if note or not isinstance(layer, nn.Linear) or result.means is None:
        return LastLayer(None, None, why=note)
    return LastLayer(layer.weight, result.means, result.strays)
